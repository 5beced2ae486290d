/*
 * A reader stalls.  The nodes that it can reach stay unchanged, of every kind,
 * while updaters go on.
 *
 *	rcu_stall MILLISECONDS
 *
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 * test args: 300
 */
#include "tests/programs/rcu/rcu_kinds.h"

enum {
	NNODES = 20,
	NUPDATERS = 2
};

static struct node *node[NKINDS][NNODES];
static uint64_t number[NKINDS][NNODES];
static bool stop;
static unsigned nupdates;

static unsigned
nodes_of(unsigned kind)
{
	return kinds[kind].size > MIB ? 1 : NNODES;
}

static void *
updater(void *arg)
{
	uint64_t r = (uintptr_t)arg + 5;

	while (!load(&stop)) {
		unsigned kind = kind_choose(&r);

		if (kinds[kind].size > MIB)
			continue;
		check(node_free_rcu(node_alloc(kind), kind) == 0);
		if (add(&nupdates, 1) % 64 == 0)
			usleep(2000);
	}
	return NULL;
}

static bool
nodes_are_whole(void)
{
	for (unsigned kind = 0; kind < NKINDS; kind++)
		for (unsigned i = 0; i < nodes_of(kind); i++)
			if (!node_is(node[kind][i], kind, number[kind][i]))
				return false;
	return true;
}

static void
free_nodes(void)
{
	for (unsigned kind = 0; kind < NKINDS; kind++)
		for (unsigned i = 0; i < nodes_of(kind); i++)
			check(node_free_rcu(node[kind][i], kind) == 0);
}

static void
run(void)
{
	pthread_t updaters[NUPDATERS];
	uint64_t end;

	rcu_watch();
	kinds_setup();
	for (unsigned kind = 0; kind < NKINDS; kind++)
		for (unsigned i = 0; i < nodes_of(kind); i++) {
			node[kind][i] = node_alloc(kind);
			number[kind][i] = node[kind][i]->first;
		}
	rcu_true->register_thread();
	section_begin();
	for (uintptr_t i = 0; i < NUPDATERS; i++)
		updaters[i] = thread_start(updater, (void *)i);
	thread_end(thread_start((void *(*)(void *))free_nodes, NULL));
	check(rcu_args[0] != NULL);
	end = now_ms() + (unsigned)atoi(rcu_args[0]);
	for (unsigned seen = load(&nupdates);
	     now_ms() < end || load(&nupdates) < seen + 500;) {
		check(nodes_are_whole());
		usleep(1000);
	}
	section_end();
	rcu_true->unregister_thread();
	store(&stop, true);
	for (unsigned i = 0; i < NUPDATERS; i++)
		thread_end(updaters[i]);
	barrier();
}
