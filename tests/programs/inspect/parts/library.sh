# library.sh - functions for the tests of umem's inspecting commands; sourced
#
# $umem is the command.
#
# needs_tables - skips the test if stacks recorded by the library end in libc,
# because a glibc before 2.35 does not lead to its unwind table
#
# start PROGRAM ARG... - runs it on the library, with a pipe to its standard
# input, and waits for its "ready"; its number is in $pid.  It ends at finish.
#
# shellcheck shell=bash

umem=$B/umem

build() {
	"$CC" -O1 -g -fno-builtin -D_GNU_SOURCE -I"$TOP" -pthread -w \
	    -o "$TMP/$1" "$TOP/tests/programs/inspect/parts/$1.c" \
	    -L"$B" -lumem_malloc -Wl,-rpath,"$B" "${@:2}" -ldl -lrt || exit 1
}

needs_tables() {
	[ "${GLIBC_MINOR:-35}" -ge 35 ] && return
	echo "stacks end in libc"
	exit 77
}

start() {
	# Output of an earlier program must not count as that of this one.
	rm -f "$TMP/input" "$TMP/told"
	: >"$TMP/told"
	mkfifo "$TMP/input"
	LD_PRELOAD=$SHIM "$@" <"$TMP/input" >"$TMP/told" &
	pid=$!
	exec 9>"$TMP/input"
	while kill -0 "$pid" 2>/dev/null; do
		grep -qsx ready "$TMP/told" && return
		sleep 0.02
	done
	echo "$*: never ready"
	exit 1
}

# ended STATUS - waits until the program ends, which must be with that status.
# Of a program that hangs, the stacks are shown.
ended() {
	local status

	for ((i = 0; i < 2400 * ${TEST_TIME_FACTOR:-1}; i++)); do
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.05
	done
	if kill -0 "$pid" 2>/dev/null; then
		echo "process $pid does not end:"
		grep -E '^(Name|State|TracerPid|Sig|Shd)' "/proc/$pid/status"
		gdb -nx -p "$pid" -batch -ex 'thread apply all bt 20' 2>&1 |
		    tail -60
		kill -KILL "$pid"
		exit 1
	fi
	wait "$pid"
	status=$?
	if [ "$status" -ne "$1" ]; then
		echo "the program ended with $status"
		exit 1
	fi
}

# finish STATUS - lets the program end, which must be with that status
finish() {
	exec 9>&-
	ended "$1"
}

# expect STATUS REGEX WORD... - umem WORD... must end with this status, and a
# line of its output or messages must match.  They stay in said and err.
expect() {
	local want=$1 text=$2

	shift 2
	"$umem" "$@" >said 2>err
	status=$?
	if [ $status -ne "$want" ] || ! cat said err | grep -Eq -e "$text"; then
		echo "umem $*: status $status instead of $want, or no '$text' in:"
		head -30 said err
		exit 1
	fi
}

# leaked TARGET - the addresses that umem walk leak finds, sorted, to $TMP/found
leaked() {
	"$umem" walk "$1" leak >"$TMP/found" 2>"$TMP/said"
	local status=$?
	if [ "$status" -ne 0 ] || [ -s "$TMP/said" ]; then
		echo "umem walk $1 leak: status $status"
		cat "$TMP/said"
		exit 1
	fi
	sort -o "$TMP/found" "$TMP/found"
}

# exactly_planted TEXT - compares $TMP/found with the blocks that the program
# has printed as lost
exactly_planted() {
	sed -n 's/^leak //p' "$TMP/told" | sort >"$TMP/lost"
	if ! cmp -s "$TMP/lost" "$TMP/found"; then
		echo "$1: planted and not found:"
		comm -23 "$TMP/lost" "$TMP/found" | head -20
		echo "$1: found in vain:"
		comm -13 "$TMP/lost" "$TMP/found" | while read -r at; do
			grep "$at" "$TMP/told" || echo "$at"
		done | head -20
		exit 1
	fi
}

# soon_planted TEXT - compares like exactly_planted, while threads of the
# process run.  A pointer in a register or on a stack may hide a leak for a
# moment, so each leak must be found in one of a few looks; no look may find
# another block.
soon_planted() {
	: >"$TMP/seen"
	sed -n 's/^leak //p' "$TMP/told" | sort >"$TMP/lost"
	for ((look = 0; look < 50; look++)); do
		leaked "$pid"
		if [ -n "$(comm -13 "$TMP/lost" "$TMP/found")" ]; then
			echo "$1, look $look: found in vain:"
			comm -13 "$TMP/lost" "$TMP/found" | head -20
			exit 1
		fi
		sort -u "$TMP/seen" "$TMP/found" >"$TMP/both"
		mv "$TMP/both" "$TMP/seen"
		cmp -s "$TMP/lost" "$TMP/seen" && return
		sleep 0.1
	done
	echo "$1: never found:"
	comm -23 "$TMP/lost" "$TMP/seen" | head -20
	exit 1
}
