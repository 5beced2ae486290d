#!/bin/bash
# umem leaks finds all lost blocks and no others: in a process with few and with
# many threads, idle and at work, repeatedly, and in a core.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build planted

start "$TMP/planted" 2
leaked "$pid"
exactly_planted "2 threads"
leaked "$pid"
exactly_planted "2 threads, again"
expect 1 '^ +30M +[0-9]+% +1 .* unknown: large blocks of 30M' leaks "$pid"
gcore -o core "$pid" >/dev/null 2>&1
leaked "core.$pid"
exactly_planted "core by gcore"
rm -f "core.$pid"
finish 0

# Large blocks have records, too; before a guard page as without one.
for words in default audit; do
	export UMEM_DEBUG=$words
	start "$TMP/planted" 2
	unset UMEM_DEBUG
	expect 1 '^ +30M +[0-9]+% +1 .* [a-z_]+ \(planted.c:[0-9]+\)' leaks "$pid"
	finish 0
done

start "$TMP/planted" 200
soon_planted "200 threads"
finish 0

start "$TMP/planted" 3 4
for ((n = 0; n < 5; n++)); do
	soon_planted "4 threads at work, time $n"
done
finish 0

# Blocks in the quarantine of a hardened process are free, and lost blocks are
# found.
cat >quarantine.c <<'END'
#include "tests/programs/check.h"

int
main(void)
{
	char *volatile lost;
	char c;

	for (size_t n = 1; n < 3000; n++) {
		char *p = malloc(n);

		check(p != NULL);
		free(p);
	}
	lost = malloc(20 * MIB);
	free(lost);
	lost = malloc(77);
	lost = NULL;
	check(write(1, "ready\n", 6) == 6);
	return read(0, &c, 1) != 0 || lost != NULL;
}
END
"$CC" -O0 -fno-builtin -w -I"$TOP" -D_GNU_SOURCE -pthread -o quarantine \
    quarantine.c || exit 1
UMEM_OPTIONS=hardened start ./quarantine
expect 1 '^80 leaked in 1 block$' leaks "$pid"
finish 0

# A core of a crash, where the kernel writes one beside the program.
ulimit -c unlimited 2>/dev/null
if ! grep -qx core /proc/sys/kernel/core_pattern ||
    [ "$(ulimit -c)" != unlimited ]; then
	exit 0
fi
start "$TMP/planted" 3
kill -ABRT "$pid"
finish 134 2>/dev/null
leaked core*
exactly_planted "core of a crash"
rm -f core*
