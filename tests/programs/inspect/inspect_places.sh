#!/bin/bash
# umem leaks searches each kind of place that may hold the only pointer to a
# block, in a process and in its core.  It ignores dead memory: a stack below
# its stack pointer, and a thread that was joined.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build places -ldl
build places_library -shared -fPIC

for how in '' mapped; do
	# shellcheck disable=SC2086 # a word or none
	start "$TMP/places" $how "$TMP/places_library"
	leaked "$pid"
	exactly_planted "process $how"
	# A core has no references that the kernel keeps.
	sed -i 's/^kept \([0-9a-f]*\) the kernel.*/leak \1/' told
	gcore -o core "$pid" >/dev/null 2>&1
	leaked "core.$pid"
	exactly_planted "core $how"
	rm -f "core.$pid"
	finish 0
done

# Stacks with guard pages, and stacks that are adjacent in one mapping.
build stacks
for how in guard none; do
	start "$TMP/stacks" $how
	leaked "$pid"
	exactly_planted "stacks, $how"
	gcore -o core "$pid" >/dev/null 2>&1
	leaked "core.$pid"
	exactly_planted "core of stacks, $how"
	rm -f "core.$pid"
	finish 0
done

# The first thread has ended: files of the process under its number are empty.
# Firewalls show that the command reads no thread or mapping behind the last.
build gone
UMEM_OPTIONS=thread=no start "$TMP/gone"
UMEM_DEBUG=firewall=1 LD_PRELOAD=$SHIM soon_planted "without the first thread"
finish 0
