/*
 * leaks_direct.c - which leaks are the cause of others
 *
 * A program that loses the head of a list loses each element.  The head is a
 * direct leak; the elements are indirect leaks, because another leaked block
 * points to them.  Of a ring, one block counts as direct.
 *
 * So the direct leaks are one block of each strongly connected component that
 * no other component points to.  Two depth-first searches through the leaked
 * blocks find them.  The first records the order in which the search leaves the
 * blocks.  The second starts from the block that was left last: no block
 * outside its component points to it, otherwise the search would have left that
 * block later.  All blocks that the second search reaches are indirect.  It
 * continues with the next block in this order that it has not reached.
 *
 * An indirect leak that several direct leaks reach counts for one of them.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/model/roots.h"
#include "tools/inspect/sites/leaks.h"
#include "tools/inspect/sites/sites.h"

/* In struct node, chunk: the first search leaves this block. */
#define LEAVES ((uint32_t)1 << 31)

/* A leaked chunk, or a large block. */
struct node {
	uint32_t slab; /* index; UINT32_MAX: a large block */
	uint32_t chunk;
};

struct nodes {
	struct node *node;
	size_t n, capacity;
};

/* A direct leak through which others were found. */
struct root {
	uint64_t at;
	uint64_t held;
};

static struct {
	struct nodes todo, left;
	struct root *roots; /* by address */
	size_t nroots, roots_capacity;
} search;

static void
nodes_push(struct nodes *nodes, uint32_t slab, uint32_t chunk)
{
	ARRAY_ADD(
	    nodes->node, nodes->n, nodes->capacity, (struct node){slab, chunk});
}

static bool
is_unseen(const struct model *model, struct node node)
{
	if (node.slab == UINT32_MAX)
		return model->larges[node.chunk].unseen;
	return bit_get(model->slabs[node.slab].unseen, node.chunk);
}

static void
set_unseen(struct model *model, struct node node, bool unseen)
{
	if (node.slab == UINT32_MAX)
		model->larges[node.chunk].unseen = unseen;
	else if (unseen)
		bit_set(model->slabs[node.slab].unseen, node.chunk);
	else
		bit_clear(model->slabs[node.slab].unseen, node.chunk);
}

static void
prepare_leak(
    struct model *model, struct slab *slab, struct large *large, unsigned i)
{
	if (large != NULL) {
		large->unseen = true;
		return;
	}
	(void)model;
	if (slab->unseen == NULL) {
		slab->unseen = xalloc(8ull * words_of_bits(slab->nchunks));
		slab->indirect = xalloc(8ull * words_of_bits(slab->nchunks));
	}
	bit_set(slab->unseen, i);
}

/* Pushes the leaked and unseen block that has this address, if there is one. */
static void
push_owner(struct model *model, uint64_t at)
{
	struct block block;

	if (!model_find(model, at, &block) || block.between)
		return;
	if (block.large != NULL && block.large->unseen)
		nodes_push(&search.todo, UINT32_MAX,
		    (uint32_t)(block.large - model->larges));
	else if (block.slab != NULL && block.slab->unseen != NULL &&
		 bit_get(block.slab->unseen, block.chunk))
		nodes_push(&search.todo, (uint32_t)(block.slab - model->slabs),
		    block.chunk);
}

static void
push_words(struct model *model, const uint64_t *words, size_t n, uint64_t at,
    enum root_kind kind)
{
	(void)at, (void)kind;
	for (size_t i = 0; i < n; i++)
		if (words[i] >= 65536)
			push_owner(model, words[i]);
}

static void
push_pointees(struct model *model, struct node node)
{
	const struct slab *s = &model->slabs[node.slab];
	uint64_t at, bytes;

	if (node.slab == UINT32_MAX) {
		at = model->larges[node.chunk].at;
		bytes = model->larges[node.chunk].bytes;
	} else {
		at = slab_chunk_at(model, s, node.chunk);
		bytes = (model->caches[s->cache].bufsize + 7) & ~7ull;
	}
	roots_words(model, push_words, at, at + bytes, ROOT_MEMORY);
}

/* Searches from a block, and records each block when it leaves it. */
static void
search_from(struct model *model, struct node start)
{
	nodes_push(&search.todo, start.slab, start.chunk);
	while (search.todo.n > 0) {
		struct node node = search.todo.node[--search.todo.n];

		if ((node.chunk & LEAVES) != 0) {
			nodes_push(
			    &search.left, node.slab, node.chunk & ~LEAVES);
			continue;
		}
		if (!is_unseen(model, node))
			continue;
		set_unseen(model, node, false);
		nodes_push(&search.todo, node.slab, node.chunk | LEAVES);
		push_pointees(model, node);
	}
}

static void
start_search(
    struct model *model, struct slab *slab, struct large *large, unsigned i)
{
	struct node node = {UINT32_MAX, i};

	if (large != NULL)
		node.chunk = (uint32_t)(large - model->larges);
	else
		node.slab = (uint32_t)(slab - model->slabs);
	search_from(model, node);
}

static uint64_t
node_at(const struct model *model, struct node node)
{
	return node.slab == UINT32_MAX
		   ? model->larges[node.chunk].at
		   : slab_chunk_at(model, &model->slabs[node.slab], node.chunk);
}

/* Marks a block as indirect; returns its bytes. */
static uint64_t
set_indirect(struct model *model, struct node node)
{
	if (node.slab == UINT32_MAX) {
		model->larges[node.chunk].indirect = true;
		return site_bytes_of(
		    model, NULL, &model->larges[node.chunk], 0);
	}
	bit_set(model->slabs[node.slab].indirect, node.chunk);
	return site_bytes_of(model, &model->slabs[node.slab], NULL, node.chunk);
}

/* Marks all unseen blocks that a direct leak reaches as indirect. */
static void
take_root(struct model *model, struct node root)
{
	uint64_t held = 0;

	set_unseen(model, root, false);
	push_pointees(model, root);
	while (search.todo.n > 0) {
		struct node node = search.todo.node[--search.todo.n];

		if (!is_unseen(model, node))
			continue;
		set_unseen(model, node, false);
		held += set_indirect(model, node);
		push_pointees(model, node);
	}
	if (held == 0)
		return;
	ARRAY_ADD(search.roots, search.nroots, search.roots_capacity,
	    (struct root){node_at(model, root), held});
}

void
leaks_divide(struct model *model)
{
	assert(search.left.n == 0);
	leaks_each(model, prepare_leak);
	leaks_each(model, start_search);
	for (size_t i = 0; i < search.left.n; i++)
		set_unseen(model, search.left.node[i], true);
	for (size_t i = search.left.n; i-- > 0;)
		if (is_unseen(model, search.left.node[i]))
			take_root(model, search.left.node[i]);
	ARRAY_SORT(search.roots, search.nroots, order_first_words);
	free(search.todo.node);
	free(search.left.node);
	search.todo = search.left = (struct nodes){0};
}

bool
leaks_is_indirect(const struct model *model, const struct slab *slab,
    const struct large *large, unsigned i, uint64_t *held)
{
	struct root key = {0}, *root = NULL;

	*held = 0;
	if (large != NULL ? large->indirect : bit_get(slab->indirect, i))
		return true;
	key.at = large != NULL ? large->at : slab_chunk_at(model, slab, i);
	if (search.nroots != 0)
		root = bsearch(&key, search.roots, search.nroots, sizeof(key),
		    order_first_words);
	if (root != NULL)
		*held = root->held;
	return false;
}
