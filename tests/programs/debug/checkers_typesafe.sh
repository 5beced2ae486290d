#!/bin/bash
# test timeout: 120
# memcheck and address sanitizer let readers look at free objects of a
# type-stable cache, and still report errors.
set -eu
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
cat >main.c <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "umem/umem.h"

#define N 40

static umem_cache_t *cache;
static char *seen[N]; /* every object that was ever handed out */
static int done;

static int
construct(void *p, void *priv, int flags)
{
	(void)priv, (void)flags;
	memset(p, 5, 40);
	return 0;
}

static void
look_at(const char *p)
{
	for (int i = 0; p != NULL && i < 40; i++)
		if (p[i] != 5)
			abort();
}

/* Inside a read-side critical section all the time. */
static void *
reader(void *arg)
{
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
		for (int i = 0; i < N; i++)
			look_at(__atomic_load_n(&seen[i], __ATOMIC_ACQUIRE));
	return arg;
}

/* Objects that are allocated, and freed while they are looked at. */
static void
use(void)
{
	void *p[N];

	for (int turn = 0; turn < 50; turn++) {
		if (turn % 2 == 0)
			for (int i = 0; i < N; i++)
				p[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
		else
			umem_cache_alloc_bulk(cache, N, p, UMEM_DEFAULT);
		for (int i = 0; i < N; i++) {
			look_at(p[i]);
			__atomic_store_n(&seen[i], p[i], __ATOMIC_RELEASE);
		}
		if (turn % 3 == 0)
			for (int i = 0; i < N; i++)
				umem_cache_free(cache, p[i]);
		else
			umem_cache_free_bulk(cache, N, p);
		umem_cache_reap_now(cache);
		umem_reap();
		for (int i = 0; i < N; i++)
			look_at(p[i]);
	}
}

/* Without a constructor: what the last owner left is defined, too. */
static void
use_plain(void)
{
	umem_cache_t *plain = umem_cache_create("plain", 40, 0, NULL, NULL,
	    NULL, NULL, NULL, UMC_TYPESAFE_BY_RCU);
	char *p = umem_cache_alloc(plain, UMEM_DEFAULT);

	memset(p, 5, 40);
	umem_cache_free(plain, p);
	look_at(p);
	if (umem_cache_alloc(plain, UMEM_DEFAULT) != p)
		abort();
	look_at(p);
	umem_cache_free(plain, p);
	umem_cache_destroy(plain);
}

__attribute__((noinline)) static void
lose_objects(void)
{
	for (int i = 0; i < 10; i++)
		*(volatile char *)umem_cache_alloc(cache, 0) = 5;
}

/* Stale pointers on the stack would be pointers. */
__attribute__((noinline)) static void
wipe(void)
{
	volatile char room[8192];

	for (size_t i = 0; i < sizeof(room); i++)
		room[i] = 0;
}

int
main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	pthread_t thread;
	char *p;

	cache = umem_cache_create("stable", 40, 0, construct, NULL, NULL, NULL,
	    NULL, UMC_TYPESAFE_BY_RCU);
	pthread_create(&thread, NULL, reader, NULL);
	use();
	use_plain();
	__atomic_store_n(&done, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	memset(seen, 0, sizeof(seen));
	p = umem_cache_alloc(cache, UMEM_DEFAULT);
	if (strcmp(what, "past_object") == 0)
		p[40] = 1;
	umem_cache_free(cache, p);
	if (strcmp(what, "past_free_object") == 0)
		p[40] = 1;
	if (strcmp(what, "twice") == 0)
		umem_cache_free(cache, p);
	if (strcmp(what, "lose_objects") == 0)
		lose_objects();
	wipe();
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
	    -L"$B" -lumem "-Wl,-rpath,$B" -pthread
}
build -o main
if command -v valgrind >/dev/null; then
	# under STEP [TEXT] - memcheck must report TEXT for the program's STEP;
	# without TEXT it must report nothing
	under() {
		local status=0

		{
			valgrind -q --leak-check=full --fair-sched=try \
			    --error-exitcode=9 ./main "$1" >said 2>&1
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
	under past_object '0 bytes after a block of size 40'
	under past_free_object 'Invalid write of size 1'
	under twice 'Invalid free'
	under lose_objects '400 bytes in 10 blocks are definitely lost'
	grep -q 'lose_objects (main.c' said || bad "not who lost them"
fi
if build -fsanitize=address -o watched 2>err; then
	./watched fine >said 2>&1 || bad "sanitizer fine: not fine"
	[ ! -s said ] || bad "sanitizer fine: says something"
	for what in past_object past_free_object; do
		! ./watched "$what" >said 2>&1 || bad "sanitizer $what: fine"
		grep -q 'AddressSanitizer: use-after-poison' said ||
		    bad "sanitizer $what"
	done
fi
