/*
 * leaks.c - umem leaks: memory that the program cannot reach any more
 *
 * Marking: every word of the roots (roots.c) that is an address inside an
 * allocated chunk or large block, at its start or anywhere else, marks it.
 * Each marked chunk or block is searched for further addresses.  An allocated
 * chunk or block that is not marked in the end is leaked: no chain of pointers
 * leads to it from the program, although the pieces of a leaked ring or tree
 * may point to each other.  Of a sample, which has a span for itself, only the
 * bytes of its size class count.
 *
 * The search needs little memory: two bits for each chunk, marked and pending,
 * and a queue of the slabs that have pending chunks.  Because a slab in the
 * queue collects pending chunks until its turn, its memory is read once for
 * many of them, which matters if it is read from a copy of the process.
 *
 * A word may look like an address by chance, so a leak can be missed.  A block
 * is reported by mistake only if the program stores its address in another form
 * (as a difference, or with bits of the pointer in use), which no search can
 * find.
 *
 * A free object that stays constructed belongs to its cache.  Blocks to which
 * it points are not leaked, because its destructor or its next user will free
 * them.  This includes an object that waits for a grace period.  Other blocks
 * to which only free objects point are leaked.
 *
 * An idle resource of an import cache may be an address, and then keeps the
 * memory at this address alive.
 *
 * Memory that a thread held when it was stopped inside the library is not
 * leaked either:
 *	A chunk in transfer to or from a slab is in a magazine that only this
 *	thread has.  Therefore a magazine to which its registers or its stack
 *	point, and that no CPU and no depot has, counts as pointing to all its
 *	rounds, and to the next magazine in its chain.
 *	A chunk that is in no magazine yet is recorded on the thread's stack
 *	(struct slab_claim): a slab, a word of its bits, and a mask of them.
 *	The argument of a thread that is about to begin is in the library's
 *	memory, too.
 *
 * Source: findleaks of libumem's mdb module, by its description.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/base/progress.h"
#include "tools/inspect/model/roots.h"
#include "tools/inspect/sites/leaks.h"

/* Chains of magazines in flight are short; this limit ends a torn chain. */
#define CHAIN_MAX 100000

/* Blocks that are marked and not yet searched. */
static struct {
	uint32_t *larges; /* indices */
	size_t nlarges;
	uint32_t *slabs; /* indices, a ring */
	size_t first, nslabs;
	struct slab *current; /* is being searched */
	unsigned back;        /* the lowest word of its bits to search again */
	uint64_t nmarked, nobjects; /* live blocks */
} walk;

/* Notes that a chunk is to be searched. */
static inline void
push_chunk(struct model *model, struct slab *s, unsigned i)
{
	bit_set(s->pending, i);
	walk.nmarked++;
	if (s == walk.current) {
		if (i / 64 < walk.back)
			walk.back = i / 64;
		return;
	}
	if (s->is_queued)
		return;
	assert(walk.nslabs < model->nslabs);
	s->is_queued = true;
	walk.slabs[(walk.first + walk.nslabs++) % model->nslabs] =
	    (uint32_t)(s - model->slabs);
}

static inline void
mark_chunk(struct model *model, struct slab *s, uint64_t at)
{
	uint64_t offset = at - s->first;
	unsigned i = (unsigned)(offset / model->caches[s->cache].chunk);

	assert(s < model->slabs + model->nslabs && s->marked != NULL);
	if (at < s->first || i >= s->nchunks || !bit_get(s->live, i) ||
	    bit_get(s->marked, i))
		return;
	bit_set(s->marked, i);
	push_chunk(model, s, i);
}

static void
mark_large(struct model *model, uint32_t i, uint64_t at)
{
	assert(i < model->nlarges);
	if (model->larges[i].waits || model->larges[i].marked ||
	    !large_has(&model->larges[i], at))
		return;
	model->larges[i].marked = true;
	walk.larges[walk.nlarges++] = i;
	walk.nmarked++;
	assert(walk.nlarges <= model->nlarges);
}

static void
mark_elsewhere(struct model *model, uint64_t at)
{
	struct block block;

	if (model->nsourced != 0 && model_find(model, at, &block) &&
	    block.slab != NULL)
		mark_chunk(model, block.slab, at);
}

static inline void
mark_address(struct model *model, uint64_t at)
{
	uint64_t offset = at - model->base;

	if (offset < model->end - model->base) {
		uint32_t what = model->unit[offset >> model->unit_shift];

		if (what & 1) {
			mark_large(model, (what - 3) / 2, at);
			return;
		}
		if (what != 0) {
			mark_chunk(model, &model->slabs[(what - 2) / 2], at);
			return;
		}
	}
	mark_elsewhere(model, at);
}

