#!/bin/bash
# timeout: 120
# UMEM_OPTIONS=checked: every free of a block that the program does not own is
# reported by that free, after any number of other frees in between.  Correct
# programs run as before.
set -eu
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
cat >main.c <<'END'
#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>

#include "tests/programs/check.h"
#include "vmem/vmem.h"

static const char *name;
static size_t n;

static bool
is(const char *text)
{
	return strcmp(name, text) == 0;
}

static char *
block(void)
{
	char *volatile p = malloc(n);

	check(p != NULL);
	return p;
}

static void *
free_it(void *p)
{
	free(p);
	return NULL;
}

static void
after_others(int nothers)
{
	static char *other[5000];
	char *p = block();

	for (int i = 0; i < nothers; i++)
		other[i] = block();
	free(p);
	for (int i = 0; i < nothers; i++)
		free(other[i]);
	free(p);
}

static void
objects(void)
{
	umem_cache_t *cache = umem_cache_create(
	    "mine", n, 0, NULL, NULL, NULL, NULL, NULL, 0);
	umem_cache_t *other = umem_cache_create(
	    "other", n, 0, NULL, NULL, NULL, NULL, NULL, 0);
	static char variable[64];
	char *p = umem_cache_alloc(cache, 0), *q[100];

	check(umem_cache_alloc(other, 0) != NULL);
	if (is("object twice")) {
		for (int i = 0; i < 100; i++)
			q[i] = umem_cache_alloc(cache, 0);
		umem_cache_free(cache, p);
		for (int i = 0; i < 100; i++)
			umem_cache_free(cache, q[i]);
		umem_cache_free(cache, p);
	} else if (is("object in bulk")) {
		check(umem_cache_alloc_bulk(cache, 100, (void **)q, 0) == 100);
		umem_cache_free_bulk(cache, 100, (void **)q);
		umem_cache_free_bulk(cache, 10, (void **)q + 20);
	} else if (is("object in a handle")) {
		umem_prefill_t *handle = umem_cache_prefill(cache, 9, 0);

		check(handle != NULL && umem_prefill_refill(handle, 90, 0) == 0);
		p = umem_prefill_alloc(handle);
		umem_cache_free(cache, p);
		umem_cache_free(cache, p = **((char ***)handle + 1));
	} else if (is("object of another")) {
		umem_cache_free(other, p);
	} else if (is("object inside")) {
		umem_cache_free(cache, p + 8);
	} else {
		umem_cache_free(cache, variable);
	}
}

static void
identifiers(void)
{
	vmem_t *arena = vmem_create("numbers", (void *)(uintptr_t)1, 100000, 1,
	    NULL, NULL, NULL, 8, VM_NOSLEEP);
	void *a = vmem_alloc(arena, 1, VM_NOSLEEP);
	void *b = vmem_alloc(arena, 1, VM_NOSLEEP);

	check(a != NULL && b != NULL && a != b);
	vmem_free(arena, a, 1);
	if (is("number twice"))
		for (int i = 0; i < 100; i++)
			vmem_free(arena, vmem_alloc(arena, 1, VM_NOSLEEP), 1);
	vmem_free(arena, is("number twice") ? a : b, 1);
	vmem_destroy(arena);
}

static void
misuse(void)
{
	char *p = block();

	if (is("twice")) {
		free(p);
		free(p);
	} else if (is("after 5")) {
		after_others(5);
	} else if (is("after 3000")) {
		after_others(3000);
	} else if (is("by a thread")) {
		pthread_t thread;

		free(p);
		check(pthread_create(&thread, NULL, free_it, p) == 0);
		check(pthread_join(thread, NULL) == 0);
	} else if (is("never")) {
		free(p + n * 200);
	} else if (is("near")) {
		/* It came to the magazine together with p. */
		free(p + n);
	} else if (is("realloc")) {
		free(p);
		free(keep(realloc(p, n - 1)));
	} else if (is("usable")) {
		free(p);
		keep((void *)malloc_usable_size(p));
	} else if (strncmp(name, "object", 6) == 0) {
		objects();
	} else {
		identifiers();
	}
	fprintf(stderr, "reached\n");
}

