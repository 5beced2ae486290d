#!/bin/bash
# The names of umem_rcu.h for each flavour, in C, and in C++.
set -u
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
export LD_LIBRARY_PATH=$B LD_PRELOAD=$B/account.so

# runs FLAVOUR COMPILER... - a program for it, in both modes
runs() {
	local mode

	env -u LD_PRELOAD "${@:2}" -O1 -g -fno-builtin -D_GNU_SOURCE \
	    -DURCU_API_MAP -I"$TOP" -I"$TOP/umem" -include "urcu/urcu-$1.h" \
	    "$TOP/tests/programs/rcu/parts/map.c" -o map -pthread -L"$B" \
	    -lumem_rcu -lumem "-lurcu-$1" || exit 1
	for mode in rseq locked; do
		UMEM_OPTIONS=mode=$mode ./map 2>said || {
			echo "${*:2}, $1, $mode: status $?"
			cat said
			exit 1
		}
		! grep 'not empty' said || exit 1
	done
}

for flavour in bp mb memb qsbr; do
	runs $flavour "$CC"
done
! command -v "${CXX%% *}" >/dev/null || runs memb "$CXX" -x c++
