# bash completion for xlock; needs the bash-completion package.

# _xlock_files completes the operands of commands that take lock files alone.
_xlock_files() {
	if [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W "$*" -- "$cur"))
	else
		_filedir
	fi
}

# _xlock_run completes the lock, and behind it the command as if it stood alone.
_xlock_run() {
	local i=2
	while ((i < cword)); do
		case ${words[i]} in
		--) ((i++)); break ;;
		--wait | --conflict-exit-code | --label | --status-fd | -[!-]*([!-])[wE] | -[wE]) ((i += 2)) ;;
		-?*) ((i++)) ;;
		*) break ;;
		esac
	done
	((i > cword)) && return # the value of a flag
	if ((i == cword)); then
		_xlock_files -n --no-wait -w --wait -E --conflict-exit-code -F --no-fork -o --close \
			--label --status-fd -q --quiet -v --verbose -h --help
		return
	fi
	((i++))
	[[ $i -lt $cword && ${words[i]} == -- ]] && ((i++))
	_command_offset "$i"
}

_xlock() {
	local cur prev words cword
	_init_completion -n = || return
	if ((cword == 1)); then
		COMPREPLY=($(compgen -W 'run inspect reclaim version help -h --help' -- "$cur"))
		return
	fi
	case ${words[1]} in
	run) _xlock_run ;;
	inspect)
		case $prev in
		--is) COMPREPLY=($(compgen -W 'free held abandoned unknown' -- "$cur")) ;;
		*) _xlock_files --json --watch --is -h --help ;;
		esac
		;;
	reclaim)
		case $prev in
		--if-generation) ;;
		*) _xlock_files --dry-run --force --if-generation --json -h --help ;;
		esac
		;;
	version) COMPREPLY=($(compgen -W '-h --help' -- "$cur")) ;;
	help) COMPREPLY=($(compgen -W 'run inspect reclaim version' -- "$cur")) ;;
	esac
}

complete -F _xlock xlock
