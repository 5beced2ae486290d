#!/bin/bash
# Functions that the compiler has inlined are frames of their own, each with its
# line: in stacks, as call sites, in flame graphs and for -c.
# shellcheck disable=SC2016 # names have a back-quote
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"

cat >main.cc <<'END'
#include <stdlib.h>
#include <unistd.h>

static void *volatile lost;

#define INLINED inline __attribute__((always_inline))

namespace shop {
INLINED void
inner(size_t bytes)
{
	lost = malloc(bytes); /* line 12 */
}

template <class T> INLINED void
middle(void)
{
	inner(1000 * sizeof(T)); /* line 18 */
}
}

__attribute__((noinline)) void
outer(void)
{
	{
		int n = lost != NULL;
		shop::middle<short>(); /* line 27 */
		if (n)
			abort();
	}
}

int
main(void)
{
	char c;

	outer();
	lost = NULL;
	write(1, "ready\n", 6);
	return (int)read(0, &c, 1);
}
END
"$CXX" -O2 -g -w -fno-builtin -o main main.cc || exit 1

# finds TEXT - is it in $TMP/said?
finds() {
	grep -qF "$1" said && return
	echo "no $1 in"
	cat said
	exit 1
}
UMEM_DEBUG=audit start ./main
"$umem" leaks -d "$pid" >said 2>&1
finds 'shop::inner (main.cc:12) < shop::middle<short> < outer < main'
grep -A 3 '`shop::inner' said | sed 's/^ *//; s/+0x[0-9a-f]*//' >stack
cmp -s stack - <<'END' || {
main`shop::inner (main.cc:12) [inlined]
main`shop::middle<short> (main.cc:18) [inlined]
main`outer (main.cc:27)
main`main (main.cc:38)
END
	cat said
	exit 1
}
"$umem" leaks -c shop::middle "$pid" >said 2>&1
finds ' leaked in 1 block'
"$umem" leaks --json "$pid" >said 2>&1
finds '"main`shop::middle<short>"'
finish 0
UMEM_OPTIONS=sample=10 start ./main
"$umem" users --folded "$pid" >said 2>&1
finds ';outer;shop::middle<short>;shop::inner '
finish 0
