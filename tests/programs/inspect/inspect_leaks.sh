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

# The logs are not searched for pointers; a stack, which lies above them, is.
cat >held.c <<'END'
#include "tests/programs/check.h"

int
main(void)
{
	char *volatile held = malloc(100);
	char c;

	check(write(1, "ready\n", 6) == 6);
	return read(0, &c, 1) != 0 || held == NULL;
}
END
"$CC" -O0 -fno-builtin -w -I"$TOP" -D_GNU_SOURCE -pthread -o held held.c ||
    exit 1
export UMEM_DEBUG=default UMEM_LOGGING=transaction
start ./held
unset UMEM_DEBUG UMEM_LOGGING
expect 0 '^no leaks found$' leaks "$pid"
finish 0

# Below the stack pointer of the first thread, pointers are of functions that
# have returned; in a core, no name says which mapping is the stack.
cat >returned.c <<'END'
#include "tests/programs/check.h"

static __attribute__((noinline)) void
lose(void)
{
	char *volatile deep[5000];

	deep[0] = malloc(100);
	check(deep[0] != NULL);
}

int
main(void)
{
	char c;

	lose();
	check(write(1, "ready\n", 6) == 6);
	return read(0, &c, 1) != 0;
}
END
"$CC" -O0 -fno-builtin -w -I"$TOP" -D_GNU_SOURCE -pthread -o returned \
    returned.c || exit 1
start ./returned
gcore -o core "$pid" >/dev/null 2>&1
expect 1 '^112 leaked in 1 block$' leaks "$pid"
expect 1 '^112 leaked in 1 block$' leaks "core.$pid"
rm -f "core.$pid"
finish 0

# Memory that the program has from the heap's arena is searched for pointers,
# until the program frees it.  It is neither a block nor a slab.
cat >arena.c <<'END'
#include "tests/programs/check.h"
#include "vmem/vmem.h"

static __attribute__((noinline)) void
hold(int frees)
{
	vmem_alloc_t *import;
	vmem_free_t *release;
	vmem_t *heap = vmem_heap_arena(&import, &release);
	void **span = import(heap, 1 << 20, VM_SLEEP);

	check(span != NULL);
	span[1000] = malloc(100);
	check(span[1000] != NULL);
	if (frees)
		release(heap, span, 1 << 20);
}

int
main(int argc, char **argv)
{
	char c;

	hold(argc == 2);
	check(write(1, "ready\n", 6) == 6);
	return read(0, &c, 1) != 0;
}
END
"$CC" -O0 -fno-builtin -w -I"$TOP" -D_GNU_SOURCE -pthread -o arena arena.c \
    -L"$B" -lumem_malloc "-Wl,-rpath,$B" || exit 1
start ./arena
expect 0 '^no leaks found$' leaks "$pid"
finish 0
start ./arena frees
expect 1 '^112 leaked in 1 block$' leaks "$pid"
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
	/* Another address in the vector registers that had this one. */
	free(malloc(777));
	check(write(1, "ready\n", 6) == 6);
	return read(0, &c, 1) != 0 || lost != NULL;
}
END
"$CC" -O0 -fno-builtin -w -I"$TOP" -D_GNU_SOURCE -pthread -o quarantine \
    quarantine.c || exit 1
UMEM_OPTIONS=hardened start ./quarantine
expect 1 '^96 leaked in 1 block$' leaks "$pid"
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
