# fish completion for xlock

# __xlock_lock splits the words behind 'xlock run' or 'xlock flock', without the one
# at the cursor, and prints what stands behind the lock. It fails before the lock.
function __xlock_lock
    set -l words (commandline -opc)
    contains -- "$words[2]" run flock; or return
    set -l by_descriptor no
    set -e words[1..2]
    while set -q words[1]
        switch $words[1]
            case --
                set -e words[1]
                break
            case --fd
                set -q words[2]; or return
                set by_descriptor yes
                set -e words[1..2]
            case --wait --timeout --conflict-exit-code --label --status-fd --start --length
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
    if test $by_descriptor = no
        set -q words[1]; or return
        set -e words[1]
    end
    test "$words[1]" = --; and set -e words[1]
    string join -- \n $words
    return 0
end

# __xlock_before_command is true behind one of these commands, but before its lock.
function __xlock_before_command
    __xlock_with $argv; and not __xlock_lock >/dev/null
end

# __xlock_command completes the command behind the lock as if it stood alone.
function __xlock_command
    set -l words (__xlock_lock)
    complete -C (string join -- ' ' (string escape -- $words) (commandline -ct))
end

# __xlock_with is true behind one of these commands.
function __xlock_with
    set -l words (commandline -opc)
    contains -- "$words[2]" $argv
end

complete -c xlock -f
complete -c xlock -n __fish_use_subcommand -a run -d 'run a command while holding a lock'
complete -c xlock -n __fish_use_subcommand -a inspect -d 'say who holds a lock'
complete -c xlock -n __fish_use_subcommand -a reclaim -d 'free a lock whose holder is proven gone'
complete -c xlock -n __fish_use_subcommand -a flock -d 'do what flock(1) does'
complete -c xlock -n __fish_use_subcommand -a version -d 'print the version'
complete -c xlock -n __fish_use_subcommand -a help -d 'help about a command'
complete -c xlock -n '__xlock_with help' -a 'run inspect reclaim flock version'
complete -c xlock -n '__fish_use_subcommand; or __xlock_before_command run flock; or __xlock_with inspect reclaim version' -s h -l help -d 'show help'

complete -c xlock -n '__xlock_before_command run flock' -F
complete -c xlock -n '__xlock_lock >/dev/null' -a '(__xlock_command)'
complete -c xlock -n '__xlock_before_command run' -s s -l shared -d 'let other shared holders in'
complete -c xlock -n '__xlock_before_command run' -s n -l no-wait -d 'fail at once if the lock is busy'
complete -c xlock -n '__xlock_before_command run' -s w -l wait -x -d 'wait at most this long'
complete -c xlock -n '__xlock_before_command run' -s E -l conflict-exit-code -x -d 'status for a busy lock'
complete -c xlock -n '__xlock_before_command run' -s F -l no-fork -d 'replace xlock by the command'
complete -c xlock -n '__xlock_before_command run' -s o -l close -d 'do not pass the descriptor of the lock on'
complete -c xlock -n '__xlock_before_command run' -l label -x -d 'a note for others who see the lock held'
complete -c xlock -n '__xlock_before_command run' -l status-fd -x -d 'write what happens to this descriptor'
complete -c xlock -n '__xlock_before_command run' -s q -l quiet -d 'no messages about waiting or a busy lock'
complete -c xlock -n '__xlock_before_command run' -s v -l verbose -d 'say when the lock is taken and released'

complete -c xlock -n '__xlock_before_command flock' -s s -l shared -d 'take a shared lock'
complete -c xlock -n '__xlock_before_command flock' -s x -s e -l exclusive -d 'take an exclusive lock'
complete -c xlock -n '__xlock_before_command flock' -s u -l unlock -d 'give a lock up'
complete -c xlock -n '__xlock_before_command flock' -s n -l nb -l nonblocking -d 'do not wait for a busy lock'
complete -c xlock -n '__xlock_before_command flock' -s w -l wait -l timeout -x -d 'wait at most so many seconds'
complete -c xlock -n '__xlock_before_command flock' -s E -l conflict-exit-code -x -d 'status for a busy lock'
complete -c xlock -n '__xlock_before_command flock' -s o -l close -d 'do not pass the descriptor of the lock on'
complete -c xlock -n '__xlock_before_command flock' -s c -l command -d 'have $SHELL run the command'
complete -c xlock -n '__xlock_before_command flock' -s F -l no-fork -d 'become the command'
complete -c xlock -n '__xlock_before_command flock' -l fcntl -d 'lock with fcntl(2)'
complete -c xlock -n '__xlock_before_command flock' -l start -x -d 'first byte to lock'
complete -c xlock -n '__xlock_before_command flock' -l length -x -d 'bytes to lock, 0 for all'
complete -c xlock -n '__xlock_before_command flock' -l fd -x -d 'lock this descriptor'
complete -c xlock -n '__xlock_before_command flock' -l verbose -d 'say how long it took, and what is run'
complete -c xlock -n '__xlock_before_command flock' -s V -l version -d 'print the version'

complete -c xlock -n '__xlock_with inspect reclaim' -F
complete -c xlock -n '__xlock_with inspect' -l json -d 'print one JSON object per lock'
complete -c xlock -n '__xlock_with inspect' -l watch -d 'look on, until interrupted'
complete -c xlock -n '__xlock_with inspect' -l is -x -a 'free held abandoned unknown' -d 'succeed if in this state'

complete -c xlock -n '__xlock_with reclaim' -l dry-run -d 'change nothing, say what would be done'
complete -c xlock -n '__xlock_with reclaim' -l force -d 'break the lock of a holder that may live'
complete -c xlock -n '__xlock_with reclaim' -l if-generation -x -d 'leave any other generation alone'
complete -c xlock -n '__xlock_with reclaim' -l json -d 'print one JSON object per lock'
