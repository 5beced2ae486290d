#!/bin/bash
# The program usable_size_foreign with samples, with checks and with debugging,
# which reports addresses in the heap alone.
set -eu
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
for setting in UMEM_OPTIONS=sample=64 UMEM_OPTIONS=hardened \
    UMEM_DEBUG=default UMEM_DEBUG=firewall=1; do
	echo "$setting"
	case $setting in
	*sample*) what=all ;;
	*) what=outside ;;
	esac
	env LD_PRELOAD="$SHIM" "$setting" "$B/programs/malloc/usable_size_foreign" $what
done
