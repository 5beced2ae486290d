#!/bin/bash
# test timeout: 200
# memcheck and address sanitizer see objects and blocks of umem as they see
# those of malloc().
set -eu
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
cat >main.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "umem/umem.h"

static int
construct(void *p, void *priv, int flags)
{
	(void)priv, (void)flags;
	memset(p, 5, 40);
	return 0;
}

static void
destruct(void *p, void *priv)
{
	(void)priv;
	if (((char *)p)[39] != 5)
		abort();
}

static umem_cache_t *objects, *made;

__attribute__((noinline)) static void
lose_objects(void)
{
	for (int i = 0; i < 10; i++)
		*(volatile char *)umem_cache_alloc(objects, 0) = 1;
}

__attribute__((noinline)) static void
lose_block(size_t size)
{
	*(volatile char *)umem_alloc(size, 0) = 1;
}

/* Stale pointers on the stack would be pointers. */
__attribute__((noinline)) static void
wipe(void)
{
	volatile char room[8192];

	for (size_t i = 0; i < sizeof(room); i++)
		room[i] = 0;
}

/* Everything that is right. */
static void
use(void)
{
	static char *p[300];

	for (int turn = 0; turn < 3; turn++) {
		for (size_t i = 1; i < 300; i++) {
			size_t size = i * i * (turn + 1);

			p[i] = i % 2 ? umem_alloc(size, 0)
				     : umem_zalloc(size, 0);
			if (p[i] == NULL || (i % 2 == 0 && p[i][size - 1] != 0))
				abort();
			memset(p[i], 1, size);
		}
		for (size_t i = 1; i < 300; i++)
			umem_free(p[i], i * i * (turn + 1));
		for (size_t i = 0; i < 300; i++) {
			p[i] = umem_cache_alloc(made, UMEM_DEFAULT);
			if (p[i][7] != 5)
				abort();
		}
		for (size_t i = 0; i < 300; i++)
			umem_cache_free(made, p[i]);
		if (umem_cache_alloc_bulk(
			made, 250, (void **)p, UMEM_DEFAULT) != 250)
			abort();
		for (size_t i = 0; i < 250; i++)
			if (p[i][39] != 5)
				abort();
		umem_cache_free_bulk(made, 250, (void **)p);
		for (size_t align = 8; align <= 65536; align *= 2) {
			p[0] = umem_alloc_align(100, align, UMEM_DEFAULT);
			if ((size_t)p[0] % align != 0)
				abort();
			memset(p[0], 1, 100);
			p[1] = umem_alloc_align(100, align, UMEM_DEFAULT);
			/* Not a span of the heap for each. */
			if (align == 64 &&
			    ((size_t)p[0] | (size_t)p[1]) % 65536 == 0)
				abort();
			umem_free_align(p[0], 100);
			umem_free_align(p[1], 100);
		}
		umem_cache_reap_now(made);
		umem_reap();
	}
	memset(p, 0, sizeof(p));
}

int
main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	char *p, *q;
	volatile int sum = 0;

	objects = umem_cache_create(
	    "objects", 40, 0, NULL, NULL, NULL, NULL, NULL, 0);
	made = umem_cache_create(
	    "made", 40, 0, construct, destruct, NULL, NULL, NULL, 0);
	p = umem_cache_alloc(objects, UMEM_DEFAULT);
	q = umem_alloc(100, UMEM_DEFAULT);
	if (strcmp(what, "uninitialised") == 0 && p[5] == 3)
		puts("three");
	memset(p, 1, 40);
	memset(q, 1, 100);
	use();
	if (strcmp(what, "past_object") == 0)
		p[40] = 1;
	if (strcmp(what, "past_block") == 0)
		q[100] = 1;
	if (strcmp(what, "twice") == 0)
		umem_cache_free(objects, p);
	umem_cache_free(objects, p);
	umem_free(q, 100);
	if (strcmp(what, "later_object") == 0)
		sum += p[3];
	if (strcmp(what, "later_block") == 0)
		sum += q[3];
	if (strcmp(what, "lose_objects") == 0)
		lose_objects();
	if (strcmp(what, "lose_block") == 0)
		lose_block(300);
	wipe();
	umem_cache_destroy(made);
	return 0;
}
END
bad() {
	echo "$*"
	cat said
	exit 1
}
build() {
	"$CC" -g -O1 -fno-builtin -D_GNU_SOURCE -I"$TOP" "$@" main.c \
	    -L"$B" -lumem "-Wl,-rpath,$B"
}
build -o main
if command -v valgrind >/dev/null; then
	# under STEP [TEXT] - memcheck must report TEXT for the program's STEP;
	# without TEXT it must report nothing
	under() {
		local status=0

		{
			valgrind -q --leak-check=full --error-exitcode=9 \
			    ./main "$1" >said 2>&1
		} 2>/dev/null || status=$?
		if [ -z "${2:-}" ]; then
			[ "$status" = 0 ] || bad "memcheck $1"
			[ ! -s said ] || bad "memcheck $1"
			return
		fi
		grep -Eq "$2" said || bad "memcheck $1: not $2"
		[ "$status" != 0 ] || bad "memcheck $1: no error"
	}
	under fine
	under uninitialised 'depends on uninitialised value'
	under past_object '0 bytes after a block of size 40'
	under past_block '0 bytes after a block of size 100'
	under later_object '3 bytes inside a block of size 40 free.d'
	under later_block '3 bytes inside a block of size 100 free.d'
	under twice 'Invalid free'
	under lose_objects '400 bytes in 10 blocks are definitely lost'
	grep -q 'lose_objects (main.c' said || bad "not who lost them"
	under lose_block '300 bytes in 1 blocks are definitely lost'
fi
if build -fsanitize=address -o watched 2>err; then
	for what in past_object past_block later_object later_block; do
		! ./watched "$what" >said 2>&1 || bad "sanitizer $what: fine"
		grep -q 'AddressSanitizer: use-after-poison' said ||
		    bad "sanitizer $what"
	done
	./watched fine >said 2>&1 || bad "sanitizer fine: not fine"
	[ ! -s said ] || bad "sanitizer fine: says something"
fi
