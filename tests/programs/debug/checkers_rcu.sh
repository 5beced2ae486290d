#!/bin/bash
# test not with: coverage, in which valgrind takes records of it for functions
# test timeout: 200
# memcheck sees a deferred free: a second free is reported, and so is an access
# after the grace period.  Readers may use the memory before its end, and there
# is no leak.
set -eu
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
command -v valgrind >/dev/null || { echo "no valgrind"; exit 77; }
cat >main.c <<'END'
#define URCU_API_MAP
#include <urcu/urcu-memb.h>
#include <umem_rcu.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static umem_cache_t *objects;

/* Everything that is right. */
static void
use(void)
{
	for (int i = 0; i < 300; i++) {
		char *p[4] = {umem_cache_alloc(objects, 0), umem_alloc(100, 0),
		    malloc(100), umem_alloc(i % 60 ? 200 : 9 << 20, 0)};

		p[0][39] = p[1][99] = p[2][99] = p[3][100] = 1;
		rcu_read_lock();
		if (umem_cache_free_rcu(objects, p[0]) != 0 ||
		    umem_free_rcu(p[1], 100) != 0 || free_rcu(p[2]) != 0 ||
		    umem_free_rcu(p[3], i % 60 ? 200 : 9 << 20) != 0)
			abort();
		/* Readers may read and write. */
		for (int j = 0; j < 4; j++)
			p[j][39] += p[j][38] == 5;
		rcu_read_unlock();
	}
}

static char *volatile shared;
static int stop;

/* Reads objects as another thread frees them. */
static void *
reader(void *sum)
{
	rcu_register_thread();
	while (!uatomic_read(&stop)) {
		rcu_read_lock();
		*(volatile int *)sum += rcu_dereference(shared)[39];
		rcu_read_unlock();
	}
	rcu_unregister_thread();
	return NULL;
}

static void
replace(void)
{
	static int sum;
	pthread_t thread;
	char *old;

	shared = memset(umem_cache_alloc(objects, 0), 1, 40);
	pthread_create(&thread, NULL, reader, &sum);
	for (int i = 0; i < 3000; i++) {
		char *p = memset(umem_cache_alloc(objects, 0), 1, 40);

		old = rcu_xchg_pointer(&shared, p);
		if (umem_cache_free_rcu(objects, old) != 0)
			abort();
		if (i % 100 == 0)
			sched_yield();
	}
	uatomic_set(&stop, 1);
	pthread_join(thread, NULL);
	umem_cache_free_rcu(objects, shared);
	shared = NULL;
}

int
main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	volatile int sum = 0;
	char *p, *q, *r;

	rcu_register_thread();
	objects = umem_cache_create(
	    "objects", 40, 0, NULL, NULL, NULL, NULL, NULL, 0);
	use();
	if (strcmp(what, "fine") == 0)
		replace();
	umem_rcu_barrier();
	p = memset(umem_cache_alloc(objects, UMEM_DEFAULT), 1, 40);
	q = memset(umem_alloc(100, UMEM_DEFAULT), 1, 100);
	r = memset(malloc(100), 1, 100);
	rcu_read_lock();
	if (umem_cache_free_rcu(objects, p) != 0 ||
	    umem_free_rcu(q, 100) != 0 || free_rcu(r) != 0)
		abort();
	sum += p[3] + q[3] + r[3];
	if (strcmp(what, "object_twice") == 0)
		umem_cache_free(objects, p);
	if (strcmp(what, "block_twice") == 0)
		umem_free(q, 100);
	if (strcmp(what, "defer_twice") == 0)
		umem_cache_free_rcu(objects, p);
	if (strcmp(what, "malloc_twice") == 0)
		free(r);
	rcu_read_unlock();
	umem_rcu_barrier();
	if (strcmp(what, "later_object") == 0)
		p[3] = 1;
	if (strcmp(what, "later_block") == 0)
		q[3] = 1;
	if (strcmp(what, "later_malloc") == 0)
		r[3] = 1;
	rcu_unregister_thread();
	umem_cache_destroy(objects);
	return sum == 3 ? 0 : 1;
}
END
"$CC" -g -O1 -fno-builtin -D_GNU_SOURCE -Wno-use-after-free -I"$TOP/umem" \
    -o main main.c -pthread -L"$B" -lumem_rcu -lumem -lurcu-memb \
    "-Wl,-rpath,$B"

bad() {
	echo "memcheck $*"
	cat said
	exit 1
}
# under STEP [TEXT] - memcheck must report TEXT for the program's STEP; without
# TEXT it must report nothing.  It reports only definite leaks, because the
# thread of a flavour still lives when the process ends, and memcheck calls the
# stack of every such thread "possibly lost".
under() {
	local status=0

	{
		valgrind -q --leak-check=full --show-leak-kinds=definite \
		    --errors-for-leak-kinds=definite --error-exitcode=9 \
		    ./main "$1" >said 2>&1
	} 2>/dev/null || status=$?
	if [ -z "${2:-}" ]; then
		[ "$status" = 0 ] || bad "$1: status $status"
		[ ! -s said ] || bad "$1"
		return
	fi
	grep -Eq "$2" said || bad "$1: not $2"
	[ "$status" != 0 ] || bad "$1: no error"
}
under fine
for what in object_twice defer_twice block_twice malloc_twice; do
	under $what 'Invalid free'
	grep -Eq '0 bytes inside a block of size (40|100) free.d' said ||
	    bad "$what: not what was freed"
	grep -q 'umem_cache_free_rcu\|umem_free_rcu\|umem_rcu_barrier' said ||
	    bad "$what: not who freed it"
done
under later_object '3 bytes inside a block of size 40 free.d'
under later_block '3 bytes inside a block of size 100 free.d'
under later_malloc '3 bytes inside a block of size 100 free.d'
# With the malloc library, and memcheck's malloc() in place of its own, or not.
export LD_PRELOAD=$SHIM
under fine
VALGRIND_OPTS=--soname-synonyms=somalloc=nouserintercepts under fine
