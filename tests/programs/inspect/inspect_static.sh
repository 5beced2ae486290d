#!/bin/bash
# A static program with libumem_malloc.a is audited from libc's first
# allocation, and the command finds its leaks and their callers, also where the
# linker has left out the sections that nothing uses.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
cat >main.c <<'END2'
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Initialised data comes before that of the library. */
char before[3 << 20] = {1};

static __attribute__((noinline)) void
lose(void)
{
	for (int i = 0; i < 100; i++)
		malloc(77777);
}

int
main(void)
{
	char c;

	lose();
	puts("ready");
	fflush(stdout);
	return read(0, &c, 1) != 0;
}
END2
echo 'int main(void) { return 0; }' >empty.c
"$CC" -static -o empty empty.c 2>/dev/null ||
    { echo "no static libc"; exit 77; }
export UMEM_DEBUG=audit
for flags in "-static -no-pie" "-static-pie" "-static -Wl,--gc-sections" \
    "-Wl,--gc-sections"; do
	read -ra words <<<"$flags"
	"$CC" "${words[@]}" -o empty empty.c 2>/dev/null || continue
	"$CC" -O1 -g -fno-builtin -w "${words[@]}" -o main main.c \
	    "$B/libumem_malloc.a" -pthread -ldl || exit 1
	start env -u LD_PRELOAD ./main
	expect 1 'lose \(main.c:12\)' leaks "$pid"
	finish 0
done
