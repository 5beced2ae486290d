/*
 * usage_caches.c - figures of each cache, read while the process runs
 *
 * A header that a thread has claimed counts with its previous magazine only,
 * and a cache may be destroyed while it is read.  Therefore every number is
 * bounded before it is used, as in umem/stats/stats.c.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/model/usage_inner.h"

/* Above any capacity of a magazine. */
#define ROUNDS_MAX 8192

/* Above the entries of any quarantine. */
#define QUARANTINE_MAX ((uint64_t)1 << 16)

/* Above the number of caches, domains and layers of any program. */
#define LISTED_MAX 1000000

static bool
usage_peek(const struct reading *r, uint64_t at, void *to, size_t bytes)
{
	return at != 0 && target_peek(r->model->target, at, to, bytes);
}

/* Returns a copy of a record, which the caller frees, or NULL. */
static char *
record_read(const struct reading *r, uint64_t at, enum layout_entry bytes)
{
	char *record = xalloc(value_of(r, bytes) + 8);

	if (usage_peek(r, at, record, value_of(r, bytes)))
		return record;
	free(record);
	return NULL;
}

/* Reads the block of one CPU in one region; at: 0 if it has no memory. */
static void
block_read(struct reading *r, uint64_t at)
{
	uint64_t bytes = value_of(r, L_CPU_BLOCK);
	char *block = xalloc(bytes + 8);
	size_t n = r->nblocks;

	if (!usage_peek(r, at, block, bytes)) {
		free(block);
		block = NULL;
	}
	ARRAY_GROW(r->blocks, n, r->blocks_capacity);
	ARRAY_GROW(r->block_at, n, r->at_capacity);
	r->blocks[n] = block;
	r->nblocks++;
}

/* Reads the blocks of all CPUs: r->ncpus in a row for each region. */
static void
blocks_read(struct reading *r)
{
	uint64_t at = variable_of(r, L_REGIONS);
	uint64_t ncpus = r->ncpus, block = value_of(r, L_CPU_BLOCK);
	struct cycle_detector cycles = {0};
	char *committed = xalloc(ncpus + 1);

	while (cycle_continues(&cycles, at)) {
		char *region = record_read(r, at, L_REGION_BYTES);
		uint64_t first;

		if (region == NULL)
			break;
		first = usage_get(r, region, L_REGION_BLOCKS);
		if (!usage_peek(r, usage_get(r, region, L_REGION_COMMITTED),
			committed, ncpus))
			memset(committed, 0, ncpus);
		for (uint64_t cpu = 0; cpu < ncpus; cpu++) {
			bool has = committed[cpu] == 1;

			block_read(r, has ? first + cpu * block : 0);
			r->block_at[r->nblocks - 1] = first + cpu * block;
			if (has)
				usage_range_add(r, first + cpu * block, block);
		}
		at = usage_get(r, region, L_REGION_NEXT);
		free(region);
	}
	free(committed);
}

/* Returns our copy of the part of a CPU's header, or NULL. */
static const char *
header_part(const struct reading *r, uint64_t part_at, uint64_t cpu,
    enum layout_entry bytes)
{
	uint64_t block = value_of(r, L_CPU_BLOCK);

	for (size_t i = 0; i < r->nblocks; i += r->ncpus) {
		uint64_t offset = part_at - r->block_at[i];

		if (offset < block && value_of(r, bytes) <= block - offset)
			return r->blocks[i + cpu] != NULL
				   ? r->blocks[i + cpu] + offset
				   : NULL;
	}
	return NULL;
}

/* Returns the rounds in the two magazines of a CPU's header. */
static uint64_t
header_rounds(const struct reading *r, const char *hot, const char *cold)
{
	uint64_t loaded = usage_get(r, cold, L_COLD_LOADED);
	uint64_t top = usage_get(r, hot, L_HOT_TOP);
	uint64_t previous = usage_get(r, cold, L_COLD_NPREVIOUS), n = 0;

	if (loaded != 0)
		n = (top - loaded - value_of(r, L_MAGAZINE_ROUND)) / 8;
	return (n < ROUNDS_MAX ? n : 0) +
	       (previous < ROUNDS_MAX ? previous : 0);
}

/* Adds the blocks of a cache that one CPU has. */
static void
header_add(
    struct reading *r, struct usage_cache *c, const char *record, uint64_t cpu)
{
	const char *hot =
	    header_part(r, usage_get(r, record, L_CACHE_HOT), cpu, L_HOT_BYTES);
	const char *cold = header_part(
	    r, usage_get(r, record, L_CACHE_COLD), cpu, L_COLD_BYTES);

