/*
 * leaks_mdb.c - umem leaks --mdb: the tables of ::findleaks
 *
 * A row stands for the leaks of one cache and, if the target has audit records
 * (UMEM_DEBUG=audit), of one stack.  Large blocks without a record are grouped
 * by size.  The row shows the block that was allocated first.  Rows without a
 * record are sorted by their memory, rows with a record by the name of the
 * caller.
 *
 * A leaked sample stands for other blocks that leaked at its place and are not
 * samples; see sample_weight().  Therefore the row of samples has an estimate
 * of all these blocks, which also counts the blocks in the other tables.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tools/inspect/audit.h"
#include "tools/inspect/leaks.h"
#include "tools/inspect/print.h"
#include "tools/inspect/snapshot.h"
#include "tools/inspect/symbols.h"
#include "vmem/vmem.h"

enum kind {
	LARGE,
	SAMPLED,
	BUFFER,
	AUDITED
};

struct leak {
	enum kind kind;
	const struct cache *cache; /* NULL: a large block */
	uint64_t at;
	uint64_t bytes;
	double weight;   /* blocks that it stands for */
	uint64_t bufctl; /* 0: no record */
	unsigned depth;  /* of the stack; 0: none */
	const uint64_t *stack;
	uint64_t time;
};

/* Leaks first .. first + n - 1 of the sorted array. */
struct group {
	const struct leak *leak;
	size_t n;
	uint64_t bytes;
	double about_n, about_bytes; /* that they stand for */
	uint64_t least, most;
	const struct leak *oldest;
	const char *caller;
	uint64_t segment; /* of a large block: its tag */
};

static struct leak *leaks;
static size_t nleaks, leaks_capacity;
static struct group *groups;
static size_t ngroups, groups_capacity;

static bool
has_record(struct model *model, struct slab *slab, struct large *large,
    unsigned i, struct audit *audit)
{
	return slab != NULL ? audit_of_chunk(model, slab, i, audit)
			    : audit_of_large(model, large, audit);
}

static void
collect(struct model *model, struct slab *slab, struct large *large, unsigned i)
{
	struct audit audit = {0};
	struct leak *leak;

	assert((slab != NULL) != (large != NULL));
	ARRAY_GROW(leaks, nleaks, leaks_capacity);
	leak = &leaks[nleaks++];
	*leak = (struct leak){.kind = slab ? BUFFER : LARGE,
	    .cache = slab ? &model->caches[slab->cache] : NULL,
	    .at = slab ? slab_chunk_at(model, slab, i) : large->at,
	    .bytes = slab ? model->caches[slab->cache].bufsize : large->size};
	leak->weight = 1;
	if (large != NULL && large->sample != NULL) {
		leak->kind = SAMPLED;
		leak->weight = sample_weight(large->sample);
	}
	if (!has_record(model, slab, large, i, &audit) || audit.depth == 0)
		return;
	leak->bufctl = audit.at;
	leak->depth = audit.depth;
	leak->stack = audit.stack;
	leak->time = audit.timestamp;
	if (slab != NULL)
		leak->kind = AUDITED;
}

/* Sorts the leaks of one row together. */
static int
row_order(const struct leak *a, const struct leak *b)
{
	int way = order_numbers(a->kind, b->kind);

	if (way == 0)
		way = order_numbers((uintptr_t)a->cache, (uintptr_t)b->cache);
	if (way == 0)
		way =
		    audit_order_stacks(a->depth, a->stack, b->depth, b->stack);
	if (way == 0 && a->kind == LARGE && a->depth == 0)
		way = order_numbers(b->bytes, a->bytes);
	return way;
}

static int
order_by_row(const void *a, const void *b)
{
	const struct leak *x = a, *y = b;
	int way = row_order(x, y);

	return way ? way : order_numbers(x->at, y->at);
}

static const char *
leak_caller(struct model *model, const struct leak *leak)
{
	struct audit audit;

	if (leak->bufctl == 0 || !audit_read(model, leak->bufctl, &audit))
		return "?";
	return audit_caller(model, &audit);
}

