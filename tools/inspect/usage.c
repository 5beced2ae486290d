/*
 * usage.c - where the memory of the target is
 *
 * umem top reads these figures of a process that runs, and never stops it.
 * umem status reads them from its copy of the library's structures.  Both use
 * counters of the library, the headers of CPUs and the lists of depots, which
 * together are a few KiB for each CPU; neither looks at single slabs.
 *
 * While the process runs, the figures are of slightly different moments, a
 * header that a thread has claimed counts with its previous magazine only, and
 * a cache may be destroyed while it is read.  Therefore every number is
 * bounded before it is used, and a difference below 0 counts as 0.
 *
 * The kernel gives the resident set and the pages in memory.  All pages that
 * are neither in the heap nor in the library's structures are not ours: the
 * program's and the libraries' files, stacks, other mappings.  Heap memory that
 * the program has allocated and never touched is counted in its layer, although
 * it has no pages; the member untouched is the difference.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/model_inner.h"
#include "tools/inspect/print.h"
#include "tools/inspect/usage.h"

/* Full magazines of a depot that are read; the others are estimated. */
#define DEPOT_READS 64

/* Above any capacity of a magazine. */
#define ROUNDS_MOST 8192

/* Above the entries of any quarantine. */
#define QUARANTINE_MOST ((uint64_t)1 << 16)

/* Caches that are read; a damaged list may have no end. */
#define CACHES_MOST 65536

/* Samples from which rounding is estimated. */
#define SAMPLES_LEAST 30

const struct usage_layer usage_layers[USAGE_LAYERS] = {
    {"in_use", "in use", "blocks and objects that the program holds",
	offsetof(struct usage, in_use)},
    {"rounding", "rounding", "the difference to the sizes asked for",
	offsetof(struct usage, rounding)},
    {"cached_cpus", "cached by CPUs", "free blocks in the magazines of CPUs",
	offsetof(struct usage, cpus)},
    {"cached_depots", "cached in depots", "free blocks in full magazines",
	offsetof(struct usage, depots)},
    {"cached_slabs", "cached in slabs", "free blocks in slabs in use",
	offsetof(struct usage, slabs)},
    {"free_dirty", "free dirty", "free pages, not yet returned to the kernel",
	offsetof(struct usage, dirty)},
    {"samples", "samples", "pages of sampled blocks",
	offsetof(struct usage, samples)},
    {"library", "library", "structures of the library itself",
	offsetof(struct usage, own)},
    {"not_ours", "not ours", "program files, stacks, other mappings",
	offsetof(struct usage, others)}};

/* What is read besides the result. */
struct reading {
	struct model *model;
	struct usage *usage;
	struct usage_pages pages;
	char **blocks; /* of each region and CPU, copies; NULL: no memory */
	uint64_t *block_at;
	size_t nblocks, blocks_capacity, at_capacity;
};

static uint64_t
usage_less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t
value_of(const struct reading *r, enum layout_entry entry)
{
	return layout_value(r->model->layout, entry);
}

static uint64_t
usage_get(const struct reading *r, const char *from, enum layout_entry entry)
{
	return layout_get(r->model->layout, from, entry);
}

static uint64_t
variable_of(const struct reading *r, enum layout_entry entry)
{
	return layout_variable(r->model->layout, r->model->target, entry);
}

/* Returns a member of the library's struct account. */
static uint64_t
account_of(const struct reading *r, enum layout_entry member)
{
	uint64_t bytes = 0;

	layout_peek(r->model->layout, r->model->target, value_of(r, L_ACCOUNT),
	    member, &bytes);
	return bytes;
}

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

/* Reads the block of one CPU in one region. */
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
	r->block_at[n] = at;
	r->nblocks++;
}

/* Reads the blocks of all CPUs: r->usage->ncpus in a row for each region. */
static void
blocks_read(struct reading *r)
{
	uint64_t at = variable_of(r, L_REGIONS);
	uint64_t ncpus = r->usage->ncpus, block = value_of(r, L_CPU_BLOCK);
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
			if (has && r->pages.fd >= 0)
				r->usage->own += usage_pages_in(
				    &r->pages, first + cpu * block, block);
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

	for (size_t i = 0; i < r->nblocks; i += r->usage->ncpus) {
		uint64_t offset = part_at - r->block_at[i];

		if (offset < block && value_of(r, bytes) <= block - offset)
			return r->blocks[i + cpu] != NULL
				   ? r->blocks[i + cpu] + offset
				   : NULL;
	}
	return NULL;
}

