# umem.bash - completion of the command umem for bash
#
# The commands, their options and their arguments come from "umem help", so this
# file knows none of them.  The processes come from "umem ps".
#
# shellcheck shell=bash

# _umem_commands UMEM - the names of all commands
_umem_commands() {
	"$1" help 2>/dev/null | awk '
	    /^  / { print $1 }
	    END { print "help"; print "version" }'
}

# _umem_usage UMEM COMMAND - the words of its usage, one a line, without brackets
_umem_usage() {
	"$1" help "$2" 2>/dev/null |
	    awk '/^$/ { exit } { gsub(/[][|]/, " "); print }' | tr -s ' ' '\n'
}

# _umem_options UMEM COMMAND - its options; -df stands for -d and -f
_umem_options() {
	_umem_usage "$1" "$2" | awk '
	    /^--[a-z]/ { sub(/=.*/, ""); print }
	    /^-[A-Za-z]+$/ {
		for (i = 2; i <= length($0); i++)
			print "-" substr($0, i, 1)
	    }'
	echo --help
}

# _umem_takes_value WORD - is it an option with a value in the usage?
_umem_takes_value() {
	[[ $1 == -? ]] && grep -x -A 1 -e "$1" | grep -q '^[a-z]'
}

# _umem_processes UMEM - the processes that run on umem
_umem_processes() {
	"$1" ps 2>/dev/null | awk '$1 + 0 { print $1 }'
}

_umem() {
	local umem=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]}
	local command=${COMP_WORDS[1]-} i words

	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ] || [ "$command" = help ]; then
		[ "$COMP_CWORD" -le 2 ] || return
		mapfile -t COMPREPLY < <(
			compgen -W "$(_umem_commands "$umem")" -- "$word")
		return
	fi
	if [ "$command" = run ]; then
		# The words of the program to run have its own completion.
		for ((i = 2; i < COMP_CWORD; i++)); do
			case ${COMP_WORDS[i]} in
			-*) continue ;;
			esac
			if declare -F _command_offset >/dev/null; then
				_command_offset "$i"
			else
				mapfile -t COMPREPLY < <(compgen -f -- "$word")
			fi
			return
		done
	fi
	case $command/$word in
	*/-*)
		mapfile -t COMPREPLY < <(
			compgen -W "$(_umem_options "$umem" "$command")" -- "$word")
		return
		;;
	run/*)
		mapfile -t COMPREPLY < <(compgen -c -- "$word")
		return
		;;
	esac
	words=$(_umem_usage "$umem" "$command")
	! _umem_takes_value "${COMP_WORDS[COMP_CWORD - 1]}" <<<"$words" || return
	# Only diff has two targets.
	for ((i = 2; i < COMP_CWORD; i++)); do
		[ "$command" != diff ] || break
		[[ ${COMP_WORDS[i]} != -* ]] || continue
		! _umem_takes_value "${COMP_WORDS[i - 1]}" <<<"$words" || continue
		return
	done
	grep -qxE 'PID|BEFORE' <<<"$words" || return
	mapfile -t COMPREPLY < <(
		compgen -W "$(_umem_processes "$umem")" -- "$word"
		# A core, a dump and a look that was saved are files.
		! grep -qxE 'CORE|BEFORE' <<<"$words" ||
		    compgen -f -- "$word")
}

complete -F _umem umem
