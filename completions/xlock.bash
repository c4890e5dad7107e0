# bash completion for xlock; needs the bash-completion package.

# _xlock_files completes the operands of commands that take lock files alone.
_xlock_files() {
	if [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W "$*" -- "$cur"))
	else
		_filedir
	fi
}

# _xlock_lock completes the lock, and behind it the command as if it stood alone.
# Its arguments are the flags.
_xlock_lock() {
	local i=2 locked=
	while ((i < cword)); do
		case ${words[i]} in
		--) ((i++)); break ;;
		--fd) ((i += 2)); locked=1 ;; # by a descriptor: no file follows
		--wait | --timeout | --conflict-exit-code | --label | --status-fd | --start | --length | -[!-]*([!-])[wE] | -[wE]) ((i += 2)) ;;
		-?*) ((i++)) ;;
		*) break ;;
		esac
	done
	((i > cword)) && return # the value of a flag
	if [[ ! $locked || $cur == -* ]] && ((i == cword)); then
		_xlock_files "$@"
		return
	fi
	[[ $locked ]] || ((i++))
	[[ $i -lt $cword && ${words[i]} == -- ]] && ((i++))
	_command_offset "$i"
}

_xlock() {
	local cur prev words cword
	_init_completion -n = || return
	if ((cword == 1)); then
		COMPREPLY=($(compgen -W 'run inspect reclaim flock version help -h --help' -- "$cur"))
		return
	fi
	case ${words[1]} in
	run)
		_xlock_lock -s --shared -n --no-wait -w --wait -E --conflict-exit-code -F --no-fork -o --close \
			--label --status-fd -q --quiet -v --verbose -h --help
		;;
	flock)
		_xlock_lock -s --shared -x -e --exclusive -u --unlock -n --nb --nonblocking -w --wait --timeout \
			-E --conflict-exit-code -o --close -c --command -F --no-fork --fcntl --start --length --fd \
			--verbose -h --help -V --version
		;;
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
	help) COMPREPLY=($(compgen -W 'run inspect reclaim flock version' -- "$cur")) ;;
	esac
}

complete -F _xlock xlock