static void *
stir(void *arg)
{
	static char *shared[64];
	unsigned seed = (unsigned)(uintptr_t)arg;

	for (int i = 0; i < 20000; i++) {
		size_t bytes = (size_t)rand_r(&seed) % 5000;
		char *p = rand_r(&seed) % 4 != 0 ? malloc(bytes)
						 : memalign(256, bytes);

		check(p != NULL);
		memset(p, 1, bytes);
		if (rand_r(&seed) % 4 == 0) {
			p = realloc(p, bytes + 100);
			check(p != NULL && (bytes == 0 || p[bytes - 1] == 1));
		}
		check(malloc_usable_size(p) >= bytes);
		free(__atomic_exchange_n(&shared[rand_r(&seed) % 64], p,
		    __ATOMIC_ACQ_REL));
	}
	return NULL;
}

static int
construct(void *p, void *priv, int flags)
{
	(void)priv;
	(void)flags;
	strcpy(p, "constructed");
	return 0;
}

static void
works(void)
{
	umem_cache_t *cache = umem_cache_create(
	    "made", 100, 0, construct, NULL, NULL, NULL, NULL, 0);
	static char *object[3000];
	pthread_t thread[4];
	int status;

	for (uintptr_t i = 0; i < 4; i++)
		check(pthread_create(&thread[i], NULL, stir, (void *)i) == 0);
	for (int i = 0; i < 4; i++)
		check(pthread_join(thread[i], NULL) == 0);
	if (fork() == 0) {
		stir((void *)9);
		_exit(0);
	}
	check(wait(&status) > 0 && status == 0);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 3000; i++) {
			object[i] = umem_cache_alloc(cache, 0);
			check(strcmp(object[i], "constructed") == 0);
		}
		umem_cache_free_bulk(cache, 1000, (void **)object);
		for (int i = 1000; i < 3000; i++)
			umem_cache_free(cache, object[i]);
		umem_reap();
	}
	umem_cache_destroy(cache);
	for (int i = 0; i < 3000; i++)
		object[i] = umem_alloc(40, UMEM_NOFAIL);
	for (int i = 0; i < 3000; i++)
		umem_free(object[i], 40);
	name = "numbers";
	identifiers();
	malloc_trim(0);
}

int
main(int argc, char **argv)
{
	name = argv[1];
	n = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
	if (is("works"))
		works();
	else
		misuse();
	return 0;
}
END
$CC -O1 -fno-builtin -w -I"$TOP" -D_GNU_SOURCE -pthread -o main main.c \
    -L"$B" -lumem -Wl,-rpath,"$(readlink -f "$B")"

run() {
	env LD_PRELOAD="$SHIM" UMEM_OPTIONS="$options" ./main "$@" 2>err
}

# misuse NAME SIZE MESSAGE
misuse() {
	local status=0

	run "$1" "$2" || status=$?
	if [ "$status" != 134 ] || ! grep -qE "^umem: $3$" err; then
		echo "$options: $1 of $2 bytes: status $status"
		cat err
		exit 1
	fi
}

ulimit -c 0
at='0x[0-9a-f]+'
for options in checked checked,mode=locked checked,nomagazines; do
	for n in 24 100 3000 100000; do
		for name in twice "after 5" "after 3000" "by a thread"; do
			[[ $n.$name != 100000.*3000 ]] || continue
			misuse "$name" $n "free\\($at\\): block freed twice"
		done
		misuse realloc $n "realloc\\($at\\): block was freed"
		misuse usable $n "malloc_usable_size\\($at\\): block was freed"
	done
	for n in 48 128; do
		misuse never $n "free\\($at\\): block was never allocated"
		misuse near $n \
		    "free\\($at\\): block (freed twice|was never allocated)"
		object="umem_cache_free\\((mine|other), $at\\)"
		misuse "object twice" $n "$object: block freed twice"
		misuse "object in bulk" $n \
		    "umem_cache_free_bulk\\(mine, $at\\): block freed twice"
		misuse "object in a handle" $n "$object: block freed twice"
		misuse "object of another" $n "$object: object of another cache"
		misuse "object inside" $n "$object: not the start of a block"
		misuse "object foreign" $n "$object: object of another cache"
	done
	misuse "number twice" 8 \
	    "umem_cache_free\\(numbers_1, $at\\): block freed twice"
	run works 0
done
