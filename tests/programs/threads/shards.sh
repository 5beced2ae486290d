#!/bin/bash
# With a depot of several shards, which small machines do not have: no block is
# lost or allocated twice, fork() takes all locks, depot_bytes limits all shards
# together, and umem leaks sees the free blocks of every shard.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"

# run NAME SHARDS OPTIONS [WORD] - a program, which must end with 0
run() {
	local options=depot_shards=$2,$3

	if ! UMEM_OPTIONS=$options LD_PRELOAD=$SHIM "$TMP/$1" \
	    "${@:4}" >out 2>err </dev/null; then
		echo "$1 with $options:"
		cat out err
		exit 1
	fi
}

for program in threads/oracle process/fork_load objects/budgets; do
	"$CC" -O1 -g -fno-builtin -D_GNU_SOURCE -I"$TOP" -pthread -w \
	    -o "$TMP/${program#*/}" "$TOP/tests/programs/$program.c" -lrt || exit 1
done
for mode in rseq locked; do
	run oracle 2 "mode=$mode"
	for shards in 1 2 17; do
		run budgets "$shards" \
		    "mode=$mode,magazine_bytes=8k,depot_bytes=32k,thread=no"
	done
done
run fork_load 3 mode=rseq storm

build planted
export UMEM_OPTIONS=depot_shards=2
start "$TMP/planted" 3 4
for ((n = 0; n < 3; n++)); do
	soon_planted "4 threads at work, time $n"
done
finish 0
export UMEM_OPTIONS=depot_shards=3,mode=locked
start "$TMP/planted" 3
leaked "$pid"
exactly_planted "locked mode"
finish 0
