/*
 * usage_caches.c - figures of each cache, read while the process runs
 *
 * A header that a thread has claimed counts with its previous magazine only,
 * and a cache may be destroyed while it is read.  Therefore every number is
 * bounded before it is used, as in umem/stats/stats.c.
 */
#include <stdlib.h>

#include "tools/inspect/model/usage_inner.h"

/* Above any capacity of a magazine. */
#define ROUNDS_MAX 8192

/* Above the entries of any quarantine. */
#define QUARANTINE_MAX ((uint64_t)1 << 16)

/* Returns the parts of a CPU's header, or false if there are none. */
static bool
header_read(struct model *model, uint64_t hot_at, uint64_t cold_at,
    uint64_t cpu, const char **hot, const char **cold)
{
	uint64_t offset = cpu * layout_value(model->layout, L_CPU_BLOCK);

	*hot = model_record(model, hot_at + offset, L_HOT_BYTES);
	*cold = model_record(model, cold_at + offset, L_COLD_BYTES);
	return *hot != NULL && *cold != NULL;
}

/* Returns the rounds in the two magazines of a CPU's header. */
static uint64_t
header_rounds(struct model *model, const char *hot, const char *cold)
{
	uint64_t loaded = model_get(model, cold, L_COLD_LOADED);
	uint64_t top = model_get(model, hot, L_HOT_TOP);
	uint64_t previous = model_get(model, cold, L_COLD_NPREVIOUS), n = 0;

	if (loaded != 0)
		n = (top - loaded -
			layout_value(model->layout, L_MAGAZINE_ROUND)) /
		    8;
	return (n < ROUNDS_MAX ? n : 0) +
	       (previous < ROUNDS_MAX ? previous : 0);
}

/* Adds the blocks of a cache that one CPU has. */
static void
header_add(struct model *model, struct usage_cache *c, const char *record,
    uint64_t cpu)
{
	const char *hot, *cold;

	if (!header_read(model, model_get(model, record, L_CACHE_HOT),
		model_get(model, record, L_CACHE_COLD), cpu, &hot, &cold))
		return;
	c->ncpu += header_rounds(model, hot, cold);
	c->nloads += (uint32_t)model_get(model, cold, L_COLD_NLOADS);
	c->nrefills += (uint32_t)model_get(model, cold, L_COLD_NREFILLS);
	c->nreceived += (uint32_t)model_get(model, cold, L_COLD_NRECEIVED);
}

/*
 * Returns the rounds in n full magazines of a shard.  There may be too many to
 * copy each one.
 */
static uint64_t
shard_rounds(struct model *model, uint64_t at, uint64_t n)
{
	struct cycle_detector cycles = {0};
	uint64_t rounds = 0;

	for (; n-- > 0 && cycle_continues(&cycles, at);
	     at = model_member(model, at, L_MAGAZINE_NEXT)) {
		uint64_t nrounds = model_member(model, at, L_MAGAZINE_NROUNDS);

		rounds += nrounds < ROUNDS_MAX ? nrounds : 0;
	}
	return rounds;
}

static void
depots_add(struct model *model, struct usage_cache *c, const char *record)
{
	uint64_t at = model_get(model, record, L_CACHE_MORE_SHARDS);
	uint64_t n = model_get(model, record, L_CACHE_SHARDS);

	c->ndepot +=
	    shard_rounds(model, model_get(model, record, L_CACHE_DEPOT_FULL),
		model_get(model, record, L_CACHE_DEPOT_NFULL));
	for (uint64_t i = 1; at != 0 && i < n && i < CPUS_MAX; i++) {
		const char *shard = model_record(model, at, L_DEPOT_BYTES);

		if (shard == NULL)
			return;
		c->ndepot +=
		    shard_rounds(model, model_get(model, shard, L_DEPOT_FULL),
			model_get(model, shard, L_DEPOT_NFULL));
		c->ncontended +=
		    (uint32_t)model_get(model, shard, L_DEPOT_NCONTENDED);
		at += layout_value(model->layout, L_DEPOT_BYTES);
	}
}

/* Adds the entries of the quarantine of a debugged cache. */
static void
quarantine_add(struct model *model, struct usage_cache *c, const char *record)
{
	uint64_t at = model_get(model, record, L_CACHE_QUARANTINE);
	uint64_t n = model_get(model, record, L_CACHE_QUARANTINE_SLOTS);
	const uint64_t *slot =
	    n > QUARANTINE_MAX ? NULL : model_array(model, at, n);

	for (uint64_t i = 0; slot != NULL && i < n; i++)
		c->ndepot += slot[i] != 0;
}

