/*
 * model_magazines.c - objects that are free, though their slabs say otherwise
 *
 * Those in the magazines of the CPUs and of the depots, and what a debugged
 * cache holds back; see model.c for what of it is right when.  Magazines that
 * are in none of these, and not freed, are some thread's at this moment.
 */
#include <stdlib.h>

#include "tools/model_inner.h"

#define CPU_CLAIMED ((uint64_t)1 << 63)

/* More than a pool has; a torn count is larger. */
#define RESOURCES_MOST ((uint64_t)1 << 32)

bool
model_is_magazine(
    struct model *model, uint64_t at, unsigned *capacity, uint64_t *next)
{
	const char *mag = model_record(model, at, L_MAGAZINE_BYTES);
	uint64_t n;

	if (mag == NULL || at % 16 != 0)
		return false;
	n = model_get(model, mag, L_MAGAZINE_CAPACITY);
	*next = model_get(model, mag, L_MAGAZINE_NEXT);
	*capacity = (unsigned)n;
	/* Capacities are two less than a power of two. */
	return n >= 2 && n <= 4096 && ((n + 2) & (n + 1)) == 0 &&
	       model_get(model, mag, L_MAGAZINE_NROUNDS) <= n;
}

unsigned
model_rounds(struct model *model, uint64_t magazine, unsigned nrounds,
    void (*f)(struct model *, struct cache *, uint64_t), struct cache *cache)
{
	uint64_t at = magazine + layout_value(model->layout, L_MAGAZINE_ROUND);
	const uint64_t *round = target_at(model->target, at, 8ull * nrounds);

	if (round == NULL)
		return 0;
	for (unsigned i = 0; i < nrounds; i++)
		f(model, cache, round[i]);
	return nrounds;
}

/* A round is free, whatever its slab says. */
static void
round_is_free(struct model *model, struct cache *cache, uint64_t object)
{
	struct place place;
	struct cache *of;

	(void)cache;
	if (!model_find(model, object, &place) || place.slab == NULL ||
	    place.between || place.start != object ||
	    !bit_get(place.slab->live, place.chunk))
		return;
	of = &model->caches[place.slab->cache];
	bit_clear(place.slab->live, place.chunk);
	of->nlive--;
	of->ncached++;
}

/*
 * A resource of an import cache is no buffer of that cache.  It may be the
 * address of one of another, which the import cache then keeps in use.
 */
static void
resource_is_idle(struct model *model, struct cache *cache, uint64_t resource)
{
	cache->ncached++;
	ARRAY_ROOM(model->resources, model->nresources, model->resources_room);
	model->resources[model->nresources++] = resource;
}

static void
take_rounds(
    struct model *model, struct cache *c, uint64_t magazine, unsigned nrounds)
{
	model_rounds(model, magazine, nrounds,
	    c->import != 0 ? resource_is_idle : round_is_free, c);
}

static void
settle(struct model *model, uint64_t at)
{
	ARRAY_ROOM(model->settled, model->nsettled, model->settled_room);
	model->settled[model->nsettled++] = at;
}

static void
take_full_magazine(struct model *model, struct cache *c, uint64_t magazine)
{
	const char *mag = model_record(model, magazine, L_MAGAZINE_BYTES);

	settle(model, magazine);
	if (mag != NULL)
		take_rounds(model, c, magazine,
		    (unsigned)model_get(model, mag, L_MAGAZINE_NROUNDS));
}

static void
note_unsure(struct model *model, uint64_t magazine)
{
	ARRAY_ROOM(model->unsure, model->nunsure, model->unsure_room);
	model->unsure[model->nunsure++] = magazine;
}

/* The magazines of one CPU. */
static void
take_header(struct model *model, struct cache *c, const char *hot,
    const char *cold, bool count)
{
	uint64_t loaded = model_get(model, cold, L_COLD_LOADED);
	uint64_t previous = model_get(model, cold, L_COLD_PREVIOUS);
	uint64_t top = model_get(model, hot, L_HOT_TOP);
	uint64_t round = loaded + layout_value(model->layout, L_MAGAZINE_ROUND);
	uint64_t n = (top - round) / 8, next;
	unsigned capacity;

	if (top == CPU_CLAIMED)
		model->nunsure += loaded == 0 && !count;
	if (loaded != 0 && !model_is_magazine(model, loaded, &capacity, &next))
		loaded = 0;
	if (loaded != 0 && (top < round || n > capacity)) {
		note_unsure(model, loaded);
		if (previous != 0)
			note_unsure(model, previous);
		return;
	}
	if (!count)
		return;
	if (loaded != 0) {
		settle(model, loaded);
		take_rounds(model, c, loaded, (unsigned)n);
	}
	if (previous != 0)
		take_full_magazine(model, c, previous);
	c->nallocs += model_get(model, cold, L_COLD_NLOADS);
}