static void
mark_words(struct model *model, const uint64_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		/* The heap has no address below this. */
		if (words[i] >= 65536)
			mark_address(model, words[i]);
}

static root_func mark_root;

static void
mark_memory(struct model *model, uint64_t at, uint64_t bytes)
{
	roots_words(model, mark_root, at, at + bytes, ROOT_MEMORY);
}

/* Searches the pending chunks of a slab, until it has none. */
static void
search_slab(struct model *model, struct slab *s)
{
	uint64_t bytes = (model->caches[s->cache].bufsize + 7) & ~7ull;
	unsigned n = words_of_bits(s->nchunks), w = 0;

	walk.current = s;
	while (w < n) {
		unsigned i;

		if (s->pending[w] == 0) {
			w++;
			continue;
		}
		i = w * 64 + (unsigned)__builtin_ctzll(s->pending[w]);
		assert(bit_get(s->marked, i));
		bit_clear(s->pending, i);
		walk.back = w;
		mark_memory(model, slab_chunk_at(model, s, i), bytes);
		w = walk.back;
	}
	walk.current = NULL;
}

static void
search_marked(struct model *model)
{
	while (walk.nlarges > 0 || walk.nslabs > 0) {
		struct slab *s;

		if (walk.nlarges > 0) {
			const struct large *large =
			    &model->larges[walk.larges[--walk.nlarges]];

			mark_memory(model, large->at, large->bytes);
			continue;
		}
		s = &model->slabs[walk.slabs[walk.first]];
		walk.first = (walk.first + 1) % model->nslabs;
		walk.nslabs--;
		s->is_queued = false;
		progress_show(
		    "searching for pointers", walk.nmarked, walk.nobjects);
		search_slab(model, s);
	}
}

static void
mark_round(struct model *model, void *arg, uint64_t object)
{
	(void)arg;
	mark_address(model, object);
}

/* Marks the function and argument of a thread that has not begun yet. */
static void
mark_beginning(struct model *model, uint64_t at)
{
	const uint64_t *words = target_array(model->target, at, 2);
	const struct mapping *m =
	    words ? target_mapping(model->target, words[0]) : NULL;

	if (m != NULL && m->execute)
		mark_address(model, words[1]);
}

/* Marks memory of the library that a thread inside the library holds. */
static void
mark_in_flight(struct model *model, uint64_t at)
{
	uint64_t next;
	unsigned capacity;

	if (at % 16 != 0 || !roots_is_meta(model, at))
		return;
	mark_beginning(model, at);
	for (unsigned i = 0;
	     i < CHAIN_MAX && at != 0 && model_is_in_flight(model, at) &&
	     model_is_magazine(model, at, &capacity, &next);
	     i++, at = next)
		model_rounds(model, at, capacity, mark_round, NULL);
}

/* Returns the slab with its descriptor at at, or NULL. */
static struct slab *
slab_described(struct model *model, uint64_t at)
{
	const char *r;
	struct block block;

	if (at % 16 != 0 || !roots_is_meta(model, at))
		return NULL;
	r = target_at(
	    model->target, at, layout_value(model->layout, L_SLAB_BYTES));
	if (r == NULL ||
	    !model_find(
		model, layout_get(model->layout, r, L_SLAB_SPAN), &block) ||
	    block.slab == NULL || block.slab->at != at)
		return NULL;
	return block.slab;
}

/* Marks chunks that a thread has claimed, if words is a struct slab_claim. */
static void
mark_claim(struct model *model, const uint64_t *words)
{
	const struct layout *l = model->layout;
	const char *claim = (const char *)words;
	uint64_t mask = layout_get(l, claim, L_CLAIM_MASK);
	uint64_t first = layout_get(l, claim, L_CLAIM_WORD) * 64;
	struct slab *s =
	    slab_described(model, layout_get(l, claim, L_CLAIM_SLAB));

	if (s == NULL || first >= s->nchunks)
		return;
	for (; mask != 0; mask &= mask - 1) {
		unsigned i = (unsigned)first + (unsigned)__builtin_ctzll(mask);

		if (i < s->nchunks)
			mark_chunk(model, s, slab_chunk_at(model, s, i));
	}
}

static void
mark_root(struct model *model, const uint64_t *words, size_t n, uint64_t at,
    enum root_kind kind)
{
	uint64_t claim_words =
	    layout_value(model->layout, L_CLAIM_BYTES) / sizeof(*words);

