#!/bin/bash
# A log of UMEM_LOGGING takes memory only as it fills, and its size is limited.
set -u
export UMEM_DEBUG=default LD_PRELOAD=$SHIM

peak() {
	UMEM_LOGGING=transaction=$1 python3 -c '
import resource
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)' 2>said
}

small=$(peak 1m)
large=$(peak 1g)
if [ -s said ] || [ "$large" -gt $((small + 65536)) ]; then
	echo "$small KiB with a log of 1m, $large with one of 1g"
	cat said
	exit 1
fi
peak 1025m >out
if ! grep -qx 'umem: UMEM_LOGGING: transaction: too small or too large' said ||
    [ ! -s out ]; then
	echo "a log of 1025m is not refused, or ends the program:"
	cat said
	exit 1
fi
