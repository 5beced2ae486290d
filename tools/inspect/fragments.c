/*
 * fragments.c - slabs that are hardly used, for umem stat -f
 *
 * A slab returns to the heap when its last buffer is freed.  If the buffers of
 * a cache were compacted, they would need fewer slabs; "if packed" is the
 * memory of the other slabs.  Slabs that are at most a quarter full are sparse:
 * their few buffers pin them.  With audit, the callers that allocated these
 * buffers follow.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/audit.h"
#include "tools/inspect/print.h"
#include "tools/inspect/stat.h"

/* The memory that one caller pins. */
struct pin {
	const char *caller;
	uint64_t nbuffers;
	uint64_t nslabs; /* sparse slabs with a buffer of the caller */
	uint64_t bytes;
	size_t last; /* slab counted last */
};

static struct pin *pins;
static size_t npins, pins_capacity;

static struct pin *
pin_of_caller(const char *caller)
{
	for (size_t i = 0; i < npins; i++)
		if (strcmp(pins[i].caller, caller) == 0)
			return &pins[i];
	ARRAY_GROW(pins, npins, pins_capacity);
	pins[npins] = (struct pin){.caller = caller, .last = SIZE_MAX};
	return &pins[npins++];
}

static bool
is_sparse(const struct slab *s, unsigned n)
{
	assert(n <= s->nchunks);
	return s->nchunks > 1 && n != 0 && n <= s->nchunks / 4;
}

static void
pin_slab(struct model *model, size_t i)
{
	const struct slab *s = &model->slabs[i];
	struct audit audit;

	for (unsigned j = 0; j < s->nchunks; j++) {
		struct pin *pin;

		if (!bit_get(s->live, j) ||
		    !audit_of_chunk(model, s, j, &audit) || audit.depth == 0)
			continue;
		pin = pin_of_caller(audit_caller(model, &audit));
		pin->nbuffers++;
		if (pin->last == i)
			continue;
		pin->last = i;
		pin->nslabs++;
		pin->bytes += model->caches[s->cache].slab_bytes;
		assert(pin->nslabs <= pin->nbuffers);
	}
}

struct fragments {
	const struct cache *cache;
	uint64_t nsparse;
	uint64_t nempty;
	uint64_t back; /* bytes, if packed */
};

static int
by_back(const void *a, const void *b)
{
	const struct fragments *x = a, *y = b;

	return order_numbers(y->back, x->back);
}

static int
by_pinned(const void *a, const void *b)
{
	const struct pin *x = a, *y = b;

	return order_numbers(y->bytes, x->bytes);
}

static struct fragments *
collect_fragments(struct model *model)
{
	struct fragments *all = xalloc((model->ncaches + 1) * sizeof(*all));

	for (size_t i = 0; i < model->ncaches; i++)
		all[i].cache = &model->caches[i];
	for (size_t i = 0; i < model->nslabs; i++) {
		unsigned n =
		    bits_count(model->slabs[i].live, model->slabs[i].nchunks);
		struct fragments *of = &all[model->slabs[i].cache];

		of->nempty += n == 0;
		of->nsparse += is_sparse(&model->slabs[i], n);
		if (is_sparse(&model->slabs[i], n))
			pin_slab(model, i);
	}
	for (size_t i = 0; i < model->ncaches; i++) {
		const struct cache *c = all[i].cache;
		uint64_t need = (c->nlive + c->nchunks - 1) / c->nchunks;

		assert(c->import != 0 || need <= c->nslabs);
		if (c->import == 0)
			all[i].back = (c->nslabs - need) * c->slab_bytes;
	}
	qsort(all, model->ncaches, sizeof(*all), by_back);
	if (npins != 0)
		qsort(pins, npins, sizeof(*pins), by_pinned);
	return all;
}

static void
print_fragments(const struct model *model, const struct fragments *all)
{
	uint64_t back = 0;

	printf("%-25s %7s %7s %7s %9s %5s %9s\n", "CACHE", "SLABS", "SPARSE",
	    "EMPTY", "IN USE", "FULL", "IF PACKED");
	for (size_t i = 0; i < model->ncaches; i++) {
		const struct cache *c = all[i].cache;

		back += all[i].back;
		if (all[i].back == 0)
			continue;
		printf("%-25s %7lu %7lu %7lu %9lu %4.0f%% %9s\n", c->name,
		    c->nslabs, all[i].nsparse, all[i].nempty, c->nlive,
		    100.0 * (double)c->nlive / (double)c->ntotal,
		    size_text(all[i].back));
	}
	printf("%-25s %48s\n", "Total", size_text(back));
	if (npins == 0)
		return;
	printf("\n%9s %7s %9s %s\n", "PINNED", "SLABS", "BUFFERS", "CALLER");
	for (size_t i = 0; i < npins; i++)
		printf("%9s %7lu %9lu %s\n", size_text(pins[i].bytes),
		    pins[i].nslabs, pins[i].nbuffers, pins[i].caller);
}

static void
json_fragments(const struct model *model, const struct fragments *all)
{
	json_open(NULL, '{');
	json_open("caches", '[');
	for (size_t i = 0; i < model->ncaches; i++) {
		json_open(NULL, '{');
		json_text("cache", all[i].cache->name);
		json_number("slabs", all[i].cache->nslabs);
		json_number("sparse", all[i].nsparse);
		json_number("empty", all[i].nempty);
		json_number("in_use", all[i].cache->nlive);
		json_number("total", all[i].cache->ntotal);
		json_number("if_packed", all[i].back);
		json_close();
	}
	json_close();
	json_open("callers", '[');
	for (size_t i = 0; i < npins; i++) {
		json_open(NULL, '{');
		json_text("caller", pins[i].caller);
		json_number("slabs", pins[i].nslabs);
		json_number("buffers", pins[i].nbuffers);
		json_number("pinned", pins[i].bytes);
		json_close();
	}
	json_close();
	json_close();
}

void
stat_fragments(struct model *model)
{
	struct fragments *all = collect_fragments(model);

	if (json_wanted)
		json_fragments(model, all);
	else
		print_fragments(model, all);
	free(all);
}
