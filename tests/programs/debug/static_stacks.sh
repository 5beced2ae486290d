#!/bin/bash
# In a static program the library records stacks and names their frames, also
# where the linker has left out the sorted table of functions.
set -u
cat >lose.c <<'END'
#include "umem/umem.h"

static void *volatile block;

static __attribute__((noinline)) void
lose(void)
{
	block = umem_alloc(100, UMEM_DEFAULT);
}

static __attribute__((noinline)) void
release(void *p)
{
	umem_free(p, 100);
	__asm__ volatile("");
}

int
main(void)
{
	lose();
	release(block);
	release(block);
	return 0;
}
END
# expect WORDS REGEX - a line of the report of the program must match, in a run
# with these words for UMEM_DEBUG
expect() {
	UMEM_DEBUG=$1 ./lose 2>said
	if ! grep -Eq "$2" said; then
		echo "$flags, UMEM_DEBUG=$1: no $2 in"
		cat said
		exit 1
	fi
}
echo 'int main(void) { return 0; }' >empty.c
for flags in "-static -no-pie" "-static-pie" \
    "-static -no-pie -Wl,--eh-frame-hdr"; do
	read -ra words <<<"$flags"
	"$CC" "${words[@]}" -o empty empty.c 2>/dev/null || exit 77
	"$CC" -O2 -fomit-frame-pointer -fno-builtin "${words[@]}" -I"$TOP" \
	    -o lose lose.c "$B/libumem.a" -pthread || exit 1
	for name in release main; do
		expect '' "^umem:  +lose.$name\+0x"
		expect audit "^lose.$name\+0x"
	done
	expect audit "^lose.lose\+0x"
done
