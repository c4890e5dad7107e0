# fish completion for xlock

# __xlock_run splits the words behind 'xlock run', without the one at the cursor,
# and prints what stands behind the lock. It fails before the lock.
function __xlock_run
    set -l words (commandline -opc)
    test "$words[2]" = run; or return
    set -e words[1..2]
    while set -q words[1]
        switch $words[1]
            case --
                set -e words[1]
                break
            case --wait --conflict-exit-code --label --status-fd
                set -q words[2]; or return
                set -e words[1..2]
            case '--*'
                set -e words[1]
            case '-*w' '-*E'
                set -q words[2]; or return
                set -e words[1..2]
            case '-*'
                set -e words[1]
            case '*'
                break
        end
    end
    set -q words[1]; or return
    set -e words[1]
    test "$words[1]" = --; and set -e words[1]
    string join -- \n $words
    return 0
end

function __xlock_before_command
    __fish_seen_subcommand_from run; and not __xlock_run >/dev/null
end

# __xlock_command completes the command behind the lock as if it stood alone.
function __xlock_command
    set -l words (__xlock_run)
    complete -C (string join -- ' ' (string escape -- $words) (commandline -ct))
end

# __xlock_with is true behind a command other than run.
function __xlock_with
    set -l words (commandline -opc)
    contains -- "$words[2]" $argv
end

complete -c xlock -f
complete -c xlock -n __fish_use_subcommand -a run -d 'run a command while holding a lock'
complete -c xlock -n __fish_use_subcommand -a inspect -d 'say who holds a lock'
complete -c xlock -n __fish_use_subcommand -a reclaim -d 'free a lock whose holder is proven gone'
complete -c xlock -n __fish_use_subcommand -a version -d 'print the version'
complete -c xlock -n __fish_use_subcommand -a help -d 'help about a command'
complete -c xlock -n '__xlock_with help' -a 'run inspect reclaim version'
complete -c xlock -n '__fish_use_subcommand; or __xlock_before_command; or __xlock_with inspect reclaim version' -s h -l help -d 'show help'

complete -c xlock -n __xlock_before_command -F
complete -c xlock -n '__xlock_run >/dev/null' -a '(__xlock_command)'
complete -c xlock -n __xlock_before_command -s n -l no-wait -d 'fail at once if the lock is busy'
complete -c xlock -n __xlock_before_command -s w -l wait -x -d 'wait at most this long'
complete -c xlock -n __xlock_before_command -s E -l conflict-exit-code -x -d 'status for a busy lock'
complete -c xlock -n __xlock_before_command -s F -l no-fork -d 'replace xlock by the command'
complete -c xlock -n __xlock_before_command -s o -l close -d 'do not pass the descriptor of the lock on'
complete -c xlock -n __xlock_before_command -l label -x -d 'a note for others who see the lock held'
complete -c xlock -n __xlock_before_command -l status-fd -x -d 'write what happens to this descriptor'
complete -c xlock -n __xlock_before_command -s q -l quiet -d 'no messages about waiting or a busy lock'
complete -c xlock -n __xlock_before_command -s v -l verbose -d 'say when the lock is taken and released'

complete -c xlock -n '__xlock_with inspect reclaim' -F
complete -c xlock -n '__xlock_with inspect' -l json -d 'print one JSON object per lock'
complete -c xlock -n '__xlock_with inspect' -l watch -d 'look on, until interrupted'
complete -c xlock -n '__xlock_with inspect' -l is -x -a 'free held abandoned unknown' -d 'succeed if in this state'

complete -c xlock -n '__xlock_with reclaim' -l dry-run -d 'change nothing, say what would be done'
complete -c xlock -n '__xlock_with reclaim' -l force -d 'break the lock of a holder that may live'
complete -c xlock -n '__xlock_with reclaim' -l if-generation -x -d 'leave any other generation alone'
complete -c xlock -n '__xlock_with reclaim' -l json -d 'print one JSON object per lock'
