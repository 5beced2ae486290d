#!/bin/bash
# test timeout: 900
# The command, a program of glibc, reads processes of musl and their cores, with
# the library preloaded and linked statically.  It finds the one leak with its
# stack.  It takes no other block for a leak: the pointers to them are in
# thread-local storage, in a pthread key, on a stack, and in the frames of a
# signal handler and of the function below it.
set -u
skip() {
	echo "$*"
	exit 77
}

for tool in musl-gcc gcore; do
	command -v $tool >/dev/null || skip "there is no $tool"
done
libraries=$TOP/build-musl
if ! make -C "$TOP" CC=musl-gcc build-musl/libumem_malloc.so.1 \
    build-musl/libumem_malloc.a >log 2>&1 ||
    ! musl-gcc -g -O1 -fno-omit-frame-pointer -o preloaded \
	"$TOP/tests/stress/parts/musl_roots.c" ||
    ! musl-gcc -g -O1 -static -o archived \
	"$TOP/tests/stress/parts/musl_roots.c" "$libraries/libumem_malloc.a"; then
	tail -n 20 log
	exit 1
fi

pid=
trap '[ -z "$pid" ] || kill -KILL "$pid"' EXIT
status=0

# says REGEX NAME - the last report must have a line like this
says() {
	grep -Eq -e "$1" said && return
	echo "$2: no line like: $1"
	cat said
	status=1
}

# look TARGET NAME - checks the reports of a process or a core
look() {
	"$B/umem" leaks -d "$1" >said 2>&1
	says '^5\.8K leaked in 1 block$' "$2"
	says '`leak\+0x[0-9a-f]+ \(musl_roots\.c:[0-9]+\)$' "$2"
	says '`main\+0x[0-9a-f]+ \(musl_roots\.c:[0-9]+\)$' "$2"
	"$B/umem" users -d "$1" >said 2>&1
	says '`handler\+0x[0-9a-f]+ \(musl_roots\.c:[0-9]+\)$' "$2"
	"$B/umem" status "$1" >said 2>&1
	says "^Library: .* 0\\.[0-9.]+, " "$2"
	says '^Debugging: +audit' "$2"
}

for program in preloaded archived; do
	mkfifo "$program.ready"
	env UMEM_DEBUG=default LD_PRELOAD="$([ $program = archived ] ||
	    echo "$libraries/libumem_malloc.so.1")" "./$program" \
	    >"$program.ready" &
	pid=$!
	read -r _ <"$program.ready" || exit 1
	look $pid "$program"
	gcore -o core $pid >log 2>&1 || { cat log; exit 1; }
	look core.$pid "core of $program"
	kill -KILL $pid
	wait $pid 2>/dev/null
	pid=
done
exit $status