	if (hot == NULL || cold == NULL)
		return;
	c->ncpu += header_rounds(r, hot, cold);
	c->nloads += (uint32_t)usage_get(r, cold, L_COLD_NLOADS);
	c->nrefills += (uint32_t)usage_get(r, cold, L_COLD_NREFILLS);
	c->nreceived += (uint32_t)usage_get(r, cold, L_COLD_NRECEIVED);
}

/* Returns the rounds in n full magazines of a shard. */
static uint64_t
shard_rounds(const struct reading *r, uint64_t at, uint64_t n)
{
	struct cycle_detector cycles = {0};
	uint64_t rounds = 0;

	while (n-- > 0 && cycle_continues(&cycles, at)) {
		char *mag = record_read(r, at, L_MAGAZINE_BYTES);

		if (mag == NULL)
			break;
		if (usage_get(r, mag, L_MAGAZINE_NROUNDS) < ROUNDS_MAX)
			rounds += usage_get(r, mag, L_MAGAZINE_NROUNDS);
		at = usage_get(r, mag, L_MAGAZINE_NEXT);
		free(mag);
	}
	return rounds;
}

static void
depots_add(struct reading *r, struct usage_cache *c, const char *record)
{
	uint64_t at = usage_get(r, record, L_CACHE_MORE_SHARDS);
	uint64_t n = usage_get(r, record, L_CACHE_SHARDS);

	c->ndepot += shard_rounds(r, usage_get(r, record, L_CACHE_DEPOT_FULL),
	    usage_get(r, record, L_CACHE_DEPOT_NFULL));
	for (uint64_t i = 1; at != 0 && i < n && i < CPUS_MAX; i++) {
		char *shard = record_read(r, at, L_DEPOT_BYTES);

		if (shard == NULL)
			return;
		c->ndepot += shard_rounds(r, usage_get(r, shard, L_DEPOT_FULL),
		    usage_get(r, shard, L_DEPOT_NFULL));
		c->ncontended +=
		    (uint32_t)usage_get(r, shard, L_DEPOT_NCONTENDED);
		at += value_of(r, L_DEPOT_BYTES);
		free(shard);
	}
}

/* Adds the entries of the quarantine of a debugged cache. */
static void
quarantine_add(struct reading *r, struct usage_cache *c, const char *record)
{
	uint64_t at = usage_get(r, record, L_CACHE_QUARANTINE);
	uint64_t n = usage_get(r, record, L_CACHE_QUARANTINE_SLOTS);
	uint64_t *slot;

	if (at == 0 || n == 0 || n > QUARANTINE_MAX)
		return;
	slot = xalloc(8 * n);
	if (usage_peek(r, at, slot, 8 * n))
		for (uint64_t i = 0; i < n; i++)
			c->ndepot += slot[i] != 0;
	free(slot);
}

/* Sets the bytes of a cache's slabs, and adds those that are in the heap. */
static void
slabs_add(struct reading *r, struct usage_cache *c, const char *record)
{
	uint64_t each = usage_get(r, record, L_CACHE_SLAB_BYTES), memory = each;
	uint64_t colour = usage_get(r, record, L_CACHE_COLOUR_MAX);
	uint64_t page = r->model->target->page_bytes;
	bool has_guards = usage_get(r, record, L_CACHE_HAS_GUARDS) != 0;

	if (usage_get(r, record, L_CACHE_IMPORT) != 0)
		return;
	c->memory = c->nslabs * each;
	if (usage_get(r, record, L_CACHE_SOURCE) != 0)
		return;
	if (usage_get(r, record, L_CACHE_IS_UNBACKED) != 0)
		memory = 0;
	else if (has_guards)
		memory = usage_less(each, page + colour / page * page);
	c->memory = c->nslabs * memory;
	c->in_heap = c->chunk < memory ? c->chunk : memory;
	r->slab_bytes += c->memory;
	if (has_guards)
		r->opened += c->memory;
	else
		r->absent += c->nslabs * (each - memory);
}

/* Counts the free chunks of a cache that are not in its slabs. */
static void
cached_add(struct reading *r, struct usage_cache *c, const char *record)
{
	uint64_t nused = c->nlive;

	c->ndepot = usage_get(r, record, L_CACHE_RESERVE_READY);
	if (!c->is_ended && usage_get(r, record, L_CACHE_HAS_MAGAZINES) != 0) {
		for (uint64_t cpu = 0; cpu < r->ncpus; cpu++)
			header_add(r, c, record, cpu);
		depots_add(r, c, record);
	} else if (!c->is_ended) {
		quarantine_add(r, c, record);
	}
	if (c->ncpu > nused)
		c->ncpu = nused;
	if (c->ndepot > nused - c->ncpu)
		c->ndepot = nused - c->ncpu;
	c->nlive = nused - c->ncpu - c->ndepot;
}

