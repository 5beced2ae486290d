#!/bin/bash
# umem verify finds a buffer that was written to after it was freed, while it is
# quarantined or after it returned to its slab, and an overrun buffer.  umem
# whatis describes each.
set -eu
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
umem=$(readlink -f "$B")/umem
cat >main.c <<'END_C'
#include "tests/programs/check.h"

enum {
	N = 5000
};

static char *volatile p[N];
static char more[80 << 20];

int
main(int argc, char **argv)
{
	/* So much that the command has the process copied. */
	if (argc > 1)
		memset(more, 1, sizeof(more));
	for (int i = 0; i < N; i++)
		check((p[i] = malloc(90)) != NULL);
	/* The first has left the places to wait at by the time of the last. */
	for (int i = 1; i < N - 1; i++)
		free(p[i]);
	p[1][8]++;
	p[N - 2][16]++;
	p[N - 1][90]++;
	printf("%lx %lx %lx %lx\n", (long)p[0], (long)p[1], (long)p[N - 2],
	    (long)p[N - 1]);
	fflush(stdout);
	pause();
	return 0;
}
END_C
$CC -O0 -fno-builtin -w -I"$TOP" -D_GNU_SOURCE -pthread -o main main.c
mkfifo ready
bad() {
	echo "$1:"
	cat said
	exit 1
}

for much in '' much; do
	UMEM_OPTIONS=${much:+thread=yes} UMEM_DEBUG=default LD_PRELOAD="$SHIM" \
	    ./main $much >ready &
	pid=$!
	trap 'kill $pid' EXIT
	read -r whole first last over <ready
	status=0
	"$umem" verify "$pid" umem_alloc_96 >said || status=$?
	for line in "$first (free) seems corrupted, at $(printf %x $((0x$first + 8)))" \
	    "$last (free) seems corrupted, at $(printf %x $((0x$last + 16)))" \
	    "$over (allocated) has a corrupt redzone"; do
		grep -qF "buffer $line" said || bad "status $status, no $line"
	done
	[ "$(grep -c ' buffer ' said)" = 3 ] || bad "not three"
	[ "$(grep -c '^    allocated by thread ' said)" = 3 ] ||
		bad "not three allocations"
	[ "$(grep -c '^    freed by thread ' said)" = 2 ] || bad "not two frees"
	"$umem" verify "$pid" >said || true
	grep -q '^umem_alloc_96 .* 3 corrupt buffers$' said || bad "no cache"
	grep -q "^  buffer $over (allocated) has a corrupt redzone" said ||
		bad "no buffer"
	grep -q '^[0-9]* other caches are clean$' said || bad "not the others"
	[ "$(wc -l <said)" -lt 60 ] || bad "lines of clean caches"

	"$umem" whatis "$pid" "$whole" "$first" "$last" >said
	for line in "$whole is .* allocated from umem_alloc_96" \
	    "$first is .* freed from umem_alloc_96" \
	    "$last is .* freed from umem_alloc_96 (in quarantine)"; do
		grep -q "^$line$" said || bad "no $line"
	done
	kill $pid
	wait $pid || true
done

# Hardened caches have tags, too.  A cache with UMC_NOTOUCH has none, although
# it is audited, because the library must not write to its free objects.  The
# library checks an object of a reserve when it hands it out.
cat >main.c <<'END_C'
#include "tests/programs/check.h"

#include <sys/mman.h>

int
main(void)
{
	umem_cache_t *cache = umem_cache_create("untouched", 200, 0, NULL,
	    NULL, NULL, NULL, NULL, UMC_NOTOUCH);
	struct umem_cache_args args = {.size = 90, .reserve = 1};
	umem_cache_t *reserved =
	    umem_cache_create_args("reserved", &args, sizeof(args));
	char *volatile p[3], *first = umem_cache_alloc(reserved, 0);
	char *second = umem_cache_alloc(reserved, 0), *kept;
	void *q[10];
	size_t bytes = getenv("STRIPES") == NULL ? 0 : 160 << 20;
	char *volatile pages = mmap(NULL, bytes + 4096, PROT_READ,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	/* The object of the reserve was the first of its slab. */
	kept = first - (second - first);

	/* Every other page is there: that of zeros. */
	madvise(pages, bytes, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < bytes; i += 8192)
		check(pages[i] == 0);
	for (int i = 0; i < 10; i++)
		memset(q[i] = umem_cache_alloc(cache, UMEM_DEFAULT), i, 200);
	for (int i = 0; i < 10; i += 2)
		umem_cache_free(cache, q[i]);
	for (int i = 0; i < 3; i++)
		check((p[i] = malloc(90)) != NULL);
	free(p[1]);
	if (getenv("HARM") != NULL) {
		p[1][8]++;
		p[2][90]++;
		kept[90]++;
	}
	printf("%lx %lx %lx\n", (long)p[1], (long)p[2], (long)kept);
	fflush(stdout);
	pause();
	return 0;
}
END_C
$CC -O0 -fno-builtin -w -I"$TOP" -D_GNU_SOURCE -pthread -o main main.c \
    -L"$B" -lumem_malloc -Wl,-rpath,"$(readlink -f "$B")"

# look VARIABLE... - runs it with these, and umem verify
look() {
	env "$@" ./main >ready &
	pid=$!
	read -r freed over kept <ready
	status=0
	"$umem" verify "$pid" >said || status=$?
	"$umem" verify "$pid" umem_alloc_96 reserved >>said || true
	kill $pid
	wait $pid || true
}
look UMEM_DEBUG=audit
if [ $status != 0 ] || grep -q untouched said; then
	bad "audit: status $status"
fi
# A copy that is made at once, of memory with many gaps.
look UMEM_DEBUG=audit UMEM_OPTIONS=thread=no STRIPES=1
[ $status = 0 ] || bad "stripes: status $status"
look UMEM_OPTIONS=hardened
if [ $status != 0 ] || ! grep -Eq '^[0-9]+ caches are clean$' said; then
	bad "hardened: status $status"
fi
look UMEM_OPTIONS=hardened HARM=1
[ $status = 1 ] || bad "hardened: status $status"
for line in "$freed (free) seems corrupted, at $(printf %x $((0x$freed + 8)))" \
    "$over (allocated) has a corrupt redzone, at $(printf %x $((0x$over + 90)))" \
    "$kept (allocated) has a corrupt redzone, at $(printf %x $((0x$kept + 90)))"; do
	grep -qF "buffer $line" said || bad "hardened: no $line"
done
trap - EXIT