	(void)at;
	mark_words(model, words, n);
	for (size_t i = 0; kind == ROOT_INSIDE && i < n; i++) {
		mark_in_flight(model, words[i]);
		if (n - i >= claim_words)
			mark_claim(model, words + i);
	}
}

static void
prepare(struct model *model)
{
	/* leaks_excuse() searches after leaks_mark(). */
	free(walk.larges);
	free(walk.slabs);
	memset(&walk, 0, sizeof(walk));
	for (size_t i = 0; i < model->nslabs; i++) {
		struct slab *s = &model->slabs[i];

		assert(s->marked == NULL);
		s->marked = xalloc(16ull * words_of_bits(s->nchunks));
		s->pending = s->marked + words_of_bits(s->nchunks);
	}
	walk.larges = xalloc((model->nlarges + 1) * sizeof(*walk.larges));
	walk.slabs = xalloc((model->nslabs + 1) * sizeof(*walk.slabs));
	for (size_t i = 0; i < model->ncaches; i++)
		if (model->caches[i].import == 0)
			walk.nobjects += model->caches[i].nlive;
	for (size_t i = 0; i < model->nlarges; i++)
		walk.nobjects += !model->larges[i].waits;
}

/* Marks from objects that wait for a grace period, if a destructor will run. */
static void
mark_waiting(struct model *model)
{
	for (size_t i = 0; i < model->nwaiting; i++) {
		const struct cache *c;
		struct block block;

		if (!model_find(model, model->waiting[i].at, &block))
			continue;
		c = block.slab != NULL ? &model->caches[block.slab->cache]
				       : block.large->cache;
		if (c == NULL)
			continue;
		if (layout_get(model->layout, c->record, L_CACHE_DESTRUCT) != 0)
			mark_memory(model, block.start, c->bufsize & ~7ull);
	}
}

/* Marks from free objects that stay constructed. */
static void
mark_constructed(struct model *model)
{
	mark_waiting(model);
	for (size_t i = 0; i < model->nslabs; i++) {
		const struct slab *s = &model->slabs[i];
		const struct cache *c = &model->caches[s->cache];

		for (unsigned j = 0; s->constructed != NULL && j < s->nchunks;
		     j++)
			if (bit_get(s->constructed, j) && !bit_get(s->live, j))
				mark_memory(model, slab_chunk_at(model, s, j),
				    c->bufsize & ~7ull);
	}
}

void
leaks_mark(struct model *model)
{
	prepare(model);
	for (size_t i = 0; i < model->ninconsistent; i++) {
		uint64_t next;
		unsigned capacity;

		if (model_is_magazine(
			model, model->inconsistent[i], &capacity, &next))
			model_rounds(model, model->inconsistent[i], capacity,
			    mark_round, NULL);
	}
	roots_each(model, mark_root);
	mark_words(model, model->resources, model->nresources);
	search_marked(model);
	mark_constructed(model);
	search_marked(model);
	progress_end();
	assert(walk.nlarges == 0 && walk.nslabs == 0);
}

void
leaks_excuse(
    struct model *model, struct slab *slab, struct large *large, unsigned i)
{
	mark_address(
	    model, large != NULL ? large->at : slab_chunk_at(model, slab, i));
	search_marked(model);
}

/* Calls f for the leaked chunks of a slab. */
static void
each_of_slab(struct model *model, struct slab *s, leaks_func *f)
{
	assert(s->marked != NULL);
	for (unsigned w = 0; w < words_of_bits(s->nchunks); w++) {
		assert((s->marked[w] & ~s->live[w]) == 0);
		for (uint64_t bits = s->live[w] & ~s->marked[w]; bits != 0;
		     bits &= bits - 1)
			f(model, s, NULL,
			    w * 64 + (unsigned)__builtin_ctzll(bits));
	}
}

void
leaks_each(struct model *model, leaks_func *f)
{
	for (size_t i = 0; i < model->nlarges; i++)
		if (!model->larges[i].marked && !model->larges[i].waits)
			f(model, NULL, &model->larges[i], 0);
	for (size_t i = 0; i < model->nslabs; i++) {
		struct slab *s = &model->slabs[i];
		const struct cache *c = &model->caches[s->cache];

		/* A program's arena may contain numbers, not addresses. */
		if (c->source == 0 ||
		    target_mapping(model->target, s->span) != NULL)
			each_of_slab(model, s, f);
	}
}