/* Reads a cache from its record. */
static void
cache_add(struct reading *r, uint64_t at, const char *record, bool is_ended)
{
	struct usage *u = r->usage;
	struct usage_cache *c;

	ARRAY_GROW(u->caches, u->ncaches, u->caches_capacity);
	c = &u->caches[u->ncaches++];
	*c = (struct usage_cache){.at = at,
	    .is_class = usage_get(r, record, L_CACHE_CLASS) != 0,
	    .is_ended = is_ended,
	    .chunk = usage_get(r, record, L_CACHE_CHUNK),
	    .bufsize = usage_get(r, record, L_CACHE_BUFSIZE),
	    .nslabs = usage_get(r, record, L_CACHE_NSLABS),
	    .nlive = usage_get(r, record, L_CACHE_NUSED),
	    .nfailed = usage_get(r, record, L_CACHE_NFAILED),
	    .ncontended =
		(uint32_t)(usage_get(r, record, L_CACHE_NCONTENDED) +
			   usage_get(r, record, L_CACHE_SLAB_NCONTENDED))};
	snprintf(c->name, sizeof(c->name), "%s",
	    plain_text(record + value_of(r, L_CACHE_NAME), 31));
	c->nchunks = c->nslabs * usage_get(r, record, L_CACHE_NCHUNKS);
	/* An import cache has no slabs, so its resources count as none. */
	if (c->nlive > c->nchunks)
		c->nlive = c->nchunks;
	cached_add(r, c, record);
	slabs_add(r, c, record);
}

static void
cache_list_read(struct reading *r, uint64_t head, bool is_ended)
{
	struct cycle_detector cycles = {0};
	uint64_t link = member_at(r, head, L_LIST_NEXT);

	while (link != head && cycle_continues(&cycles, link) &&
	       r->usage->ncaches < LISTED_MAX) {
		uint64_t at = link - value_of(r, L_CACHE_LINK);
		char *record = record_read(r, at, L_CACHE_BYTES);

		if (record == NULL)
			return;
		cache_add(r, at, record, is_ended);
		link = layout_number(record + value_of(r, L_CACHE_LINK) +
					 value_of(r, L_LIST_NEXT),
		    sizeof(link));
		free(record);
	}
}

/* Moves the objects of a layer from the program to those that wait. */
static void
layer_add(struct reading *r, const char *layer)
{
	uint64_t cache = usage_get(r, layer, L_DEFER_CACHE);
	uint64_t n = usage_get(r, layer, L_DEFER_NSUBMITTED);

	if (usage_get(r, layer, L_DEFER_KIND) != value_of(r, L_DEFER_OBJECT))
		return;
	for (uint64_t cpu = 0; cpu < r->ncpus; cpu++) {
		const char *hot = header_part(
		    r, usage_get(r, layer, L_DEFER_HOT), cpu, L_HOT_BYTES);
		const char *cold = header_part(
		    r, usage_get(r, layer, L_DEFER_COLD), cpu, L_COLD_BYTES);

		if (hot != NULL && cold != NULL)
			n += header_rounds(r, hot, cold);
	}
	for (size_t i = 0; i < r->usage->ncaches; i++) {
		struct usage_cache *c = &r->usage->caches[i];

		if (c->at != cache || c->is_ended)
			continue;
		n = n < c->nlive ? n : c->nlive;
		c->nlive -= n;
		c->nwaiting += n;
	}
}

/* Reads the layers of all domains; see umem/rcu/defer.h. */
static void
waiting_read(struct reading *r)
{
	struct cycle_detector domains = {0};
	uint64_t at = variable_of(r, L_DOMAINS), n = 0;

	for (; cycle_continues(&domains, at) && n < LISTED_MAX;
	     at = member_at(r, at, L_DOMAIN_NEXT)) {
		struct cycle_detector layers = {0};
		uint64_t next = member_at(r, at, L_DOMAIN_LAYERS);

		while (cycle_continues(&layers, next) && n++ < LISTED_MAX) {
			char *layer = record_read(r, next, L_DEFER_BYTES);

			if (layer == NULL)
				break;
			layer_add(r, layer);
			next = usage_get(r, layer, L_DEFER_NEXT);
			free(layer);
		}
	}
}

void
usage_caches_read(struct reading *r)
{
	uint64_t n = member_at(r, value_of(r, L_CPU_LAYER), L_LAYER_NUSED);

	r->ncpus = n < CPUS_MAX ? n : CPUS_MAX;
	blocks_read(r);
	cache_list_read(r, value_of(r, L_CACHE_LIST), /* is_ended */ false);
	cache_list_read(
	    r, value_of(r, L_CACHE_DESTROYED_LIST), /* is_ended */ true);
	waiting_read(r);
	for (size_t i = 0; i < r->nblocks; i++)
		free(r->blocks[i]);
	free(r->blocks);
	free(r->block_at);
}