/* Adds what one CPU has of a cache. */
static void
header_add(
    struct reading *r, struct usage_cache *c, const char *record, uint64_t cpu)
{
	const char *hot =
	    header_part(r, usage_get(r, record, L_CACHE_HOT), cpu, L_HOT_BYTES);
	const char *cold = header_part(
	    r, usage_get(r, record, L_CACHE_COLD), cpu, L_COLD_BYTES);
	struct usage_cpu *to = &r->usage->cpu[cpu];
	uint64_t loaded, top, n = 0, previous;

	if (hot == NULL || cold == NULL)
		return;
	loaded = usage_get(r, cold, L_COLD_LOADED);
	top = usage_get(r, hot, L_HOT_TOP);
	previous = usage_get(r, cold, L_COLD_NPREVIOUS);
	if (loaded != 0)
		n = (top - loaded - value_of(r, L_MAGAZINE_ROUND)) / 8;
	n = n < ROUNDS_MOST ? n : 0;
	n += previous < ROUNDS_MOST ? previous : 0;
	c->ncpu += n;
	to->cached += n * c->chunk;
	if (n * c->chunk > to->largest) {
		to->largest = n * c->chunk;
		to->cache = r->usage->ncaches - 1;
	}
	to->nloads += (uint32_t)usage_get(r, cold, L_COLD_NLOADS);
	c->nloads += (uint32_t)usage_get(r, cold, L_COLD_NLOADS);
	c->nrefills += (uint32_t)usage_get(r, cold, L_COLD_NREFILLS);
	c->nreceived += (uint32_t)usage_get(r, cold, L_COLD_NRECEIVED);
}

/* Returns the rounds in n full magazines of a shard. */
static uint64_t
shard_rounds(const struct reading *r, uint64_t at, uint64_t n)
{
	uint64_t rounds = 0, nread = 0;

	while (at != 0 && nread < n && nread < DEPOT_READS) {
		char *mag = record_read(r, at, L_MAGAZINE_BYTES);

		if (mag == NULL)
			break;
		if (usage_get(r, mag, L_MAGAZINE_NROUNDS) < ROUNDS_MOST)
			rounds += usage_get(r, mag, L_MAGAZINE_NROUNDS);
		at = usage_get(r, mag, L_MAGAZINE_NEXT);
		nread++;
		free(mag);
	}
	return nread == 0 ? 0 : rounds * n / nread;
}

