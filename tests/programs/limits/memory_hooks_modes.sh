#!/bin/bash
# test timeout: 300
# memory_hooks.c with checked, guarded, sampled and limited blocks.
set -eu
program=$B/programs/limits/memory_hooks
[ -x "$program" ] || { echo "no $program"; exit 77; }
for options in UMEM_DEBUG=default UMEM_DEBUG=guards UMEM_OPTIONS=hardened \
    UMEM_OPTIONS=sample=100k UMEM_OPTIONS=soft_limit=100m \
    UMEM_OPTIONS=huge_pages=always UMEM_OPTIONS=thread=no; do
	env "$options" LD_PRELOAD="$SHIM" "$program" || {
		echo "$options: exit $?"
		exit 1
	}
done
