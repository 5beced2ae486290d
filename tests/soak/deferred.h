/*
 * deferred.h - frees that wait for readers of liburcu
 *
 * Actors replace nodes in slots and free the old ones after a grace period;
 * readers check that a node that they found does not change in their section.
 * Objects of the cache TYPESAFE are freed at once, and keep their first word.
 */
#ifndef TESTS_SOAK_DEFERRED_H
#define TESTS_SOAK_DEFERRED_H

#include "tests/soak/objects.h"

enum {
	NNODES = 64,
	NREADERS = 2
};

struct node {
	uint64_t size, base; /* the first words of the block */
	enum origin origin;
	unsigned cache;
};

static struct node *nodes[NNODES]; /* [atomic] */
static uint64_t *typesafe[NNODES]; /* [atomic] */
static bool readers_stop;          /* [atomic] */
static pthread_t readers[NREADERS];
static struct actor reader_actors[NREADERS];

/* The part of a node behind its head. */
static inline struct block
node_rest(const struct node *node)
{
	return (struct block){(unsigned char *)(uintptr_t)(node + 1),
	    node->size - sizeof(*node), node->base, node->origin, node->cache};
}

static struct node *
node_new(struct actor *a)
{
	static const enum origin origins[] = {MALLOC, UMEM, OBJECT};
	unsigned mark = scarce_mark();
	enum origin origin = origins[draw(a, 3)];
	size_t size = sizeof(struct node) + draw(a, draw(a, 64) ? 500 : 100000);
	struct node *node;
	struct block rest;

	if (origin == OBJECT)
		size = caches[PLAIN].size;
	node = origin == MALLOC ? malloc(size)
	       : origin == UMEM ? umem_alloc(size, UMEM_DEFAULT)
				: umem_cache_alloc(caches[PLAIN].cache, 0);
	if (node == NULL) {
		failed(mark, "a node", size);
		return NULL;
	}
	starts_set(node, 1, "is allocated twice");
	*node = (struct node){size, next_random(&a->random), origin, PLAIN};
	rest = node_rest(node);
	fill_from(&rest, 0);
	a->ops++;
	a->bytes += size;
	return node;
}

/* No new reader finds the node. */
static void
node_free(struct actor *a, struct node *node)
{
	struct block rest = node_rest(node);
	enum origin origin = node->origin;
	size_t size = node->size;
	unsigned mark = scarce_mark();

	check_block(&rest, "node before its free");
	starts_set(node, 0, "is freed twice");
	a->ops++;
	a->bytes -= size;
	while ((origin == MALLOC ? free_rcu(node)
		   : origin == UMEM
		       ? umem_free_rcu(node, size)
		       : umem_cache_free_rcu(caches[PLAIN].cache, node)) != 0) {
		if (errno != EAGAIN || !may_fail(mark))
			differs("a deferred free fails, errno %d", errno);
		usleep(1000);
	}
}

/* Its thread may not be cancelled here. */
static inline void
deferred_step(struct actor *a)
{
	struct node *node;

	if (draw(a, 4) == 0) {
		uint64_t **slot = &typesafe[draw(a, NNODES)];
		uint64_t *old =
		    __atomic_exchange_n(slot, NULL, __ATOMIC_ACQ_REL);
		struct block b = {0};

		if (old != NULL) {
			/* In its constructed state since it came here. */
			a->ops++;
			a->bytes -= caches[TYPESAFE].size;
			starts_set(old, 0, "is freed twice");
			umem_cache_free(caches[TYPESAFE].cache, old);
		}
		object_get(a, &b, TYPESAFE);
		if (b.origin == NOTHING)
			return;
		old = (uint64_t *)b.at;
		b = constructed_state(b.at, b.size, TYPESAFE);
		fill_from(&b, 8);
		old = __atomic_exchange_n(slot, old, __ATOMIC_ACQ_REL);
		if (old != NULL) {
			a->ops++;
			a->bytes -= caches[TYPESAFE].size;
			starts_set(old, 0, "is freed twice");
			umem_cache_free(caches[TYPESAFE].cache, old);
		}
		return;
	}
	node = node_new(a);
	if (node == NULL)
		return;
	node = __atomic_exchange_n(
	    &nodes[draw(a, NNODES)], node, __ATOMIC_SEQ_CST);
	if (node != NULL)
		node_free(a, node);
}

static void
read_section(struct actor *a)
{
	size_t i = draw(a, NNODES), k = draw(a, NNODES);
	struct node *node, was;
	uint64_t *object;
	struct block rest;

	urcu_memb_read_lock();
	node = __atomic_load_n(&nodes[i], __ATOMIC_SEQ_CST);
	object = __atomic_load_n(&typesafe[k], __ATOMIC_SEQ_CST);
	if (node != NULL)
		was = *node;
	switch (draw(a, 64)) {
	case 0:
		usleep(draw(a, 2000));
		break;
	case 1:
		sched_yield();
		break;
	default:
		break;
	}
	if (node != NULL) {
		if (memcmp(&was, node, sizeof(was)) != 0)
			differs("node %p changes in a section", (void *)node);
		rest = node_rest(node);
		check_block(&rest, "node in a section");
	}
	if (object != NULL) {
		rest =
		    constructed_state(object, caches[TYPESAFE].size, TYPESAFE);
		check_range(&rest, 0, 8, "first word in a section");
	}
	urcu_memb_read_unlock();
	a->ops++;
}

static void *
reader_run(void *arg)
{
	struct actor *a = arg;

	urcu_memb_register_thread();
	while (!__atomic_load_n(&readers_stop, __ATOMIC_ACQUIRE)) {
		for (int i = 0; i < 50; i++)
			read_section(a);
		__atomic_store_n(
		    &board->actor[a->number].ops, a->ops, __ATOMIC_RELAXED);
		usleep(500);
	}
	urcu_memb_unregister_thread();
	return NULL;
}

static void
deferred_make(void)
{
	for (unsigned i = 0; i < NREADERS; i++) {
		actor_begin(&reader_actors[i], NACTORS - 1 - i, 7000 + i);
		readers[i] = thread_start(reader_run, &reader_actors[i]);
	}
}

/* Ends the readers and frees all. */
static void
deferred_end(struct actor *a)
{
	__atomic_store_n(&readers_stop, true, __ATOMIC_RELEASE);
	for (int i = 0; i < NREADERS; i++)
		thread_end(readers[i]);
	for (int i = 0; i < NNODES; i++) {
		if (nodes[i] != NULL)
			node_free(a, nodes[i]);
		if (typesafe[i] != NULL) {
			a->bytes -= caches[TYPESAFE].size;
			umem_cache_free(caches[TYPESAFE].cache, typesafe[i]);
		}
		nodes[i] = NULL;
		typesafe[i] = NULL;
	}
	must(umem_rcu_barrier() == 0);
}

#endif