static void
depots_add(struct reading *r, struct usage_cache *c, const char *record)
{
	uint64_t at = usage_get(r, record, L_CACHE_MORE_SHARDS);
	uint64_t n = usage_get(r, record, L_CACHE_SHARDS);

	c->ndepot += shard_rounds(r, usage_get(r, record, L_CACHE_DEPOT_FULL),
	    usage_get(r, record, L_CACHE_DEPOT_NFULL));
	for (uint64_t i = 1; at != 0 && i < n && i < CPUS_MOST; i++) {
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

	if (at == 0 || n == 0 || n > QUARANTINE_MOST)
		return;
	slot = xalloc(8 * n);
	if (usage_peek(r, at, slot, 8 * n))
		for (uint64_t i = 0; i < n; i++)
			c->ndepot += slot[i] != 0;
	free(slot);
}

/* Reads a cache from its record. */
static void
cache_add(struct reading *r, uint64_t at, const char *record)
{
	struct usage *u = r->usage;
	struct usage_cache *c;
	uint64_t total;

	ARRAY_GROW(u->caches, u->ncaches, u->caches_capacity);
	c = &u->caches[u->ncaches++];
	*c = (struct usage_cache){.at = at,
	    .is_class = usage_get(r, record, L_CACHE_CLASS) != 0,
	    .in_heap = usage_get(r, record, L_CACHE_SOURCE) == 0,
	    .chunk = usage_get(r, record, L_CACHE_CHUNK),
	    .bufsize = usage_get(r, record, L_CACHE_BUFSIZE),
	    .used = usage_get(r, record, L_CACHE_NUSED),
	    .ndepot = usage_get(r, record, L_CACHE_RESERVE_READY),
	    .ncontended =
		(uint32_t)(usage_get(r, record, L_CACHE_NCONTENDED) +
			   usage_get(r, record, L_CACHE_SLAB_NCONTENDED))};
	snprintf(c->name, sizeof(c->name), "%s",
	    plain_text(record + value_of(r, L_CACHE_NAME), 31));
	c->memory = usage_get(r, record, L_CACHE_NSLABS) *
		    usage_get(r, record, L_CACHE_SLAB_BYTES);
	total = usage_get(r, record, L_CACHE_NSLABS) *
		usage_get(r, record, L_CACHE_NCHUNKS);
	/* An import cache has no slabs, so its resources count as none. */
	if (c->used > total)
		c->used = total;
	c->nfree = total - c->used;
	if (usage_get(r, record, L_CACHE_HAS_MAGAZINES)) {
		for (uint64_t cpu = 0; cpu < u->ncpus; cpu++)
			header_add(r, c, record, cpu);
		depots_add(r, c, record);
	}
	quarantine_add(r, c, record);
	if (c->ncpu > c->used)
		c->ncpu = c->used;
	if (c->ndepot > c->used - c->ncpu)
		c->ndepot = c->used - c->ncpu;
}

static void
caches_read(struct reading *r)
{
	uint64_t head = value_of(r, L_CACHE_LIST), link;
	struct cycle_detector cycles = {0};

	if (!usage_peek(
		r, head + value_of(r, L_LIST_NEXT), &link, sizeof(link)))
		return;
	while (link != head && cycle_continues(&cycles, link) &&
	       r->usage->ncaches < CACHES_MOST) {
		uint64_t at = link - value_of(r, L_CACHE_LINK);
		char *record = record_read(r, at, L_CACHE_BYTES);

		if (record == NULL)
			return;
		cache_add(r, at, record);
		link = layout_number(record + value_of(r, L_CACHE_LINK) +
					 value_of(r, L_LIST_NEXT),
		    sizeof(link));
		free(record);
	}
}

/* Adds the library's structures, with their pages in memory if possible. */
static void
own_read(struct reading *r)
{
	static const enum layout_entry lists[] = {L_META_POOLS, L_DEDICATED};
	const struct layout *l = r->model->layout;
	struct target *target = r->model->target;
	uint64_t unit = value_of(r, L_HEAP_UNIT);
	uint64_t nunits = (r->model->end - r->model->base + unit - 1) / unit;

	if (r->pages.fd < 0) {
		r->usage->own = variable_of(r, L_MAPPED_BYTES);
		return;
	}
	for (size_t i = 0; i < array_size(lists); i++) {
		uint64_t at = variable_of(r, lists[i]), start, bytes, next;
		struct cycle_detector cycles = {0};

		for (; cycle_continues(&cycles, at) &&
		       layout_peek(l, target, at, L_RANGE_AT, &start) &&
		       layout_peek(l, target, at, L_RANGE_BYTES, &bytes) &&
		       layout_peek(l, target, at, L_RANGE_NEXT, &next);
		     at = next)
			r->usage->own +=
			    usage_pages_in(&r->pages, start, bytes);
	}
	r->usage->own += usage_pages_in(
	    &r->pages, model_map_table(r->model, L_MAP_OWNER), nunits * 8);
	r->usage->own += usage_pages_in(
	    &r->pages, model_map_table(r->model, L_MAP_ENTRY), nunits * 8);
}

static uint64_t
sample_pages(const struct sample *s, uint64_t page)
{
	return (s->at + s->size + page - 1) / page * page - s->at / page * page;
}

/* Adds the live samples; returns the bytes of those with spans of their own. */
static uint64_t
samples_add(struct reading *r)
{
	uint64_t unguarded = 0;

	for (size_t i = 0; i < r->model->nsamples; i++) {
		const struct sample *s = &r->model->samples[i];
		uint64_t bytes;

		if (s->record == 0 || !(s->live || s->waits))
			continue;
		bytes = sample_pages(s, r->pages.page);
		r->usage->samples += bytes;
		r->usage->nsamples++;
		if (!s->guarded)
			unguarded += bytes;
	}
	return unguarded;
}

static int
order_by_size(const void *a, const void *b)
{
	const struct usage_cache *x = *(const struct usage_cache *const *)a;
	const struct usage_cache *y = *(const struct usage_cache *const *)b;

	return order_numbers(x->bufsize, y->bufsize);
}

/*
 * Estimates, from live samples, the share of the memory in size classes that
 * no request asked for: each sample stands for blocks of the smallest class in
 * which its size fits.  0 if there are few samples.
 */
static double
rounding_share(const struct reading *r)
{
	const struct usage *u = r->usage;
	const struct usage_cache **class =
	    xalloc((u->ncaches + 1) * sizeof(*class));
	double asked = 0, given = 0;
	size_t n = 0, nsamples = 0;

	for (size_t i = 0; i < u->ncaches; i++)
		if (u->caches[i].is_class)
			class[n++] = &u->caches[i];
	qsort(class, n, sizeof(*class), order_by_size);
	for (size_t i = 0; i < r->model->nsamples; i++) {
		const struct sample *s = &r->model->samples[i];
		size_t j = 0;

		if (s->record == 0 || !s->live)
			continue;
		while (j < n && class[j]->bufsize < s->size)
			j++;
		if (j == n)
			continue;
		nsamples++;
		asked += sample_weight(s) * (double)s->size;
		given += sample_weight(s) * (double)class[j]->bufsize;
	}
	free(class);
	return nsamples < SAMPLES_LEAST || given <= 0 ? 0 : 1 - asked / given;
}

static void
caches_sum(struct reading *r)
{
	struct usage *u = r->usage;
	uint64_t in_classes = 0, rounded;

	for (size_t i = 0; i < u->ncaches; i++) {
		const struct usage_cache *c = &u->caches[i];
		uint64_t live = usage_nlive(c), total = c->used + c->nfree;

		if (!c->in_heap)
			continue;
		u->in_use += live * c->bufsize;
		in_classes += c->is_class ? live * c->bufsize : 0;
		u->rounding += usage_less(c->memory, total * c->chunk) +
			       live * usage_less(c->chunk, c->bufsize);
		u->cpus += c->ncpu * c->chunk;
		u->depots += c->ndepot * c->chunk;
		u->slabs += c->nfree * c->chunk;
	}
	/* Pages of free chunks in slabs may have been returned. */
	u->slabs = usage_less(u->slabs, account_of(r, L_ACCOUNT_PURGED));
	rounded = (uint64_t)(rounding_share(r) * (double)in_classes);
	u->in_use -= rounded;
	u->rounding += rounded;
}

/* Adds large blocks, and the heap's memory that is in arenas of the program. */
static void
larges_add(struct reading *r, uint64_t unguarded)
{
	uint64_t blocks = usage_less(account_of(r, L_ACCOUNT_LARGE),
	    usage_less(account_of(r, L_ACCOUNT_SAMPLE_SPANS),
		account_of(r, L_ACCOUNT_SAMPLE_PAGES)));

	r->usage->large = usage_less(blocks, unguarded);
	r->usage->arenas = account_of(r, L_ACCOUNT_PROGRAM);
	r->usage->in_use += r->usage->large + r->usage->arenas;
}

/*
 * Reads the resident set.  The figures of /proc/PID/statm are late by some
 * pages for each CPU; the sum over the mappings is exact, and the kernel lets
 * the process change its mappings between two of them.
 */
static uint64_t
rss_read(const struct target *target)
{
	char path[64], line[256];
	unsigned long kib = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", target->reader);
	file = fopen(path, "re");
	if (file == NULL)
		return 0;
	while (fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "Rss: %lu kB", &kib) == 1)
			break;
	fclose(file);
	return kib * KIB;
}

