#!/bin/bash
# The flavour bp in a program that does not export the names of its functions.
set -eu
archive=$("$CC" -print-file-name=liburcu-bp.a)
[ -e "$archive" ] || { echo "no liburcu-bp.a"; exit 77; }
"$CC" -g -DLINKED -D_GNU_SOURCE -I"$TOP" -I"$TOP/umem" -o main \
    "$TOP/tests/programs/rcu/rcu_plugin.c" "$B/libumem_rcu.a" -L"$B" -lumem \
    "$archive" -pthread -ldl "-Wl,-rpath,$B"
if nm -D main | grep -w urcu_bp_read_lock; then exit 1; fi
./main
