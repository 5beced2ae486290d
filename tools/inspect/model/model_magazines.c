/*
 * model_magazines.c - free objects that are allocated from their slabs
 *
 * These are the objects in the magazines of the CPUs and of the depots, and in
 * the quarantine of a debugged cache; model.c explains when this data is
 * consistent.  A magazine that is in none of them, and is not freed, belongs to
 * a thread at this moment.
 */
#include <assert.h>
#include <stdlib.h>

#include "tools/inspect/model/model_inner.h"

/* Above the bytes of any magazine. */
#define MAGAZINE_MAX (64 * KIB)

/* Above the size of any pool; an inconsistent count is larger. */
#define RESOURCES_MAX ((uint64_t)1 << 32)

bool
model_is_magazine(
    struct model *model, uint64_t at, unsigned *capacity, uint64_t *next)
{
	const char *mag = model_record(model, at, L_MAGAZINE_BYTES);
	uint64_t n, bytes;

	if (mag == NULL || at % 16 != 0)
		return false;
	n = model_get(model, mag, L_MAGAZINE_SIZE);
	*next = model_get(model, mag, L_MAGAZINE_NEXT);
	*capacity = (unsigned)n;
	/* With its rounds, a magazine has a power of two of bytes. */
	bytes = layout_value(model->layout, L_MAGAZINE_BYTES) + 8 * n;
	return n >= 2 && n < MAGAZINE_MAX / 8 && (bytes & (bytes - 1)) == 0 &&
	       model_get(model, mag, L_MAGAZINE_NROUNDS) <= n;
}

unsigned
model_rounds(struct model *model, uint64_t magazine, unsigned nrounds,
    model_round_func *f, void *arg)
{
	uint64_t at = magazine + layout_value(model->layout, L_MAGAZINE_ROUND);
	const uint64_t *round = model_array(model, at, nrounds);

	if (round == NULL)
		return 0;
	for (unsigned i = 0; i < nrounds; i++)
		f(model, arg, round[i]);
	return nrounds;
}

struct cache *
model_take_chunk(struct model *model, uint64_t at, struct block *block)
{
	struct cache *of;

	if (!model_find(model, at, block) || block->slab == NULL ||
	    block->between || block->start != at ||
	    !bit_get(block->slab->live, block->chunk))
		return NULL;
	of = &model->caches[block->slab->cache];
	bit_clear(block->slab->live, block->chunk);
	of->nlive--;
	return of;
}

/* A round is free, although its slab has it as allocated. */
static void
round_is_free(struct model *model, void *arg, uint64_t object)
{
	struct block block;
	struct cache *of = model_take_chunk(model, object, &block);

	(void)arg;
	if (of != NULL)
		of->ncached++;
}

void
model_add_resource(struct model *model, uint64_t resource)
{
	ARRAY_ADD(model->resources, model->nresources,
	    model->resources_capacity, resource);
}

/*
 * A resource of an import cache is not a buffer of that cache.  It may be the
 * address of a buffer of another cache, which the import cache then keeps in
 * use.
 */
static void
resource_is_idle(struct model *model, void *arg, uint64_t resource)
{
	struct cache *cache = arg;

	assert(cache->import != 0);
	cache->ncached++;
	model_add_resource(model, resource);
}

/* Returns the function for the rounds of a cache. */
static model_round_func *
round_func_of(const struct cache *c)
{
	return c->import != 0 ? resource_is_idle : round_is_free;
}

static void
note_accounted(struct model *model, uint64_t at)
{
	ARRAY_ADD(
	    model->accounted, model->naccounted, model->accounted_capacity, at);
}

static void
take_full_magazine(
    struct model *model, uint64_t magazine, model_round_func *f, void *arg)
{
	const char *mag = model_record(model, magazine, L_MAGAZINE_BYTES);

	note_accounted(model, magazine);
	if (mag != NULL)
		model_rounds(model, magazine,
		    (unsigned)model_get(model, mag, L_MAGAZINE_NROUNDS), f,
		    arg);
}

static void
note_inconsistent(struct model *model, uint64_t magazine)
{
	ARRAY_ADD(model->inconsistent, model->ninconsistent,
	    model->inconsistent_capacity, magazine);
}

void
model_take_header(struct model *model, uint64_t hot_at, uint64_t cold_at,
    uint64_t cpu, bool count, model_round_func *f, void *arg)
{
	uint64_t block = layout_value(model->layout, L_CPU_BLOCK);
	const char *hot =
	    model_record(model, hot_at + cpu * block, L_HOT_BYTES);
	const char *cold =
	    model_record(model, cold_at + cpu * block, L_COLD_BYTES);
	uint64_t loaded, previous, top, round, n, next;
	unsigned capacity;

	if (hot == NULL || cold == NULL)
		return;
	loaded = model_get(model, cold, L_COLD_LOADED);
	previous = model_get(model, cold, L_COLD_PREVIOUS);
	top = model_get(model, hot, L_HOT_TOP);
	round = loaded + layout_value(model->layout, L_MAGAZINE_ROUND);
	n = (top - round) / 8;
	/* A claimed header without magazines counts, too. */
	if (top == layout_value(model->layout, L_CPU_CLAIMED) && loaded == 0 &&
	    !count)
		note_inconsistent(model, 0);
	if (loaded != 0 && !model_is_magazine(model, loaded, &capacity, &next))
		loaded = 0;
	if (loaded != 0 && (top < round || n > capacity)) {
		note_inconsistent(model, loaded);
		if (previous != 0)
			note_inconsistent(model, previous);
		return;
	}
	if (!count)
		return;
	if (loaded != 0) {
		note_accounted(model, loaded);
		model_rounds(model, loaded, (unsigned)n, f, arg);
	}
	if (previous != 0)
		take_full_magazine(model, previous, f, arg);
}

