/*
 * umem_cache_destroy() of a cache with and without objects in use.
 *
 * test link: umem
 *
 * test run: empty
 * test args: empty
 * test no stderr: .
 * test run: not_empty
 * test args: not_empty
 * test stderr: ^umem: umem_cache_destroy: 'kettles' \(0x[0-9a-f]+\) not empty$
 * test no stderr: spoons
 * test run: sampled
 * test args: not_empty
 * test not with: qemu runs architectures without stacks
 * test env: UMEM_OPTIONS=sample=1
 * test stderr: ^umem: umem_cache_destroy: 'kettles' \(0x[0-9a-f]+\) not empty$
 * test stderr: ^umem: 1 object in use:$
 * test stderr: ^umem: allocated by thread [0-9]+, [0-9.]+ s ago:$
 * test stderr: ^umem:     .*`main\+0x
 * test no stderr: spoons
 * test run: destructors
 * test args: destructors
 * test modes: rseq own locked
 * test stderr: ^umem: umem_cache_destroy: 'kettles' \(0x[0-9a-f]+\) not empty$
 * test stderr: ^umem: 1000 objects in use:$
 * test stderr: ^umem:     0x[0-9a-f]+$
 * test stderr: ^umem:     and 996 more$
 * test stderr: ^umem: 20 objects in use:$
 * test stderr: ^umem: 1 object in use:$
 */
#include "tests/programs/check.h"

enum {
	NEMPTY = 3000
};
static void *of_main[NEMPTY];

static void *
use_and_free(void *cache)
{
	static __thread void *mine[NEMPTY / 4];

	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < NEMPTY / 4; i++)
			check((mine[i] = umem_cache_alloc(cache, 0)) != NULL);
		for (int i = 0; i < NEMPTY / 4; i++)
			umem_cache_free(cache, mine[i]);
	}
	return NULL;
}

/* It is silent if all objects of the cache were freed. */
static void
empty(void)
{
	pthread_t thread[4];

	for (int round = 0; round < 50; round++) {
		umem_cache_t *cache = umem_cache_create(
		    "kettles", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);

		check(cache != NULL);
		for (int i = 0; i < 4; i++)
			thread[i] = thread_start(use_and_free, cache);
		for (int i = 0; i < NEMPTY; i++)
			check(
			    (of_main[i] = umem_cache_alloc(cache, 0)) != NULL);
		for (int i = 0; i < NEMPTY; i++)
			umem_cache_free(cache, of_main[i]);
		for (int i = 0; i < 4; i++)
			thread_end(thread[i]);
		umem_cache_destroy(cache);
	}
}

/*
 * It prints a message and returns.  The objects stay usable, and other caches
 * are not affected.
 */
static void
not_empty(void)
{
	umem_cache_t *cache = umem_cache_create(
	    "kettles", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	char *object, *other;

	check(cache != NULL);
	check((object = umem_cache_alloc(cache, UMEM_DEFAULT)) != NULL);
	stamp(object, 100, 7);
	umem_cache_destroy(cache);
	cache = umem_cache_create(
	    "spoons", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	check(cache != NULL);
	for (int i = 0; i < 10000; i++) {
		check((other = umem_cache_alloc(cache, UMEM_DEFAULT)) != NULL);
		check(other + 100 <= object || object + 100 <= other);
		stamp(other, 100, 8);
	}
	check(is_stamped(object, 100, 7));
}

enum {
	N = 2000
};

struct object {
	int out; /* 1: the program holds it */
	char rest[60];
};

static unsigned ndestructed, ncreated;

static int
construct(void *p, void *arg, int flags)
{
	(void)arg;
	(void)flags;
	((struct object *)p)->out = 0;
	ncreated++;
	return 0;
}

static void
destruct(void *p, void *arg)
{
	struct object *object = p;

	(void)arg;
	check(object->out == 0);
	object->out = -1;
	ndestructed++;
}

static void
destroy_with_every_nth_out(unsigned nth, int flags)
{
	static struct object *object[N];
	unsigned nout = 0;
	umem_cache_t *cache =
	    umem_cache_create("kettles", sizeof(struct object), 0, construct,
		destruct, NULL, NULL, NULL, flags);

	check(cache != NULL);
	ncreated = ndestructed = 0;
	for (unsigned i = 0; i < N; i++)
		check((object[i] = umem_cache_alloc(cache, 0)) != NULL);
	for (unsigned i = 0; i < N; i++) {
		object[i]->out = i % nth == 0;
		stamp(object[i]->rest, sizeof(object[i]->rest), i);
		nout += i % nth == 0;
		if (i % nth != 0)
			umem_cache_free(cache, object[i]);
	}
	umem_cache_destroy(cache);
	check(ncreated == N && ndestructed == N - nout);
	for (unsigned i = 0; i < N; i += nth)
		check(object[i]->out == 1 &&
		      is_stamped(object[i]->rest, sizeof(object[i]->rest), i));
}

/*
 * Freed objects are destructed, also in slabs with objects in use.  Objects in
 * use keep their contents and are never destructed.
 */
static void
destructors(void)
{
	destroy_with_every_nth_out(2, 0);
	destroy_with_every_nth_out(2, UMC_NOMAGAZINE);
	destroy_with_every_nth_out(100, 0);
	destroy_with_every_nth_out(N, 0);
}

static const struct test_case cases[] = {{"empty", empty},
    {"not_empty", not_empty}, {"destructors", destructors}, {NULL, NULL}};

int
main(int argc, char **argv)
{
	return run_case(argc, argv, cases);
}
