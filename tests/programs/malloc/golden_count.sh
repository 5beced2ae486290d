#!/bin/bash
# The fast paths of malloc and free: the number of instructions from the entry
# to the first return, without any call or push.  A change that adds one must
# also change the number here.  The numbers are those of gcc 12: other compilers
# choose other registers, and some functions save one by a push.  With these the
# test reports the numbers and is skipped.
# test not with: coverage counts in the fast paths, too
set -u

if [ -n "${DEBUG:-}${SAN:-}" ] || [ "$(uname -m)" != x86_64 ]; then
	echo "golden counts are for x86-64, without DEBUG and SAN"
	exit 77
fi
status=0

# disassemble FUNCTION - by its address, which other names may have, too
disassemble() {
	local at bytes

	read -r at bytes < <(nm -S "$SHIM" | awk -v name="$1" \
	    '$4 == name { print $1, $2 }')
	objdump -d --no-show-raw-insn --start-address="0x$at" \
	    --stop-address="$((0x$at + 0x$bytes))" "$SHIM"
}

# check FUNCTION MOST
check() {
	local code n

	code=$(disassemble "$1" | sed -n 's/^ *[0-9a-f]*:\t//p' | sed '/^ret/q')
	n=$(printf '%s\n' "$code" | wc -l)
	echo "$1: $n instructions"
	if [ "$n" -gt "$2" ] || [ "$n" -lt 8 ] ||
	    printf '%s\n' "$code" | grep -qE '^(call|push|sub .*,%rsp)'; then
		echo "$1: at most $2 without a call were expected:"
		printf '%s\n' "$code"
		status=1
	fi
}

# check_prefetch FUNCTION: a pop prefetches the next object for writing.
check_prefetch() {
	if ! disassemble "$1" | sed '/\tret/q' | grep -q 'prefetchw'; then
		echo "$1 has no prefetchw"
		status=1
	fi
}

check malloc 25
check alloc_larger 35
check free 34
check aligned_alloc 44
check umem_alloc 28
check umem_free 45
check umem_cache_alloc 21
check umem_cache_free 25
check_prefetch malloc
check_prefetch umem_alloc
check_prefetch umem_cache_alloc

golden=12
if [ "$("$CC" -dumpversion)" != $golden ] || [[ $CC == *clang* ]]; then
	echo "golden counts are for gcc $golden"
	exit 77
fi
exit $status