/* Reads every CPU's header of a cache, and counts the loads of magazines. */
void
model_take_headers(struct model *model, struct cache *c, bool count)
{
	uint64_t block = layout_value(model->layout, L_CPU_BLOCK);
	uint64_t nused = model_cpus_used(model);
	uint64_t hot = model_get(model, c->record, L_CACHE_HOT);
	uint64_t cold = model_get(model, c->record, L_CACHE_COLD);

	assert(c->has_magazines && nused <= CPUS_MAX);
	for (uint64_t cpu = 0; cpu < nused; cpu++) {
		const char *k =
		    model_record(model, cold + cpu * block, L_COLD_BYTES);
		uint64_t ninconsistent = model->ninconsistent;

		model_take_header(
		    model, hot, cold, cpu, count, round_func_of(c), c);
		if (count && k != NULL && model->ninconsistent == ninconsistent)
			c->nallocs += model_get(model, k, L_COLD_NLOADS);
	}
}

void
model_take_list(
    struct model *model, uint64_t at, model_round_func *f, void *arg)
{
	struct cycle_detector cycles = {0};

	while (cycle_continues(&cycles, at)) {
		const char *mag = model_record(model, at, L_MAGAZINE_BYTES);

		if (mag == NULL)
			return;
		take_full_magazine(model, at, f, arg);
		at = model_get(model, mag, L_MAGAZINE_NEXT);
	}
}

static void
take_list(struct model *model, struct cache *c, uint64_t at)
{
	model_take_list(model, at, round_func_of(c), c);
}

/* The first shard is in the cache, the others are in an array elsewhere. */
static void
take_depot(struct model *model, struct cache *c)
{
	uint64_t at = model_get(model, c->record, L_CACHE_MORE_SHARDS);
	uint64_t n = model_get(model, c->record, L_CACHE_SHARDS);

	take_list(model, c, model_get(model, c->record, L_CACHE_DEPOT_FULL));
	take_list(model, c, model_get(model, c->record, L_CACHE_DEPOT_EMPTY));
	for (uint64_t i = 1; at != 0 && i < n && i < CPUS_MAX; i++) {
		const char *depot = model_record(model, at, L_DEPOT_BYTES);

		if (depot == NULL)
			return;
		take_list(model, c, model_get(model, depot, L_DEPOT_FULL));
		take_list(model, c, model_get(model, depot, L_DEPOT_EMPTY));
		c->ncontended += model_get(model, depot, L_DEPOT_NCONTENDED);
		at += layout_value(model->layout, L_DEPOT_BYTES);
	}
}

/* Objects in an array of the library are free, too: marks them. */
static void
take_array(struct model *model, struct cache *c, uint64_t at, uint64_t nslots)
{
	const uint64_t *slot;

	if (at == 0 || nslots > CHUNKS_MAX)
		return;
	slot = model_array(model, at, nslots);
	for (uint64_t i = 0; slot != NULL && i < nslots; i++)
		if (slot[i] != 0)
			round_is_free(model, c, slot[i]);
}

/* Reads the pool of an import cache; see umem/cache/import.c. */
static void
take_import(struct model *model, struct cache *c)
{
	const char *import = model_record(model, c->import, L_IMPORT_BYTES);
	uint64_t nused = model_get(model, c->record, L_CACHE_NUSED);
	uint64_t ncached = c->ncached, n = 0;
	const uint64_t *pool = NULL;

	assert(c->import != 0);
	if (import != NULL) {
		n = model_get(model, import, L_IMPORT_NPOOL);
		if (n > RESOURCES_MAX)
			n = 0;
		pool = model_array(
		    model, model_get(model, import, L_IMPORT_POOL), n);
	}
	for (uint64_t i = 0; pool != NULL && i < n; i++)
		resource_is_idle(model, c, pool[i]);
	c->ncached = ncached;
	c->nlive = nused > ncached ? nused - ncached : 0;
	c->ntotal = nused + n;
}

void
model_take_magazines(struct model *model)
{
	for (size_t i = 0; i < model->ncaches; i++) {
		struct cache *c = &model->caches[i];

		/* The quarantine of a debugged cache, and the reserve. */
		take_array(model, c,
		    model_get(model, c->record, L_CACHE_QUARANTINE),
		    model_get(model, c->record, L_CACHE_QUARANTINE_SLOTS));
		take_array(model, c,
		    model_get(model, c->record, L_CACHE_RESERVE), c->nready);
		if (c->has_magazines) {
			model_take_headers(model, c, true);
			take_depot(model, c);
		}
		if (c->import != 0)
			take_import(model, c);
	}
	model_take_waiting(model);
}

/* Reads the lists of memory that the library has freed to itself. */
void
model_take_freed(struct model *model)
{
	uint64_t at = layout_value(model->layout, L_FREED);
	uint64_t end = at + model->layout->known[L_FREED].bytes;

	for (; at < end; at += 8) {
		uint64_t block = model_word(model, at);
		struct cycle_detector cycles = {0};

		while (cycle_continues(&cycles, block)) {
			note_accounted(model, block);
			model_charge(model, sizeof(block));
			block = model_word(model, block);
		}
	}
	ARRAY_SORT(model->accounted, model->naccounted, order_first_words);
}

bool
model_is_in_flight(struct model *model, uint64_t at)
{
	uint64_t next;
	unsigned capacity;

	assert(model->naccounted < 2 ||
	       model->accounted[0] <= model->accounted[model->naccounted - 1]);
	return model_is_magazine(model, at, &capacity, &next) &&
	       (model->naccounted == 0 ||
		   bsearch(&at, model->accounted, model->naccounted, sizeof(at),
		       order_first_words) == NULL);
}
