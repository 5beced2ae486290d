/*
 * account.c - where the memory of the target is
 *
 * The places are those of umem/malloc/stats.c, which explains them.  The counts
 * of the library are in one structure (vmem/account.h); the chunks of caches
 * are counted from the model.
 */
#include <unistd.h>

#include "tools/inspect/account.h"
#include "tools/inspect/model_inner.h"
#include "tools/inspect/print.h"

/* Sums over the caches, in bytes of heap memory. */
struct chunk_sum {
	uint64_t slabs, live, cached, waiting;
	uint64_t absent; /* addresses without memory */
	uint64_t opened; /* of the firewall, with memory */
};

/* Returns the bytes of each slab that are memory of the heap. */
static uint64_t
slab_memory(struct model *model, const struct cache *c)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t colour = model_get(model, c->record, L_CACHE_COLOUR_MAX);

	if (c->source != 0 || c->import != 0 ||
	    model_get(model, c->record, L_CACHE_IS_UNBACKED) != 0)
		return 0;
	if (model_get(model, c->record, L_CACHE_HAS_GUARDS) == 0)
		return c->slab_bytes;
	return c->slab_bytes - page - colour / page * page;
}

static void
add_cache(struct model *model, const struct cache *c, struct chunk_sum *sum)
{
	uint64_t memory = slab_memory(model, c);
	uint64_t chunk = c->chunk < memory ? c->chunk : memory;
	bool guarded = model_get(model, c->record, L_CACHE_HAS_GUARDS) != 0;

	sum->slabs += c->nslabs * memory;
	sum->live += c->nlive * chunk;
	sum->cached += c->ncached * chunk;
	sum->waiting += c->ndeferred * chunk;
	if (guarded)
		sum->opened += c->nslabs * memory;
	else if (c->source == 0 && c->import == 0)
		sum->absent += c->nslabs * (c->slab_bytes - memory);
}

static uint64_t
difference_or_zero(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* Returns the bytes that the heap's arena counts and the program lacks. */
static uint64_t
absent_bytes(
    struct model *model, const char *counts, const struct chunk_sum *sum)
{
	const struct layout *l = model->layout;
	uint64_t units = layout_get(l, counts, L_ACCOUNT_SAMPLE_UNITS);
	uint64_t used = layout_get(l, counts, L_ACCOUNT_SAMPLE_UNIT_SPANS) +
			layout_get(l, counts, L_ACCOUNT_SAMPLE_GUARDED) +
			layout_get(l, counts, L_ACCOUNT_SAMPLE_WARM);

	return (layout_variable(l, model->target, L_NFOREIGN)
		   << model->unit_shift) +
	       layout_get(l, counts, L_ACCOUNT_PURGED) +
	       layout_get(l, counts, L_ACCOUNT_DONATED) +
	       layout_get(l, counts, L_ACCOUNT_QUARANTINED) + sum->absent +
	       difference_or_zero(units, used) +
	       difference_or_zero(layout_get(l, counts, L_ACCOUNT_SAMPLE_SPANS),
		   layout_get(l, counts, L_ACCOUNT_SAMPLE_PAGES)) +
	       difference_or_zero(
		   layout_get(l, counts, L_ACCOUNT_FIREWALL), sum->opened);
}

/* Returns the bytes that the heap's arena has allocated. */
static uint64_t
heap_used(struct model *model)
{
	const struct layout *l = model->layout;
	struct arena *heap =
	    model_arena(model, layout_variable(l, model->target, L_HEAP_ARENA));

	return heap == NULL ? 0 : layout_get(l, heap->record, L_ARENA_INUSE);
}

struct memory_account
account_read(struct model *model)
{
	const struct layout *l = model->layout;
	const char *counts = layout_at(l, model->target, L_ACCOUNT);
	struct memory_account a = {0};
	struct chunk_sum sum = {0};

	if (counts == NULL)
		return a;
	for (size_t i = 0; i < model->ncaches; i++)
		add_cache(model, &model->caches[i], &sum);
	a.samples = layout_get(l, counts, L_ACCOUNT_SAMPLE_PAGES) +
		    layout_get(l, counts, L_ACCOUNT_SAMPLE_GUARDED);
	a.large = layout_get(l, counts, L_ACCOUNT_LARGE) -
		  layout_get(l, counts, L_ACCOUNT_SAMPLE_SPANS) + a.samples;
	a.arenas = layout_get(l, counts, L_ACCOUNT_PROGRAM);
	a.live = sum.live + a.large + a.arenas;
	a.waiting = sum.waiting;
	a.free = difference_or_zero(
	    sum.slabs, layout_get(l, counts, L_ACCOUNT_PURGED) + sum.live +
			   sum.cached + sum.waiting);
	a.cached = sum.cached + layout_get(l, counts, L_ACCOUNT_SAMPLE_WARM);
	a.dirty = layout_variable(l, model->target, L_NDIRTY)
		  << model->unit_shift;
	a.own = layout_variable(l, model->target, L_MAPPED_BYTES) +
		layout_get(l, counts, L_ACCOUNT_DONATED) +
		layout_get(l, counts, L_ACCOUNT_TABLES);
	a.heap = difference_or_zero(
	    heap_used(model) + a.dirty, absent_bytes(model, counts, &sum));
	a.mapped = a.heap + a.own;
	a.limited = difference_or_zero(heap_used(model) + a.dirty,
	    layout_variable(l, model->target, L_NFOREIGN) << model->unit_shift);
	return a;
}

void
account_print(const struct memory_account *a)
{
	const struct {
		uint64_t bytes;
		const char *text;
	} lines[] = {{a->live, "in use"},
	    {a->cached, "cached: free objects in magazines and reserves"},
	    {a->waiting, "freed, waiting for a grace period"},
	    {a->free, "free in slabs"},
	    {a->dirty, "free pages, not yet returned to the kernel"},
	    {a->own, "the library's own"}};

	printf("Accounting:     %s\n", size_text(a->mapped));
	for (size_t i = 0; i < array_size(lines); i++)
		printf("%15s %s\n", size_text(lines[i].bytes), lines[i].text);
	printf("In use:         %s in large blocks and samples, ",
	    size_text(a->large));
	printf("%s in samples, ", size_text(a->samples));
	printf("%s in arenas of the program\n", size_text(a->arenas));
}

void
account_json(const struct memory_account *a)
{
	json_open("memory", '{');
	json_number("mapped_bytes", a->mapped);
	json_number("heap_bytes", a->heap);
	json_number("live_bytes", a->live);
	json_number("cached_bytes", a->cached);
	json_number("waiting_bytes", a->waiting);
	json_number("free_bytes", a->free);
	json_number("dirty_bytes", a->dirty);
	json_number("own_bytes", a->own);
	json_number("large_bytes", a->large);
	json_number("sampled_bytes", a->samples);
	json_number("arena_bytes", a->arenas);
	json_close();
}
