#!/bin/bash
# A buffer behind a firewall loses its memory when it is freed.  umem whatis
# prints its cache and the thread, time and stack of the free nevertheless.
# test timeout: 120
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build firewalled

# says REGEX - a line of the last output matches
says() {
	if ! grep -Eq -e "$1" said; then
		echo "no '$1' in:"
		head -30 said
		exit 1
	fi
}

# says_not REGEX - no line of the last output matches
says_not() {
	if grep -E -e "$1" said; then
		echo "these lines are not expected"
		exit 1
	fi
}

# address KEY - the address that the program printed after KEY
address() {
	sed -n "s/^$1 //p" told
}

# plus ADDRESS NUMBER
plus() {
	printf '%x' $((16#$1 + $2))
}

# tells_who_freed TARGET
tells_who_freed() {
	local target=$1 block object by

	by="^    freed by thread $(address thread), [0-9.]+ s (ago|before the newest record):$"
	block=$(address block)
	expect 0 "^$(plus "$block" 5) is $block\\+0x5, bufctl [0-9a-f]+ freed from umem_alloc_112$" \
	    whatis "$target" "$(plus "$block" 5)"
	says "$by"
	says '^ {9}firewalled`give_back\+0x'
	says '^ {9}firewalled`main\+0x'
	says "^    allocated by thread $(address thread), [0-9.]+ s (ago|before the newest record):$"
	says '^ {9}firewalled`make_block\+0x'
	"$umem" whatis --json "$target" "$block" | python3 -c \
	    'import json, sys; d = json.load(sys.stdin)[0]
assert d["state"] == "freed" and d["cache"] == "umem_alloc_112", d
assert "give_back" in " ".join(d["freed"]["stack"]), d
assert "make_block" in " ".join(d["allocated"]["stack"]), d' || exit 1
	expect 0 '^ +firewalled`make_block\+0x' log -v -a "$block" "$target"
	# The class has 112 bytes, and the next address is of no block.
	expect 0 "is $block\\+0x6f, bufctl [0-9a-f]+ freed from umem_alloc_112$" \
	    whatis "$target" "$(plus "$block" 111)"
	expect 0 ' freed from umem_firewall vmem arena$' \
	    whatis "$target" "$(plus "$block" 112)"

	object=$(address object)
	expect 0 "^$object is $object\\+0x0, bufctl [0-9a-f]+ freed from things$" \
	    whatis "$target" "$object"
	says '^ {9}firewalled`give_thing\+0x'
	expect 0 '^ +firewalled`give_thing\+0x' log -v -a "$object" "$target"
	expect 0 ' free .*firewalled`give_thing\+0x' \
	    log -s free -t "$(address thread)" "$target"
	expect 0 'freed from a cache that is destroyed$' \
	    whatis "$target" "$(address gone)"
	says '^ {9}firewalled`give_thing\+0x'

	# The buffer that lives there now wins; -a tells of both.
	expect 0 'allocated from umem_alloc_' whatis "$target" "$(address again)"
	says_not freed
	expect 0 '^ {9}firewalled`give_back\+0x' \
	    whatis -a "$target" "$(address again)"

	# The memory that is gone lies in the slab of a smaller buffer.
	expect 0 'in slab [0-9a-f]+ of umem_alloc_64, in no buffer$' \
	    whatis "$target" "$(address beside)"
	says 'bufctl [0-9a-f]+ freed from umem_alloc_'
	says '^ {9}firewalled`give_back\+0x'

	# Freed before more others than the library remembers.
	expect 0 "^$(address old) is " whatis -a "$target" "$(address old)"
	says_not give_old

	expect 0 'bufctl [0-9a-f]+ freed from umem_oversize$' \
	    whatis "$target" "$(address large)"
	says '^ {9}firewalled`give_back\+0x'
	expect 0 '^ +firewalled`give_back\+0x' \
	    log -v -a "$(address large)" "$target"
}

export UMEM_DEBUG=default,firewall=1
start "$TMP/firewalled"
tells_who_freed "$pid"
finish 0

# The core of the process that has read the block.
gdb -batch -nx -ex "set environment LD_PRELOAD $SHIM" \
    -ex "set startup-with-shell off" -ex run -ex 'gcore core' \
    --args "$TMP/firewalled" read >told 2>gdb.err
if ! grep -q 'received signal SIGSEGV' told; then
	echo "the read of a freed block is no fault:"
	tail told gdb.err
	exit 1
fi
tells_who_freed core
rm -f core

# Without audit there is no stack.
export UMEM_DEBUG=firewall=1
start "$TMP/firewalled"
expect 0 'bufctl [0-9a-f]+ freed from umem_alloc_112$' \
    whatis "$pid" "$(address block)"
says_not 'give_back|freed by'
finish 0