static int
by_weight(const void *a, const void *b)
{
	const struct group *x = a, *y = b;
	int way = order_numbers(x->leak->kind, y->leak->kind);

	if (way == 0 && x->leak->kind == AUDITED)
		way = strcmp(x->caller, y->caller);
	if (way == 0 && x->leak->kind != AUDITED)
		way = order_numbers(
		    (uint64_t)y->about_bytes, (uint64_t)x->about_bytes);
	return way ? way : order_numbers(x->leak->at, y->leak->at);
}

static void
add_group(struct model *model, size_t first, size_t end)
{
	struct group *g;

	assert(first < end && end <= nleaks);
	ARRAY_GROW(groups, ngroups, groups_capacity);
	g = &groups[ngroups++];
	*g = (struct group){.leak = &leaks[first],
	    .n = end - first,
	    .least = leaks[first].bytes,
	    .oldest = &leaks[first]};
	for (size_t i = first; i < end; i++) {
		assert(leaks[i].kind == g->leak->kind);
		g->bytes += leaks[i].bytes;
		g->about_n += leaks[i].weight;
		g->about_bytes += leaks[i].weight * (double)leaks[i].bytes;
		if (leaks[i].bytes < g->least)
			g->least = leaks[i].bytes;
		if (leaks[i].bytes > g->most)
			g->most = leaks[i].bytes;
		if (leaks[i].time < g->oldest->time)
			g->oldest = &leaks[i];
	}
	assert(g->least <= g->most && g->about_n >= (double)g->n);
	g->caller = leak_caller(model, g->oldest);
}

/* Has a frame of the row's stack caller in its name? */
static bool
is_from(struct model *model, const struct group *g, const char *caller)
{
	struct audit audit;

	if (g->oldest->bufctl == 0 ||
	    !audit_read(model, g->oldest->bufctl, &audit))
		return false;
	for (unsigned i = 0; i < audit.depth; i++)
		if (symbol_matches(model->target, audit.stack[i], caller))
			return true;
	return false;
}

static void
group_leaks(struct model *model, const char *caller)
{
	if (nleaks != 0)
		qsort(leaks, nleaks, sizeof(*leaks), order_by_row);
	for (size_t first = 0, end; first < nleaks; first = end) {
		for (end = first + 1;
		     end < nleaks && row_order(&leaks[first], &leaks[end]) == 0;
		     end++)
			;
		add_group(model, first, end);
		if (caller != NULL &&
		    !is_from(model, &groups[ngroups - 1], caller))
			ngroups--;
	}
	assert(ngroups <= nleaks);
	if (ngroups != 0)
		qsort(groups, ngroups, sizeof(*groups), by_weight);
}

static void
find_segments(struct model *model)
{
	struct arena *heap = model_arena(
	    model, layout_variable(model->layout, model->target, L_HEAP_ARENA));
	struct segment *segments;
	size_t n;

	if (heap == NULL || ngroups == 0 || groups[0].leak->kind != LARGE)
		return;
	segments = model_segments(model, heap, &n);
	for (size_t i = 0; i < ngroups && groups[i].leak->kind == LARGE; i++)
		for (size_t j = 0; j < n; j++)
			if (segments[j].start == groups[i].oldest->at &&
			    segments[j].type == VMEM_ALLOC)
				groups[i].segment = segments[j].at;
	free(segments);
}

static void
print_total(enum kind kind)
{
	uint64_t n = 0, bytes = 0;
	double about_n = 0, about_bytes = 0;

	for (size_t i = 0; i < ngroups; i++)
		if (groups[i].leak->kind == kind) {
			n += groups[i].n;
			bytes += groups[i].bytes;
			about_n += groups[i].about_n;
			about_bytes += groups[i].about_bytes;
		}
	puts("----------------------------------------------------------------"
	     "--------");
	if (kind == SAMPLED)
		printf(
		    "%16s %7lu sample%s, which stand for about %.0f buffers, "
		    "%s (estimated)\n",
		    "Total", n, n == 1 ? "" : "s", about_n,
		    size_text((uint64_t)about_bytes));
	else
		printf("%16s %7lu %s%s, %lu byte%s\n", "Total", n,
		    kind == LARGE ? "oversized leak" : "buffer",
		    n == 1 ? "" : "s", bytes, bytes == 1 ? "" : "s");
}

