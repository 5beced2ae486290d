#!/bin/bash
# Each kind of place that may hold the only pointer to a block is looked
# through by umem leaks, in a process and in its core: no place is left out,
# and nothing that is over (a stack below its pointer, a thread that was
# joined) counts.
set -u
# shellcheck source=tests/programs/inspect/library.sh
. "$TOP/tests/programs/inspect/library.sh"
build places -ldl
build places_library -shared -fPIC

for how in '' mapped; do
	# shellcheck disable=SC2086 # a word or none
	start "$TMP/places" $how "$TMP/places_library"
	leaked "$pid"
	exactly_planted "process $how"
	# What the kernel keeps is in no core.
	sed -i 's/^kept \([0-9a-f]*\) the kernel.*/leak \1/' told
	gcore -o core "$pid" >/dev/null 2>&1
	leaked "core.$pid"
	exactly_planted "core $how"
	rm -f "core.$pid"
	finish 0
done

# The first thread has ended: files of the process under its number are empty.
build gone
start "$TMP/gone"
soon_planted "without the first thread"
finish 0
