#!/bin/bash
# In every mode of the library, nodes stay unchanged while readers use them, and
# each object comes back: rcu_torture.c and rcu_flavours.c with a flavour on
# each of the two libraries.
set -u
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
export LD_LIBRARY_PATH=$B

for setting in UMEM_DEBUG=default UMEM_DEBUG=guards UMEM_DEBUG=audit \
    UMEM_OPTIONS=hardened UMEM_OPTIONS=nomagazines \
    UMEM_OPTIONS=thread=no UMEM_OPTIONS=sample=1 UMEM_OPTIONS=mode=own \
    UMEM_OPTIONS=magazine_bytes=1k UMEM_OPTIONS=concurrency=1 \
    UMEM_OPTIONS=depot_bytes=0 UMEM_OPTIONS=rcu_budget=100k \
    UMEM_OPTIONS=rcu_delay=10000 GLIBC_TUNABLES=glibc.pthread.rseq=0; do
	for only in 'memb malloc' 'qsbr umem'; do
		if ! env "RCU_ONLY=$only" "$setting" \
		    "$B/programs/rcu/rcu_torture" 200 2>said ||
		    ! env "RCU_ONLY=$only" "$setting" \
			"$B/programs/rcu/rcu_flavours" 2>>said ||
		    grep 'not empty' said; then
			echo "$setting $only: failed"
			cat said
			exit 1
		fi
	done
done
