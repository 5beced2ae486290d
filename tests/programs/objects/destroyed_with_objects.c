/*
 * umem_cache_destroy() of a cache with objects in use: freed objects are
 * destructed, also in slabs with objects in use.  Objects in use keep their
 * contents and are never destructed.
 *
 * test modes: rseq own locked
 * test link: umem
 * test stderr: ^umem: umem_cache_destroy: 'kettles' \(0x[0-9a-f]+\) not empty$
 * test stderr: ^umem: 1000 objects in use:$
 * test stderr: ^umem:     0x[0-9a-f]+$
 * test stderr: ^umem:     and 996 more$
 * test stderr: ^umem: 20 objects in use:$
 * test stderr: ^umem: 1 object in use:$
 */
#include "tests/programs/check.h"

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

int
main(void)
{
	destroy_with_every_nth_out(2, 0);
	destroy_with_every_nth_out(2, UMC_NOMAGAZINE);
	destroy_with_every_nth_out(100, 0);
	destroy_with_every_nth_out(N, 0);
	return 0;
}
