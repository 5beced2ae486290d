#!/bin/bash
# The program allocx with samples, with debugging and with other size classes.
set -eu
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
for setting in UMEM_OPTIONS=sample=4k UMEM_OPTIONS=hardened \
    UMEM_DEBUG=default UMEM_DEBUG=guards,firewall=1 \
    UMEM_OPTIONS=size_add=1008; do
	echo "$setting"
	env LD_PRELOAD="$SHIM" "$setting" "$B/programs/malloc/allocx"
done
