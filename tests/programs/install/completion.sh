#!/bin/bash
# The completions for bash and zsh offer the commands, the options and the
# processes that the command itself names.
set -eu
PATH=$B:$PATH
{
	umem help | awk '/^  / { print $1 }'
	printf 'help\nversion\n'
} | sort >commands
LD_PRELOAD=$SHIM sleep 600 &
pid=$!
trap 'kill $pid' EXIT
until umem ps 2>/dev/null | grep -q "^ *$pid "; do
	kill -0 $pid
	sleep 0.1
done
touch core.1 program

cat >ask.bash <<'END2'
. "$TOP/tools/completion/umem.bash"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_umem
printf '%s\n' "${COMPREPLY[@]}"
END2
# Functions of zsh's completion that print the words that they would offer.
cat >ask.zsh <<'END2'
compadd() {
	[[ $1 == -a ]] && print -l -- ${(P)2}
}
_files() { print -l -- * }
_command_names() { whence -pm '*' | sed 's|.*/||' }
_normal() { print -l -- "the completion of $words[CURRENT-1]" }
words=("$@")
CURRENT=$#
set --
. "$TOP/tools/completion/_umem"
END2

# offers WORD... - the completions of the last of these words
offers() {
	if [ "$shell" = bash ]; then
		bash --norc ask.bash "$@"
	else
		zsh -f ask.zsh "$@" | { grep -e "^${!#}" || true; }
	fi | { grep . || true; } | sort -u
}

# same TEXT WORDS - the words are offered and nothing else
same() {
	# shellcheck disable=SC2086 # words
	diff <(printf '%s\n' $2 | grep . | sort) offered >difference || {
		echo "$shell: $1: < expected, > offered"
		cat difference
		exit 1
	}
}

for shell in bash zsh; do
	command -v $shell >/dev/null || continue
	offers umem '' >offered
	diff commands offered || { echo "$shell: commands"; exit 1; }
	offers umem le >offered
	same "umem le" leaks
	offers umem help sta >offered
	same "umem help sta" "stat status"
	offers umem grep - >offered
	same "options of grep" "-q -d --force --json --help"
	offers umem run --l >offered
	same "options of run" --leaks
	offers umem run --d >offered
	same "options with a value" --debug
	offers umem status $pid >offered
	same "a process" $pid
	offers umem status al >offered
	same "the row of the sums" ""
	offers umem status core >offered
	same "a core" core.1
	offers umem ctl core >offered
	same "no core" ""
	offers umem leaks core.1 '' >offered
	same "one target" ""
	offers umem top -s '' >offered
	same "the value of an option" ""
	offers umem top -s loads $pid >offered
	same "a process behind options" $pid
	offers umem diff core >offered
	same "a look" core.1
	offers umem diff core.1 $pid >offered
	same "the second look" $pid
	offers umem options '' >offered
	same "no argument" ""
	offers umem run -v slee >offered
	grep -qx sleep offered || { echo "$shell: no program"; exit 1; }
done
[ -n "$(command -v zsh)" ] || echo "no zsh"