/* Sets the bytes of a cache's slabs, and adds those that are in the heap. */
static void
slabs_add(struct reading *r, struct usage_cache *c, const struct cache *of)
{
	uint64_t each = of->slab_bytes, memory = each;
	uint64_t colour = model_get(r->model, of->record, L_CACHE_COLOUR_MAX);
	uint64_t page = r->model->target->page_bytes;
	bool has_guards =
	    model_get(r->model, of->record, L_CACHE_HAS_GUARDS) != 0;

	if (of->import != 0)
		return;
	c->memory = c->nslabs * each;
	if (of->source != 0)
		return;
	if (model_get(r->model, of->record, L_CACHE_IS_UNBACKED) != 0)
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
cached_add(struct reading *r, struct usage_cache *c, const struct cache *of)
{
	struct model *model = r->model;
	uint64_t nused = c->nlive;

	c->ndepot = of->nready;
	if (of->has_magazines) {
		for (uint64_t cpu = 0; cpu < r->ncpus; cpu++)
			header_add(model, c, of->record, cpu);
		depots_add(model, c, of->record);
	}
	if (of->listed)
		quarantine_add(model, c, of->record);
	if (c->ncpu > nused)
		c->ncpu = nused;
	if (c->ndepot > nused - c->ncpu)
		c->ndepot = nused - c->ncpu;
	c->nlive = nused - c->ncpu - c->ndepot;
}

static void
cache_add(struct reading *r, const struct cache *of)
{
	struct model *model = r->model;
	struct usage *u = r->usage;
	struct usage_cache *c;

	ARRAY_GROW(u->caches, u->ncaches, u->caches_capacity);
	c = &u->caches[u->ncaches++];
	*c = (struct usage_cache){.at = of->at,
	    .is_class = of->class != 0,
	    .is_ended = !of->listed,
	    .chunk = of->chunk,
	    .bufsize = of->bufsize,
	    .nslabs = model_get(model, of->record, L_CACHE_NSLABS),
	    .nlive = model_get(model, of->record, L_CACHE_NUSED),
	    .nfailed = of->nfailed,
	    .ncontended =
		(uint32_t)(model_get(model, of->record, L_CACHE_NCONTENDED) +
			   model_get(
			       model, of->record, L_CACHE_SLAB_NCONTENDED))};
	snprintf(c->name, sizeof(c->name), "%s", of->name);
	c->nchunks = c->nslabs * of->nchunks;
	/* An import cache has no slabs, so its resources count as none. */
	if (c->nlive > c->nchunks)
		c->nlive = c->nchunks;
	cached_add(r, c, of);
	slabs_add(r, c, of);
}

/* Moves the objects of a group from the program to those that wait. */
static void
group_add(struct reading *r, const struct waiting_group *group)
{
	uint64_t n = group->nsubmitted;
	const char *hot, *cold;

	for (uint64_t cpu = 0; cpu < r->ncpus; cpu++)
		if (header_read(
			r->model, group->hot, group->cold, cpu, &hot, &cold))
			n += header_rounds(r->model, hot, cold);
	for (size_t i = 0; i < r->usage->ncaches; i++) {
		struct usage_cache *c = &r->usage->caches[i];

		if (c->at != group->cache || c->is_ended)
			continue;
		n = n < c->nlive ? n : c->nlive;
		c->nlive -= n;
		c->nwaiting += n;
	}
}

void
usage_caches_read(struct reading *r)
{
	struct model *model = r->model;
	struct ranges cpus = {0};

	r->ncpus = model_cpus_used(model);
	if (model->unit == NULL) {
		model_take_caches(model);
		model_take_domains(model);
		library_add_cpus(model, &cpus);
		for (size_t i = 0; i < cpus.n; i++)
			target_copy(model->target, cpus.range[i].start,
			    cpus.range[i].end - cpus.range[i].start,
			    /* sparse */ false);
		free(cpus.range);
	}
	for (size_t i = 0; i < model->ncaches; i++)
		cache_add(r, &model->caches[i]);
	for (size_t i = 0; i < model->ngroups; i++)
		if (model->groups[i].cache != 0)
			group_add(r, &model->groups[i]);
}
