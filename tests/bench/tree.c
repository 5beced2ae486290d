/*
 * tree.c - ordered trees whose nodes come and go at random
 *
 *	tree.N		millions of insertions with their removals a second, N
 *			threads with a tree each
 *
 * A tree has 50,000 nodes of 48 bytes, each with a text of 8 to 100 bytes of
 * its own.  A step removes the node nearest to a random key and inserts a new
 * one.  The tree stays balanced by random priorities (a treap).  A fixed amount
 * of work.
 *
 * Source: the red-black tree tests of allocator and kernel test suites;
 * Seidel and Aragon, "Randomized search trees", 1996, for the balance.
 *
 * Usage: tree [scale [N ...]]
 */
#include "tests/bench/bench.h"

#define NNODES 50000

struct node {
	struct node *less, *more;
	uint64_t key, priority;
	char *text;
	size_t nbytes;
};

static struct node *
node_new(uint64_t *seed)
{
	struct node *node = bench_alloc(sizeof(*node));

	node->less = node->more = NULL;
	node->key = bench_random(seed);
	node->priority = bench_random(seed);
	node->nbytes = bench_between(seed, 8, 100);
	node->text = bench_alloc(node->nbytes);
	memset(node->text, (int)(node->key & 0x7f), node->nbytes);
	return node;
}

static void
node_free(struct node *node)
{
	if (node->text[node->nbytes - 1] != (char)(node->key & 0x7f)) {
		fprintf(stderr, "tree: a text was overwritten\n");
		abort();
	}
	free(node->text);
	free(node);
}

/* Divides a tree into the keys below key and the rest. */
static void
tree_split(
    struct node *tree, uint64_t key, struct node **less, struct node **more)
{
	while (tree != NULL) {
		if (tree->key < key) {
			*less = tree;
			less = &tree->more;
			tree = tree->more;
		} else {
			*more = tree;
			more = &tree->less;
			tree = tree->less;
		}
	}
	*less = *more = NULL;
}

/* All keys in less are below those in more. */
static struct node *
tree_join(struct node *less, struct node *more)
{
	struct node *tree, **at = &tree;

	while (less != NULL && more != NULL) {
		if (less->priority > more->priority) {
			*at = less;
			at = &less->more;
			less = less->more;
		} else {
			*at = more;
			at = &more->less;
			more = more->less;
		}
	}
	*at = less != NULL ? less : more;
	return tree;
}

static void
tree_insert(struct node **at, struct node *node)
{
	while (*at != NULL && (*at)->priority > node->priority)
		at = node->key < (*at)->key ? &(*at)->less : &(*at)->more;
	tree_split(*at, node->key, &node->less, &node->more);
	*at = node;
}

/* Removes the last node on the way to the key. */
static void
tree_remove(struct node **at, uint64_t key)
{
	struct node *node;

	for (;;) {
		struct node **next =
		    key < (*at)->key ? &(*at)->less : &(*at)->more;

		if (*next == NULL)
			break;
		at = next;
	}
	node = *at;
	*at = tree_join(node->less, node->more);
	node_free(node);
}

static void
run(struct bench_thread *thread)
{
	size_t nsteps = *(size_t *)thread->shared;
	struct node *tree = NULL;

	for (size_t i = 0; i < NNODES; i++)
		tree_insert(&tree, node_new(&thread->seed));
	for (size_t i = 0; i < nsteps; i++) {
		tree_remove(&tree, bench_random(&thread->seed));
		tree_insert(&tree, node_new(&thread->seed));
	}
	for (size_t i = 0; i < NNODES; i++)
		tree_remove(&tree, 0);
	if (tree != NULL) {
		fprintf(stderr, "tree: nodes are left\n");
		abort();
	}
	bench_did(thread, nsteps + NNODES);
}

static void
measure(unsigned nthreads, double scale)
{
	size_t nsteps = bench_count(2e6 / nthreads, scale);
	struct bench_group group = bench_threads(nthreads, run, &nsteps, 0);

	bench_print(bench_mops(&group), "Mops/s", "tree.%u", nthreads);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);

	for (int i = 2; i < argc; i++)
		measure((unsigned)strtoul(argv[i], NULL, 10), scale);
	if (argc <= 2) {
		measure(1, scale);
		measure(2, scale);
	}
	return 0;
}
