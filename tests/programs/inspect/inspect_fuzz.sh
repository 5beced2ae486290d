#!/bin/bash
# A core, saved file or program that is cut short or damaged anywhere never ends
# umem by a signal, nor makes it run for ever: umem reports the readable part,
# or prints one line with the error.  Seeds are fixed.  inspect_fuzz.sh ROUNDS
# for a longer run.
# test timeout: 120
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"

cat >small.c <<'END'
#include <stdlib.h>
#include <unistd.h>
void *volatile kept[200];
int
main(void)
{
	char c;

	for (int i = 0; i < 200; i++) {
		kept[i] = malloc((size_t)i * 50);
		free(malloc((size_t)i * 70));
	}
	malloc(3000000);
	write(1, "ready\n", 6);
	return (int)read(0, &c, 1);
}
END
"$CC" -O1 -g -w -fno-builtin -o small small.c || exit 1
# The kernel's cores are smaller, if it writes one here.
ulimit -c unlimited 2>/dev/null
for debug in '' default; do
	UMEM_DEBUG=$debug UMEM_LOGGING=${debug:+transaction=8k} start ./small
	if grep -qx core /proc/sys/kernel/core_pattern &&
	    [ "$(ulimit -c)" = unlimited ]; then
		kill -ABRT "$pid"
		finish 134 2>/dev/null
		mv core* "damaged$debug" || exit 1
	else
		gcore -o "core$debug" "$pid" >/dev/null 2>&1
		mv "core$debug.$pid" "damaged$debug" || exit 1
		finish 0
	fi
done
python3 "$TOP/tests/programs/inspect/parts/fuzz.py" "$umem" "${1:-60}" \
    damaged damageddefault || exit 1

# A list of magazines that is a ring, of any length, has an end for umem.
cat >ring.c <<'END'
#include <stdlib.h>
#include <unistd.h>
void *volatile block[100000];
int
main(void)
{
	char c;

	for (int i = 0; i < 100000; i++)
		block[i] = malloc(64);
	for (int i = 0; i < 100000; i++)
		free(block[i]);
	write(1, "ready\n", 6);
	return (int)read(0, &c, 1);
}
END
"$CC" -O1 -w -fno-builtin -o ring ring.c || exit 1
UMEM_OPTIONS=thread=no start ./ring
at=$("$umem" stat --json "$pid" | python3 -c 'import json, sys
print(*[c["address"] for c in json.load(sys.stdin)["caches"]
        if c["name"] == "umem_alloc_64"])')
depot="((struct umem_cache *)$at)->mag.depot"
gdb -q -batch -p "$pid" -ex "set var $depot.full.n = 0xffffffff" \
    -ex "set var $depot.full.head->next = $depot.full.head" \
    -ex "generate-core-file ring.core" -ex kill >said 2>&1
finish 137
for command in status metrics stat; do
	timeout $((60 * TEST_TIME_FACTOR)) "$umem" $command ring.core >said 2>&1 || {
		echo "umem $command of a ring: status $?"
		cat said
		exit 1
	}
done