/* Every CPU's header of a cache. */
void
model_take_headers(struct model *model, struct cache *c, bool count)
{
	uint64_t block = layout_value(model->layout, L_CPU_BLOCK);
	uint64_t nused = model_cpus_used(model);
	uint64_t hot = model_get(model, c->record, L_CACHE_HOT);
	uint64_t cold = model_get(model, c->record, L_CACHE_COLD);

	model->ncpus = nused;
	if (count)
		c->by_cpu = xalloc(nused * sizeof(*c->by_cpu));
	for (uint64_t cpu = 0; cpu < nused; cpu++) {
		const char *h =
		    model_record(model, hot + cpu * block, L_HOT_BYTES);
		const char *k =
		    model_record(model, cold + cpu * block, L_COLD_BYTES);

		uint64_t before = c->ncached;

		if (h != NULL && k != NULL)
			take_header(model, c, h, k, count);
		if (count)
			c->by_cpu[cpu] = c->ncached - before;
	}
}

/* A list of magazines that begins at at. */
static void
take_list(struct model *model, struct cache *c, uint64_t at)
{
	struct trail trail = {0};

	while (trail_goes_on(&trail, at)) {
		const char *mag = model_record(model, at, L_MAGAZINE_BYTES);

		if (mag == NULL)
			return;
		take_full_magazine(model, c, at);
		at = model_get(model, mag, L_MAGAZINE_NEXT);
	}
}

/* The first shard is in the cache, the others lie together elsewhere. */
static void
take_depot(struct model *model, struct cache *c)
{
	uint64_t bytes = layout_value(model->layout, L_DEPOT_BYTES);
	uint64_t at = model_get(model, c->record, L_CACHE_MORE_SHARDS);
	uint64_t n = model_get(model, c->record, L_CACHE_SHARDS);

	take_list(model, c, model_get(model, c->record, L_CACHE_DEPOT_FULL));
	take_list(model, c, model_get(model, c->record, L_CACHE_DEPOT_EMPTY));
	for (uint64_t i = 1; at != 0 && i < n && i < CPUS_MOST; i++) {
		const char *depot = model_record(model, at, L_DEPOT_BYTES);

		if (depot == NULL)
			return;
		take_list(model, c, model_get(model, depot, L_DEPOT_FULL));
		take_list(model, c, model_get(model, depot, L_DEPOT_EMPTY));
		c->nwaited += model_get(model, depot, L_DEPOT_NCONTENDED);
		at += bytes;
	}
}

/* Objects in an array of the library are free, too. */
static void
take_array(struct model *model, struct cache *c, uint64_t at, uint64_t nslots)
{
	const uint64_t *slot;

	if (at == 0 || nslots > CHUNKS_MOST)
		return;
	slot = target_at(model->target, at, 8 * nslots);
	for (uint64_t i = 0; slot != NULL && i < nslots; i++)
		if (slot[i] != 0)
			round_is_free(model, c, slot[i]);
}

/* The pool of an import cache; see umem/import.c. */
static void
take_import(struct model *model, struct cache *c)
{
	const char *import = model_record(model, c->import, L_IMPORT_BYTES);
	uint64_t nused = model_get(model, c->record, L_CACHE_NUSED);
	uint64_t ncached = c->ncached, n = 0;
	const uint64_t *pool = NULL;

	if (import != NULL) {
		n = model_get(model, import, L_IMPORT_NPOOL);
		if (n > RESOURCES_MOST)
			n = 0;
		pool = target_at(model->target,
		    model_get(model, import, L_IMPORT_POOL), 8 * n);
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

		/* What a debugged cache holds back, and the reserve. */
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
}

static int
by_address(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* What the library has freed of its own memory, list by list. */
void
model_take_freed(struct model *model)
{
	uint64_t at = layout_value(model->layout, L_FREED);
	uint64_t end = at + model->layout->known[L_FREED].bytes;

	for (; at < end; at += 8) {
		uint64_t block = model_word(model, at);
		struct trail trail = {0};

		while (trail_goes_on(&trail, block)) {
			settle(model, block);
			block = model_word(model, block);
		}
	}
	if (model->nsettled != 0)
		qsort(model->settled, model->nsettled, sizeof(uint64_t),
		    by_address);
}

bool
model_is_in_flight(struct model *model, uint64_t at)
{
	uint64_t next;
	unsigned capacity;

	return model_is_magazine(model, at, &capacity, &next) &&
	       (model->nsettled == 0 ||
		   bsearch(&at, model->settled, model->nsettled, sizeof(at),
		       by_address) == NULL);
}
