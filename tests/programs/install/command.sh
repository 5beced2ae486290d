#!/bin/bash
# The command umem: the arguments and variables that it passes to the program,
# its exit status, and its help.
set -u
umem=$B/umem

expect() {
	local want=$1 text=$2 got

	shift 2
	"$@" >said 2>&1
	got=$?
	if [ "$got" -ne "$want" ] || { [ -n "$text" ] && ! grep -Eq -e "$text" said; }; then
		echo "$*: status $got instead of $want, or no '$text' in:"
		cat said
		exit 1
	fi
}

expect 0 '^umem [0-9]+\.[0-9]+\.[0-9]+$' "$umem" version
expect 0 '^usage: umem COMMAND' "$umem" help
expect 125 '^usage: umem COMMAND' "$umem"
expect 125 '^umem: no command fly; see umem help$' "$umem" fly
expect 125 '^umem: no command leks; did you mean leaks\? see umem help$' \
    "$umem" leks
expect 125 '^umem: version takes no argument$' "$umem" version x
expect 0 '^umem [0-9]+\.[0-9]+\.[0-9]+$' "$umem" -V
# The summary of the commands fits a small terminal.
"$umem" help >said
if [ "$(wc -l <said)" -gt 25 ] || grep -E '.{81}' said; then
	cat said
	exit 1
fi
expect 0 '^usage: umem COMMAND' "$umem" -h

# A wrong use of a command: the reason, in one line, then the usage.
wrong() {
	local text=$1

	shift
	expect 2 "^usage: umem $1 " "$umem" "$@"
	[ "$(head -n 1 said)" = "umem: $1: $text" ] && return
	echo "umem $*: no '$text' in:"
	cat said
	exit 1
}
wrong 'no argument is given' leaks
wrong 'one argument too many: 2' stat 1 2 3
wrong 'an argument is missing' grep 1
wrong "invalid option -- 'x'" leaks -x $$
wrong "unrecognized option '--nosuch'" stat $$ --nosuch
wrong "option requires an argument -- 'c'" leaks -c
wrong '-n takes at least 1' top -n 0 $$
wrong '--json: see umem status, stat and ps' top --json $$
wrong '-l takes transaction, fail or slab' log -l nosuch $$
wrong '-s takes allocated or free' log -s nosuch $$

# Messages of commands that run at the same time do not mix: one write each.
if command -v strace >/dev/null; then
	strace -o calls -e trace=write "$umem" status 999999999 2>/dev/null
	[ "$(grep -c '^write(2' calls)" = 1 ] || { cat calls; exit 1; }
fi
expect 2 '^umem: 999999999: no such process$' "$umem" status 999999999
expect 2 '^umem: 999999999: no such process$' "$umem" 999999999
expect 2 '^umem: /etc/passwd: not a core file$' "$umem" /etc/passwd
expect 2 '^umem: [0-9]+: does not run on umem' "$umem" status $$
expect 2 '^umem: /etc/passwd: not a core file$' "$umem" leaks /etc/passwd
expect 2 '^umem: nosuch: No such file' "$umem" leaks nosuch
expect 125 '^umem: run: no program given' "$umem" run -v --
expect 125 '^umem: run: no option -x' "$umem" run -x true
expect 127 '^umem: run: nosuch: No such file' "$umem" run nosuch
expect 126 '^umem: run: /etc/passwd: Permission denied$' \
    "$umem" run /etc/passwd
expect 3 '' "$umem" run -- sh -c 'exit 3'
expect 0 "^LD_PRELOAD=$SHIM\$" env -u LD_PRELOAD "$umem" run env
expect 0 "^LD_PRELOAD=$SHIM:$B/libumem.so.1\$" \
    env LD_PRELOAD="$B/libumem.so.1" "$umem" run env
expect 0 '^UMEM_OPTIONS=nomagazines,verbose$' \
    env UMEM_OPTIONS=nomagazines "$umem" run -v env
expect 0 '^umem: [0-9.]+ mode (rseq|locked) ' "$umem" run -v true
expect 0 '^umem: [0-9.]+ mode locked ' \
    env UMEM_OPTIONS=mode=locked "$umem" run -v true

# The options that differ from the defaults, and nothing else.
env UMEM_OPTIONS=depot_bytes=4m,rcu_delay=10 UMEM_DEBUG='guards:none*' \
    "$umem" run -v true 2>said
grep -v ' mode ' said >changes
printf '%s\n' 'umem: UMEM_OPTIONS: depot_bytes=4m (default 16m)' \
    'umem: UMEM_DEBUG: guards:none*' | diff - changes || exit 1

# All options, on standard output; wrong words are reported as always.
expect 125 '^umem: options takes no argument$' "$umem" options x
env UMEM_OPTIONS=depot_bytes=4m,nosuchword UMEM_DEBUG=guards \
    "$umem" options >list 2>errors
[ ! -s errors ] || { cat errors; exit 1; }
expect 0 "^umem: UMEM_OPTIONS: 'nosuchword' not recognized\$" cat list
expect 0 '^ +16m by default, up to 1g; now 4m$' cat list
expect 0 '^ .*redzones; now on$' cat list
expect 0 '^UMEM_LOGGING$' cat list
[ "$(grep -c '; now ' list)" -eq 3 ] || { grep '; now ' list; exit 1; }

# The library beside the command, then in ../lib.
mkdir -p moved/bin moved/lib
cp "$umem" moved/bin
cp "$SHIM" moved/lib
expect 0 "^LD_PRELOAD=$TMP/moved/lib/libumem_malloc.so.1\$" \
    env -u LD_PRELOAD moved/bin/umem run env
cp "$SHIM" moved/bin
expect 0 "^LD_PRELOAD=$TMP/moved/bin/libumem_malloc.so.1\$" \
    env -u LD_PRELOAD moved/bin/umem run env

# "umem help CMD" and "umem CMD --help" print the usage, the purpose and an
# example of each command, and each example runs.  One needs a core.
set -e
fail() {
	echo "$*"
	exit 1
}
command -v gcore >/dev/null || exit 0
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
"$umem" leeks 1 2>err && fail "a wrong use has status 0"
grep -qx 'umem: no command leeks; did you mean leaks? see umem help' err ||
    fail "leeks: $(cat err)"
"$umem" help statu 2>err && fail "a wrong use has status 0"
grep -q 'did you mean status?' err || fail "help statu: $(cat err)"
"$umem" help a b 2>err && fail "a wrong use has status 0"
grep -qx 'umem: help takes at most one argument' err || fail "help a b: $(cat err)"
"$umem" leaks 2>err && fail "a wrong use has status 0"
grep -qx 'see umem help leaks' err || fail "leaks: $(cat err)"
# Words of a program to run are not for the command.
[ "$("$umem" run printf %s --help)" = --help ] || fail "run printf"
[ "$("$umem" run -- printf %s --help)" = --help ] || fail "run -- printf"