/* Returns "100", or the range from the smallest to the largest size. */
static const char *
sizes_of(const struct group *g)
{
	if (g->least == g->most)
		return xprint("%lu", g->least);
	return xprint("%lu-%lu", g->least, g->most);
}

static void
print_row(const struct group *g)
{
	if (g->leak->kind == SAMPLED) {
		printf("%-16s %7zu %9.0f %9s %16lx %s\n", sizes_of(g), g->n,
		    g->about_n, size_text((uint64_t)g->about_bytes),
		    g->oldest->bufctl, g->caller);
		return;
	}
	assert((g->leak->cache == NULL) == (g->leak->kind == LARGE));
	printf("%-16s %7zu %016lx %s\n",
	    g->leak->cache != NULL ? xprint("%016lx", g->leak->cache->at)
				   : sizes_of(g),
	    g->n,
	    g->leak->kind == LARGE    ? g->segment
	    : g->leak->kind == BUFFER ? g->oldest->at
				      : g->oldest->bufctl,
	    g->caller);
}

static void
print_head(enum kind kind)
{
	if (kind == SAMPLED)
		printf("%-16s %7s %9s %9s %16s %s\n", "BYTES", "SAMPLES",
		    "ABOUT", "MEMORY", "SAMPLE", "CALLER");
	else
		printf("%-16s %7s %16s %s\n", kind == LARGE ? "BYTES" : "CACHE",
		    "LEAKED",
		    kind == LARGE    ? "VMEM_SEG"
		    : kind == BUFFER ? "BUFFER"
				     : "BUFCTL",
		    "CALLER");
}

/* Prints the table of one kind; returns false if it would be empty. */
static bool
print_table(enum kind kind, bool behind)
{
	bool any = false;

	for (size_t i = 0; i < ngroups; i++) {
		if (groups[i].leak->kind != kind)
			continue;
		if (!any && behind)
			putchar('\n');
		if (!any)
			print_head(kind);
		any = true;
		print_row(&groups[i]);
	}
	if (any)
		print_total(kind);
	return any;
}

static void
print_detail(struct model *model, const struct group *g)
{
	struct audit audit;

	if (g->leak->kind == LARGE)
		printf("\numem_oversize leak: %zu vmem_seg%s, %lu bytes\n",
		    g->n, g->n == 1 ? "" : "s", g->bytes);
	else if (g->leak->kind == SAMPLED)
		printf("\numem_sample leak: %zu sample%s, %lu bytes, which "
		       "stand for about %.0f buffers, %.0f bytes\n",
		    g->n, g->n == 1 ? "" : "s", g->bytes, g->about_n,
		    g->about_bytes);
	else
		printf("\n%s leak: %zu buffer%s, %lu bytes each, %lu bytes "
		       "total\n",
		    g->leak->cache->name, g->n, g->n == 1 ? "" : "s",
		    g->leak->cache->bufsize, g->bytes);
	if (g->oldest->bufctl != 0 &&
	    audit_read(model, g->oldest->bufctl, &audit)) {
		audit_print_head();
		audit_print(model, &audit);
		return;
	}
	printf("%16s\n", "ADDR");
	for (size_t i = 0; i < g->n; i++)
		printf("%16lx\n", g->leak[i].at);
}

static void
print_figure(const char *name, uint64_t n, uint64_t of)
{
	if (of == 0)
		printf("findleaks: %30s => %lu\n", name, n);
	else
		printf("findleaks: %30s => %-11lu (%4.1f%%)\n", name, n,
		    100.0 * (double)n / (double)of);
}

