/*
 * A program that is linked with jemalloc calls mallocx() and related functions
 * beside malloc() and free().  Each family accepts the blocks of the other.
 *
 * test run: plain
 * test run: sampled
 * test modes: default
 * test env: UMEM_OPTIONS=sample=4k
 * test run: hardened
 * test modes: default
 * test env: UMEM_OPTIONS=hardened
 * test run: debugged
 * test modes: default
 * test env: UMEM_DEBUG=default
 * test run: guarded
 * test modes: default
 * test env: UMEM_DEBUG=guards,firewall=1
 */
#include <dlfcn.h>
#include <malloc.h>

#include "tests/programs/check.h"

#define ZERO 0x40

static void *(*mallocx)(size_t, int);
static void *(*rallocx)(void *, size_t, int);
static size_t (*xallocx)(void *, size_t, size_t, int);
static size_t (*sallocx)(const void *, int);
static void (*dallocx)(void *, int);
static void (*sdallocx)(void *, size_t, int);
static size_t (*nallocx)(size_t, int);

static void
find(void *function, const char *name)
{
	*(void **)function = dlsym(RTLD_DEFAULT, name);
	check(*(void **)function != NULL);
}

static bool
is_filled(const char *p, size_t from, size_t to, char with)
{
	for (size_t i = from; i < to; i++)
		if (p[i] != with)
			return false;
	return true;
}

/* Leaves a free block full of ones for the next request of this size. */
static void
leave_ones(size_t size, int lg_align)
{
	void *p[4];

	for (size_t i = 0; i < 4; i++) {
		p[i] = mallocx(size, lg_align);
		check(p[i] != NULL);
		memset(p[i], 0xff, sallocx(p[i], 0));
	}
	for (size_t i = 0; i < 4; i++)
		dallocx(p[i], 0);
}

/*
 * A block that is zeroed when it is made and when it is resized has nothing but
 * zeros and the bytes that the program has written, up to its usable size.
 */
static void
try_zeroed(size_t size, int lg_align)
{
	int flags = lg_align | ZERO;
	char *p;

	leave_ones(size, lg_align);
	p = mallocx(size, flags);
	check(p != NULL && is_filled(p, 0, sallocx(p, 0), 0));
	for (size_t i = 1; i < 8; i++) {
		size_t next = i % 2 != 0 ? size + i * size / 5 + i : size / i;
		size_t kept;

		leave_ones(next, lg_align);
		memset(p, 5, size);
		p = rallocx(p, next, i == 2 ? lg_align : flags);
		kept = size < next ? size : next;
		check(p != NULL && is_filled(p, 0, kept, 5));
		/* A block that shrinks in place keeps its bytes. */
		for (size_t at = kept; at < sallocx(p, 0); at++)
			check(p[at] == 0 || p[at] == 5);
		if (next > size)
			check(is_filled(p, next, sallocx(p, 0), 0));
		memset(p, 0, sallocx(p, 0));
		size = next;
	}
	dallocx(p, 0);
}

/* nallocx() allocates nothing: it answers for more than there is memory. */
static void
try_nallocx(void)
{
	size_t huge = (size_t)1 << 46;

	errno = 0;
	for (int lg_align = 0; lg_align < 20; lg_align++) {
		check(nallocx(huge, lg_align) == huge);
		check(nallocx(huge + 1, lg_align) >= huge + 1);
	}
	check(nallocx(SIZE_MAX / 2 + 2, 0) == 0);
	check(nallocx(SIZE_MAX / 2, 0) == 0);
	check(nallocx(SIZE_MAX, 0) == 0);
	check(nallocx(100, 63) == 0);
	check(errno == 0);
}

/* A request may get a free chunk of a larger class, of which all is cleared. */
static void
try_larger_chunks(void)
{
	for (size_t size = 33000; size < 300000; size += 7000)
		for (size_t more = size / 16; more < size / 2; more += more) {
			char *p = malloc(size + more);

			check(p != NULL);
			memset(p, 7, malloc_usable_size(p));
			free(p);
			p = mallocx(size, ZERO);
			check(p != NULL && is_filled(p, 0, sallocx(p, 0), 0));
			free(p);
		}
}

static void
try_size(size_t size, int lg_align)
{
	size_t align = (size_t)1 << lg_align;
	char *p = mallocx(size, lg_align), *q;

	check(p != NULL && (uintptr_t)p % align == 0);
	check(malloc_usable_size(p) >= size);
	check(sallocx(p, 0) == malloc_usable_size(p));
	check(nallocx(size, lg_align) == sallocx(p, 0));
	check(xallocx(p, 2 * size, 100, 0) == sallocx(p, 0));
	memset(p, 7, malloc_usable_size(p));
	free(p);

	p = mallocx(size, lg_align | ZERO);
	check(p != NULL && (uintptr_t)p % align == 0);
	check(is_filled(p, 0, size, 0));
	memset(p, 5, malloc_usable_size(p));
	q = rallocx(p, 3 * size, lg_align | ZERO);
	check(q != NULL && (uintptr_t)q % align == 0);
	check(is_filled(q, 0, size, 5));
	q = rallocx(q, size / 2 + 1, lg_align);
	check(q != NULL && is_filled(q, 0, size / 2 + 1, 5));
	dallocx(q, 0);
	p = malloc(size);
	check(p != NULL);
	sdallocx(p, size, 0);
	try_zeroed(size, lg_align);
}

int
main(void)
{
	find(&mallocx, "mallocx");
	find(&rallocx, "rallocx");
	find(&xallocx, "xallocx");
	find(&sallocx, "sallocx");
	find(&dallocx, "dallocx");
	find(&sdallocx, "sdallocx");
	find(&nallocx, "nallocx");
	for (size_t size = 1; size < 3000000; size = 3 * size + 1)
		for (int lg_align = 0; lg_align < 14; lg_align += 3)
			try_size(size, lg_align);
	check(mallocx(SIZE_MAX / 2 + 2, 0) == NULL);
	check(mallocx(100, 63) == NULL);
	try_nallocx();
	try_larger_chunks();
	return 0;
}