/* Reads the kernel's figures, which make the identity complete. */
static void
pages_add(struct reading *r)
{
	struct usage *u = r->usage;
	uint64_t heap, layers;

	if (r->pages.fd < 0)
		return;
	heap = usage_pages_in(
	    &r->pages, r->model->base, r->model->end - r->model->base);
	u->has_pages = true;
	u->rss = rss_read(r->model->target);
	u->others = usage_less(u->rss, heap + u->own);
	layers = u->in_use + u->rounding + usage_cached(u) + u->dirty +
		 u->samples + u->own + u->others;
	u->untouched = usage_less(layers, u->rss);
	/* Pages in no layer, as the last part of a slab that is being made. */
	u->slabs += usage_less(u->rss, layers);
}

static void
heap_bounds(struct reading *r)
{
	uint64_t base = value_of(r, L_HEAP_WINDOW) + value_of(r, L_WINDOW_BASE);

	if (!usage_peek(r, base, &r->model->base, sizeof(r->model->base)))
		r->model->base = 0;
	r->model->end = variable_of(r, L_COMMITTED_END);
	if (r->model->end < r->model->base)
		r->model->end = r->model->base;
}

void
usage_read(struct model *model, struct usage *usage)
{
	struct reading r = {.model = model, .usage = usage};
	uint64_t ncpus = 0;

	*usage = (struct usage){.time = seconds_now()};
	usage_pages_open(&r.pages, model->target);
	layout_peek(model->layout, model->target, value_of(&r, L_CPU_LAYER),
	    L_LAYER_NUSED, &ncpus);
	usage->ncpus = ncpus < CPUS_MOST ? ncpus : CPUS_MOST;
	usage->cpu = xalloc((usage->ncpus + 1) * sizeof(*usage->cpu));
	heap_bounds(&r);
	own_read(&r);
	blocks_read(&r);
	caches_read(&r);
	caches_sum(&r);
	larges_add(&r, samples_add(&r));
	usage->dirty = variable_of(&r, L_NDIRTY) * value_of(&r, L_HEAP_UNIT);
	pages_add(&r);
	usage_pages_close(&r.pages);
	for (size_t i = 0; i < r.nblocks; i++)
		free(r.blocks[i]);
	free(r.blocks);
	free(r.block_at);
}