static double
seconds(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

void
leaks_print_figures(
    struct model *model, const struct leaks_figures *figures, double wall)
{
	uint64_t nseen = figures->nmisses + figures->ndups + figures->nfollows;
	struct rusage usage;
	uint64_t nmost = model->nlarges;

	for (size_t i = 0; i < model->ncaches; i++)
		nmost += model->caches[i].ntotal;
	getrusage(RUSAGE_SELF, &usage);
	print_figure("maximum buffers", nmost, 0);
	print_figure("actual buffers", figures->nobjects, 0);
	print_figure("potential pointers", figures->nwords, 0);
	print_figure("dismissals", figures->nwords - nseen, figures->nwords);
	print_figure("misses", figures->nmisses, figures->nwords);
	print_figure("dups", figures->ndups, figures->nwords);
	print_figure("follows", figures->nfollows, figures->nwords);
	printf("findleaks: %30s => %ld kB\n", "peak memory usage",
	    usage.ru_maxrss);
	printf("findleaks: %30s => %.1f seconds\n", "elapsed CPU time",
	    seconds(usage.ru_utime) + seconds(usage.ru_stime));
	printf("findleaks: %30s => %.1f seconds\n", "elapsed wall time", wall);
	if (model->target->was_copied)
		printf("findleaks: %30s => a copy of the process\n",
		    "memory was read from");
	if (model->target->live && !model->target->borrowed)
		printf("findleaks: %30s => %.1f milliseconds\n",
		    "process stood still for", 1000 * model->target->pause);
}

static void
json_group(struct model *model, const struct group *g, bool details)
{
	struct audit audit;

	json_open(NULL, '{');
	json_text("kind", g->leak->kind == LARGE     ? "oversized"
			  : g->leak->kind == SAMPLED ? "sampled"
						     : "buffer");
	if (g->leak->kind == LARGE) {
		json_address("vmem_seg", g->segment);
	} else if (g->leak->cache != NULL) {
		json_text("cache", g->leak->cache->name);
		json_address("cache_address", g->leak->cache->at);
	}
	json_number("leaked", g->n);
	json_number("bytes", g->bytes);
	if (g->leak->kind == SAMPLED) {
		json_number("about_buffers", (uint64_t)g->about_n);
		json_number("about_bytes", (uint64_t)g->about_bytes);
	}
	json_address("buffer", g->oldest->at);
	json_text("caller", g->caller);
	if (g->oldest->bufctl != 0 &&
	    audit_read(model, g->oldest->bufctl, &audit)) {
		json_open("oldest", '{');
		audit_json(model, &audit);
		json_close();
	}
	if (details) {
		json_open("buffers", '[');
		for (size_t i = 0; i < g->n; i++)
			json_address(NULL, g->leak[i].at);
		json_close();
	}
	json_close();
}

static void
print_json(struct model *model, bool details)
{
	uint64_t n = 0, bytes = 0;

	json_open(NULL, '{');
	json_open("leaks", '[');
	for (size_t i = 0; i < ngroups; i++) {
		n += groups[i].n;
		bytes += groups[i].bytes;
		json_group(model, &groups[i], details);
	}
	json_close();
	json_number("leaked", n);
	json_number("bytes", bytes);
	json_close();
}

static void
print_report(struct model *model, const struct leaks_options *options)
{
	bool behind = false;

	if (ngroups == 0 && options->caller != NULL)
		printf("findleaks: no memory leaks matching %s found\n",
		    options->caller);
	else if (ngroups == 0)
		puts("findleaks: no memory leaks detected");
	for (int kind = LARGE; kind <= AUDITED; kind++)
		behind |= print_table((enum kind)kind, behind);
	for (size_t i = 0; options->details && i < ngroups; i++)
		print_detail(model, &groups[i]);
}

int
leaks_report_mdb(struct model *model, const struct leaks_options *options)
{
	double start = seconds_now();
	struct leaks_figures figures;

	assert(nleaks == 0 && ngroups == 0);
	leaks_mark(model, &figures);
	target_end_copy(model->target);
	leaks_each(model, collect);
	group_leaks(model, options->caller);
	find_segments(model);
	if (json_wanted) {
		print_json(model, options->details);
	} else {
		if (options->figures)
			leaks_print_figures(
			    model, &figures, seconds_now() - start);
		print_report(model, options);
	}
	return ngroups == 0 ? EXIT_OK : EXIT_FOUND;
}
