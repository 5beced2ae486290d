#!/bin/bash
# "umem help CMD" and "umem CMD --help" print the usage, the purpose and an
# example of each command, and each example runs.
set -eu
umem=$B/umem

fail() {
	echo "$*"
	exit 1
}

"$umem" help >summary
mapfile -t commands < <(awk '/^  / { print $1 }' summary)
[ ${#commands[@]} -ge 15 ] || fail "${#commands[@]} commands: ${commands[*]}"

# Processes for the examples, in place of 1234: one with records of all blocks,
# one that may be sampled, of which there is a core, too.
LD_PRELOAD=$SHIM UMEM_DEBUG=default UMEM_LOGGING=transaction \
    sh -c 'echo; exec sleep 600' >ready_debugged &
debugged=$!
LD_PRELOAD=$SHIM sh -c 'echo; exec sleep 600' >ready_plain &
plain=$!
trap 'kill $debugged $plain' EXIT
while [ ! -s ready_debugged ] || [ ! -s ready_plain ] ||
    [ "$(cat /proc/$debugged/comm)$(cat /proc/$plain/comm)" != sleepsleep ] ||
    ! "$umem" status $debugged >/dev/null 2>&1 ||
    ! "$umem" status $plain >/dev/null 2>&1; do
	kill -0 $debugged && kill -0 $plain
	sleep 0.1
done
address=$("$umem" walk $debugged allocated | head -1)
ln -s /bin/true program
touch core
gcore -o core $plain >/dev/null 2>&1 || fail "no core"

# runs EXAMPLE PID - whether the example, with this process, is a right use
runs() {
	local text=${1%%|*} status=0

	text=${text%%>*}
	text=${text//1234/$2}
	text=${text/55d2c8a4f040/$address}
	# shellcheck disable=SC2086 # words
	"$umem" ${text#umem } >out 2>err || status=$?
	# Of processes that this user may not look at, umem ps says how many.
	[ $status -le 1 ] && ! grep -v 'no permission to look at' err |
	    grep -q '^umem: \|^usage: '
}

for command in "${commands[@]}"; do
	"$umem" help "$command" >one || fail "help $command: status $?"
	"$umem" "$command" --help >two || fail "$command --help: status $?"
	cmp one two || fail "$command: two helps"
	head -1 one | grep -q "^usage: umem $command\( \|$\)" ||
	    fail "$command: no usage in: $(cat one)"
	grep -q '^Example: ' one || fail "$command: no example"
	example=$(sed -n 's/^    \$ //p' one)
	[[ $example == "umem $command"* ]] || fail "$command: example $example"
	! awk 'length($0) > 80' one | grep . || fail "$command: a long line"
	runs "$example" $plain || runs "$example" $debugged ||
	    fail "$example: $(cat err)"
done

# A mistyped command, and a wrong use.
"$umem" leeks 1 2>err && exit 1
grep -qx 'umem: no command leeks; did you mean leaks? see umem help' err
"$umem" help statu 2>err && exit 1
grep -q 'did you mean status?' err
"$umem" help a b 2>err && exit 1
grep -qx 'umem: help takes at most one argument' err
"$umem" leaks 2>err && exit 1
grep -qx 'see umem help leaks' err
# Words of a program to run are not for the command.
[ "$("$umem" run printf %s --help)" = --help ]
[ "$("$umem" run -- printf %s --help)" = --help ]