void
usage_free(struct usage *usage)
{
	free(usage->caches);
	free(usage->cpu);
	*usage = (struct usage){0};
}

/* Appends a term; a new line begins if it does not fit. */
static void
term_add(FILE *file, size_t width, size_t *column, const char *term)
{
	if (*column + 1 + strlen(term) > width && *column > 7) {
		fputs("\n      ", file);
		*column = 6;
	}
	fprintf(file, " %s", term);
	*column += 1 + strlen(term);
}

/* Returns the sum of all layers, or the resident set if it is known. */
static uint64_t
usage_sum(const struct usage *u)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < USAGE_LAYERS; i++)
		sum += usage_in(u, i);
	return u->has_pages ? u->rss : sum;
}

char *
usage_text(const struct usage *u, size_t width)
{
	char *text = NULL, term[160];
	size_t bytes, column;
	FILE *file = open_memstream(&text, &bytes);

	if (file == NULL)
		fail_with(EXIT_ERROR, "out of memory");
	column = (size_t)fprintf(file, "%s %s =", u->has_pages ? "RSS" : "Heap",
	    size_text(usage_sum(u)));
	for (size_t i = 0; i < USAGE_LAYERS; i++) {
		size_t member = usage_layers[i].offset;

		if (member == offsetof(struct usage, depots) ||
		    member == offsetof(struct usage, slabs) ||
		    (member == offsetof(struct usage, others) && !u->has_pages))
			continue;
		snprintf(term, sizeof(term), "%s%s %s", i == 0 ? "" : "+ ",
		    usage_layers[i].name, size_text(usage_in(u, i)));
		if (member == offsetof(struct usage, cpus))
			snprintf(term, sizeof(term),
			    "+ cached %s (CPUs %s, depots %s, slabs %s)",
			    size_text(usage_cached(u)), size_text(u->cpus),
			    size_text(u->depots), size_text(u->slabs));
		term_add(file, width, &column, term);
	}
	snprintf(term, sizeof(term), "- untouched %s", size_text(u->untouched));
	if (u->has_pages)
		term_add(file, width, &column, term);
	fclose(file);
	return text;
}

void
usage_json(const struct usage *u)
{
	json_open("usage", '{');
	if (u->has_pages)
		json_number("rss", u->rss);
	for (size_t i = 0; i < USAGE_LAYERS; i++)
		if (u->has_pages ||
		    usage_layers[i].offset != offsetof(struct usage, others))
			json_number(usage_layers[i].key, usage_in(u, i));
	if (u->has_pages)
		json_number("untouched", u->untouched);
	json_close();
}
