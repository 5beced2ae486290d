#!/bin/bash
# Each form of a sized free reports a wrong size if blocks are debugged or
# hardened.
set -u
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
for setting in UMEM_OPTIONS=hardened UMEM_DEBUG=default; do
	for form in 0 1 2 3 4 5 6 7; do
		echo "$setting, form $form"
		{ env LD_PRELOAD="$SHIM" "$setting" "$B/programs/malloc/wrong_size" \
		    "$form" 2>err; } 2>/dev/null
		[ $? -eq 134 ] || exit 1
		grep -Eq 'free size \(50000\) != alloc size \(100\)|'\
'size 50000 does not fit the block' err || { cat err; exit 1; }
	done
done
