/*
 * rcu_kinds.h - objects of each kind that can be freed after a grace period
 *
 * A node is an object that a test publishes to readers.  Its owner writes a
 * number that no other node ever has to its first and last word.  A reader in
 * a section that has found a node sees that number until its section ends;
 * another number, or none, means that the memory was used again too early.
 */
#ifndef TESTS_PROGRAMS_RCU_KINDS_H
#define TESTS_PROGRAMS_RCU_KINDS_H

#include "tests/programs/rcu/rcu.h"

enum kind_source {
	FROM_CACHE,
	FROM_UMEM,
	FROM_MALLOC,
	FROM_MEMALIGN
};

struct kind {
	enum kind_source source;
	size_t size;
	size_t align;  /* of FROM_MEMALIGN */
	unsigned rare; /* one node in so many is of this kind */
};

static const struct kind kinds[] = {
    {FROM_CACHE, 64, 0, 1},
    {FROM_CACHE, 5000, 0, 1},
    {FROM_UMEM, 24, 0, 1},
    {FROM_UMEM, 600, 0, 1},
    {FROM_UMEM, 70000, 0, 10},
    {FROM_UMEM, 9 * MIB, 0, 100},
    {FROM_MALLOC, 16, 0, 1},
    {FROM_MALLOC, 200, 0, 1},
    {FROM_MALLOC, 3000, 0, 1},
    {FROM_MALLOC, 100000, 0, 10},
    {FROM_MALLOC, 9 * MIB, 0, 100},
    {FROM_MEMALIGN, 100, 64, 1},
    {FROM_MEMALIGN, 5000, 4096, 4},
    {FROM_MEMALIGN, 100, MIB, 50},
};

enum {
	NKINDS = sizeof(kinds) / sizeof(kinds[0])
};

struct node {
	uint64_t first;
};

static umem_cache_t *kind_caches[NKINDS];
static uint64_t kind_last_number;

static inline void
kinds_setup(void)
{
	for (unsigned i = 0; i < NKINDS; i++)
		if (kinds[i].source == FROM_CACHE)
			check((kind_caches[i] = umem_cache_create("kind",
				   kinds[i].size, 0, NULL, NULL, NULL, NULL,
				   NULL, 0)) != NULL);
}

static inline uint64_t *
node_last(struct node *node, unsigned kind)
{
	return (uint64_t *)(void *)((char *)node + kinds[kind].size - 8);
}

/* A new node of a kind, with a number of its own. */
static inline struct node *
node_alloc(unsigned kind)
{
	const struct kind *k = &kinds[kind];
	struct node *node = NULL;
	uint64_t number = add(&kind_last_number, 1);

	switch (k->source) {
	case FROM_CACHE:
		node = umem_cache_alloc(kind_caches[kind], UMEM_DEFAULT);
		break;
	case FROM_UMEM:
		node = umem_alloc(k->size, UMEM_DEFAULT);
		break;
	case FROM_MALLOC:
		node = malloc(k->size);
		break;
	case FROM_MEMALIGN:
		check(posix_memalign((void **)&node, k->align, k->size) == 0);
		break;
	}
	check(node != NULL);
	__atomic_store_n(&node->first, number, __ATOMIC_RELAXED);
	__atomic_store_n(node_last(node, kind), number, __ATOMIC_RELAXED);
	return node;
}

/* The result of the deferred free. */
static inline int
node_free_rcu(struct node *node, unsigned kind)
{
	const struct kind *k = &kinds[kind];

	switch (k->source) {
	case FROM_CACHE:
		return umem_cache_free_rcu_flavor(kind_caches[kind], node, rcu);
	case FROM_UMEM:
		return umem_free_rcu_flavor(node, k->size, rcu);
	default:
		return free_rcu_flavor(node, rcu);
	}
}

/* The number of a node, of which both words must be the same. */
static inline bool
node_is(struct node *node, unsigned kind, uint64_t number)
{
	return __atomic_load_n(&node->first, __ATOMIC_RELAXED) == number &&
	       __atomic_load_n(node_last(node, kind), __ATOMIC_RELAXED) ==
		   number;
}

/* A kind, with regard to how rare each is. */
static inline unsigned
kind_choose(uint64_t *random)
{
	unsigned kind;

	do
		kind = next_random(random) % NKINDS;
	while (next_random(random) % kinds[kind].rare != 0);
	return kind;
}

#endif
