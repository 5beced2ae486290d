/*
 * leaks.c - umem leaks: what nothing in the program points to any more
 *
 * Marking: every word of the roots (roots.c) that is an address inside an
 * allocated chunk or large block, at its start or anywhere else, marks it, and
 * what is marked is looked through in turn.  What is allocated and unmarked in
 * the end is leaked: no pointer leads there from the program, though pieces of
 * a leaked ring or tree may well point to each other.
 *
 * A word may look like an address by chance; then a leak is missed.  A leak is
 * never made up, but where a program hides its pointers (as differences, or
 * with bits in use) so that no search could find them.
 *
 * What a thread holds that was stopped inside the library is no leak, either:
 *	a chunk on its way to or from a slab is in a magazine that only that
 *	thread knows of: so a magazine that its registers or its stack point to,
 *	and that no CPU and no depot has,
 *	counts as pointing to all its rounds, and to the next in its chain
 *	the argument of a thread that is about to begin is in such a place, too
 *
 * Blocks of quantum caches are not judged: they may be pieces of arenas that
 * only the library knows of.
 *
 * Source: Bonwick's findleaks, as ::findleaks of libumem's mdb module has it;
 * its columns are kept.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tools/leaks.h"
#include "tools/print.h"
#include "tools/roots.h"
#include "umem/umem.h"
#include "vmem/vmem.h"

/* Chains of magazines in flight are short; this ends a torn one. */
#define CHAIN_MOST 100000

/* A chunk that is marked and not yet looked through. */
struct todo {
	uint32_t slab; /* index; UINT32_MAX: a large block */
	uint32_t chunk;
};

static struct {
	struct todo *todo;
	size_t ntodo, todo_room;
	uint64_t nwords;   /* looked at */
	uint64_t nmisses;  /* in the heap, and no live block */
	uint64_t ndups;    /* marked before */
	uint64_t nfollows; /* marked by this */
	uint64_t nobjects; /* live */
} walk;

static inline void
push(uint32_t slab, uint32_t chunk)
{
	ARRAY_ROOM(walk.todo, walk.ntodo, walk.todo_room);
	walk.todo[walk.ntodo++] = (struct todo){slab, chunk};
	walk.nfollows++;
}

static inline void
mark_chunk(struct model *model, struct slab *s, uint64_t at)
{
	uint64_t offset = at - s->first;
	unsigned i = (unsigned)(offset / model->caches[s->cache].chunk);

	if (at < s->first || i >= s->nchunks || !bit_get(s->live, i)) {
		walk.nmisses++;
		return;
	}
	if (bit_get(s->marked, i)) {
		walk.ndups++;
		return;
	}
	bit_set(s->marked, i);
	push((uint32_t)(s - model->slabs), i);
}

static void
mark_large(struct model *model, uint32_t i)
{
	if (model->larges[i].marked) {
		walk.ndups++;
		return;
	}
	model->larges[i].marked = true;
	push(UINT32_MAX, i);
}

static void
mark_elsewhere(struct model *model, uint64_t at)
{
	struct place place;

	if (model->nsourced != 0 && model_find(model, at, &place) &&
	    place.slab != NULL)
		mark_chunk(model, place.slab, at);
}

static inline void
mark(struct model *model, uint64_t at)
{
	uint64_t offset = at - model->base;

	if (offset < model->end - model->base) {
		uint32_t what = model->unit[offset >> model->unit_shift];

		if (what & 1) {
			mark_large(model, (what - 3) / 2);
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
	walk.nwords += n;
	for (size_t i = 0; i < n; i++)
		/* No address of ours is so low. */
		if (words[i] >= 65536)
			mark(model, words[i]);
}

static void
mark_memory(struct model *model, uint64_t at, uint64_t bytes)
{
	uint64_t end = (at + bytes) & ~(uint64_t)7;

	for (at = (at + 7) & ~(uint64_t)7; at < end;) {
		uint64_t run = target_run(model->target, at);

		if (run > end - at)
			run = end - at;
		if (run < 8)
			return;
		mark_words(model, target_at(model->target, at, run), run / 8);
		at += run & ~(uint64_t)7;
	}
}

static void
drain(struct model *model)
{
	while (walk.ntodo > 0) {
		struct todo todo = walk.todo[--walk.ntodo];
		struct slab *s = &model->slabs[todo.slab];

		if (todo.slab == UINT32_MAX)
			mark_memory(model, model->larges[todo.chunk].at,
			    model->larges[todo.chunk].bytes);
		else
			mark_memory(model, slab_chunk_at(model, s, todo.chunk),
			    model->caches[s->cache].chunk);
	}
}

static void
mark_round(struct model *model, struct cache *cache, uint64_t object)
{
	(void)cache;
	mark(model, object);
}

/* Function and argument of a thread that has not begun. */
static void
mark_beginning(struct model *model, uint64_t at)
{
	const uint64_t *words = target_at(model->target, at, 16);
	const struct mapping *m =
	    words ? target_mapping(model->target, words[0]) : NULL;

	if (m != NULL && m->execute)
		mark(model, words[1]);
}

/* Memory of the library's that a thread inside it holds. */
static void
mark_in_flight(struct model *model, uint64_t at)
{
	uint64_t next;
	unsigned capacity;

	if (at % 16 != 0 || !roots_is_meta(model, at))
		return;
	mark_beginning(model, at);
	for (unsigned i = 0;
	     i < CHAIN_MOST && at != 0 && model_is_in_flight(model, at) &&
	     model_is_magazine(model, at, &capacity, &next);
	     i++, at = next)
		model_rounds(model, at, capacity, mark_round, NULL);
}

static void
mark_root(struct model *model, const uint64_t *words, size_t n, uint64_t at,
    enum root_kind kind)
{
	(void)at;
	mark_words(model, words, n);
	for (size_t i = 0; kind == ROOT_INSIDE && i < n; i++)
		mark_in_flight(model, words[i]);
	drain(model);
}

static bool
is_judged(const struct cache *c)
{
	return (c->flags & UMC_QCACHE) == 0;
}

static void
prepare(struct model *model)
{
	memset(&walk, 0, sizeof(walk));
	for (size_t i = 0; i < model->nslabs; i++) {
		struct slab *s = &model->slabs[i];

		s->marked = xalloc(((size_t)s->nchunks + 63) / 64 * 8);
	}
	for (size_t i = 0; i < model->ncaches; i++)
		walk.nobjects += model->caches[i].nlive;
	walk.nobjects += model->nlarges;
}

/* A group of leaks with the same cause, or what we know of it. */
struct leak {
	const struct cache *cache; /* NULL: large blocks */
	uint64_t n;
	uint64_t bytes;
	uint64_t least, most; /* bytes of a large block */
	uint64_t first;       /* the lowest address */
	uint64_t segment;     /* large: its tag in the heap's arena */
};

static struct leak *found;
static size_t nfound, found_room;

static struct leak *
leak_of(const struct cache *cache, uint64_t bytes)
{
	for (size_t i = nfound; i-- > 0;)
		if (found[i].cache == cache &&
		    (cache != NULL || found[i].least == bytes))
			return &found[i];
	ARRAY_ROOM(found, nfound, found_room);
	found[nfound] = (struct leak){
	    .cache = cache, .least = bytes, .most = bytes, .first = UINT64_MAX};
	return &found[nfound++];
}

static void
leak_add(const struct cache *cache, uint64_t at, uint64_t bytes)
{
	struct leak *leak = leak_of(cache, cache ? 0 : bytes);

	leak->n++;
	leak->bytes += bytes;
	if (at < leak->first)
		leak->first = at;
}

static void
each_leak(struct model *model,
    void (*f)(const struct cache *, uint64_t at, uint64_t bytes))
{
	for (size_t i = 0; i < model->nlarges; i++)
		if (!model->larges[i].marked)
			f(NULL, model->larges[i].at, model->larges[i].bytes);
	for (size_t i = 0; i < model->nslabs; i++) {
		const struct slab *s = &model->slabs[i];
		const struct cache *c = &model->caches[s->cache];

		if (!is_judged(c) ||
		    (c->source != 0 &&
			target_mapping(model->target, s->span) == NULL))
			continue;
		for (unsigned w = 0; w < (s->nchunks + 63) / 64; w++)
			for (uint64_t bits = s->live[w] & ~s->marked[w];
			     bits != 0; bits &= bits - 1)
				f(c,
				    slab_chunk_at(model, s,
					w * 64 +
					    (unsigned)__builtin_ctzll(bits)),
				    c->bufsize);
	}
}

static int
by_kind(const void *a, const void *b)
{
	const struct leak *x = a, *y = b;

	if ((x->cache == NULL) != (y->cache == NULL))
		return x->cache == NULL ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

static void
find_segments(struct model *model)
{
	struct arena *heap = model_arena(
	    model, layout_variable(model->layout, model->target, L_HEAP_ARENA));
	struct segment *segments;
	size_t n;

	if (heap == NULL || nfound == 0 || found[0].cache != NULL)
		return;
	segments = model_segments(model, heap, &n);
	for (size_t i = 0; i < nfound && found[i].cache == NULL; i++)
		for (size_t j = 0; j < n; j++)
			if (segments[j].start == found[i].first &&
			    segments[j].type == VMEM_ALLOC)
				found[i].segment = segments[j].at;
	free(segments);
}

static void
mark_all(struct model *model)
{
	prepare(model);
	for (size_t i = 0; i < model->nunsure; i++) {
		uint64_t next;
		unsigned capacity;

		if (model_is_magazine(
			model, model->unsure[i], &capacity, &next))
			model_rounds(model, model->unsure[i], capacity,
			    mark_round, NULL);
	}
	roots_each(model, mark_root);
	drain(model);
	nfound = 0;
	each_leak(model, leak_add);
	if (nfound != 0)
		qsort(found, nfound, sizeof(*found), by_kind);
	find_segments(model);
}

static void
print_line(void)
{
	puts("----------------------------------------------------------------"
	     "--------");
}

static void
print_total(bool large)
{
	uint64_t n = 0, bytes = 0;

	for (size_t i = 0; i < nfound; i++)
		if ((found[i].cache == NULL) == large) {
			n += found[i].n;
			bytes += found[i].bytes;
		}
	print_line();
	if (large)
		printf("%16s %7lu oversized leak%s, %lu bytes\n", "Total", n,
		    n == 1 ? "" : "s", bytes);
	else
		printf("%16s %7lu buffer%s, %lu bytes\n", "Total", n,
		    n == 1 ? "" : "s", bytes);
}

/* Returns whether there were any. */
static bool
print_large(void)
{
	bool any = nfound != 0 && found[0].cache == NULL;

	if (!any)
		return false;
	printf("%-16s %7s %16s %s\n", "BYTES", "LEAKED", "VMEM_SEG", "CALLER");
	for (size_t i = 0; i < nfound && found[i].cache == NULL; i++)
		printf("%-16lu %7lu %016lx %s\n", found[i].least, found[i].n,
		    found[i].segment, "?");
	print_total(true);
	return true;
}

static void
print_buffers(bool behind)
{
	if (nfound == 0 || found[nfound - 1].cache == NULL)
		return;
	if (behind)
		putchar('\n');
	printf("%-16s %7s %16s %s\n", "CACHE", "LEAKED", "BUFFER", "CALLER");
	for (size_t i = 0; i < nfound; i++)
		if (found[i].cache != NULL)
			printf("%016lx %7lu %016lx %s\n", found[i].cache->at,
			    found[i].n, found[i].first, "?");
	print_total(false);
}

static void
print_one(const struct cache *cache, uint64_t at, uint64_t bytes)
{
	if (leak_of(cache, cache ? 0 : bytes)->first == at)
		return;
	printf("%16s %016lx\n", "", at);
}

static const struct leak *detailed;

static void
print_if_detailed(const struct cache *cache, uint64_t at, uint64_t bytes)
{
	if (leak_of(cache, cache ? 0 : bytes) == detailed)
		print_one(cache, at, bytes);
}

static void
print_details(struct model *model)
{
	for (size_t i = 0; i < nfound; i++) {
		const struct leak *leak = &found[i];

		if (leak->cache == NULL)
			printf("\numem_oversize leak: %lu vmem_seg%s, %lu "
			       "bytes\n",
			    leak->n, leak->n == 1 ? "" : "s", leak->bytes);
		else
			printf("\n%s leak: %lu buffer%s, %lu bytes each, %lu "
			       "bytes total\n",
			    leak->cache->name, leak->n, leak->n == 1 ? "" : "s",
			    leak->cache->bufsize, leak->bytes);
		printf("%16s %016lx\n", "ADDR", leak->first);
		detailed = leak;
		each_leak(model, print_if_detailed);
	}
}

static void
print_figure(const char *name, uint64_t n, uint64_t of)
{
	printf("findleaks: %30s => %-11lu", name, n);
	if (of != 0)
		printf(" (%4.1f%%)", 100.0 * (double)n / (double)of);
	putchar('\n');
}

static void
print_figures(struct model *model, double wall)
{
	uint64_t nseen = walk.nmisses + walk.ndups + walk.nfollows;
	struct rusage usage;
	uint64_t nmost = model->nlarges;

	for (size_t i = 0; i < model->ncaches; i++)
		nmost += model->caches[i].ntotal;
	getrusage(RUSAGE_SELF, &usage);
	print_figure("maximum buffers", nmost, 0);
	print_figure("actual buffers", walk.nobjects, 0);
	print_figure("potential pointers", walk.nwords, 0);
	print_figure("dismissals", walk.nwords - nseen, walk.nwords);
	print_figure("misses", walk.nmisses, walk.nwords);
	print_figure("dups", walk.ndups, walk.nwords);
	print_figure("follows", walk.nfollows, walk.nwords);
	printf("findleaks: %30s => %lu kB\n", "peak memory usage",
	    usage.ru_maxrss);
	printf("findleaks: %30s => %.1f seconds\n", "elapsed CPU time",
	    (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
		(double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) /
		    1e6);
	printf("findleaks: %30s => %.1f seconds\n", "elapsed wall time", wall);
	if (model->target->live)
		printf("findleaks: %30s => %.1f milliseconds\n",
		    "process stood still for", 1000 * model->target->pause);
}

static void
json_one(const struct cache *cache, uint64_t at, uint64_t bytes)
{
	if (leak_of(cache, cache ? 0 : bytes) == detailed)
		json_address(NULL, at);
}

static void
print_json(struct model *model, bool details)
{
	uint64_t n = 0, bytes = 0;

	json_open(NULL, '{');
	json_open("leaks", '[');
	for (size_t i = 0; i < nfound; i++) {
		const struct leak *leak = &found[i];

		n += leak->n;
		bytes += leak->bytes;
		json_open(NULL, '{');
		json_text("kind", leak->cache ? "buffer" : "oversized");
		if (leak->cache != NULL) {
			json_text("cache", leak->cache->name);
			json_address("cache_address", leak->cache->at);
			json_number("size", leak->cache->bufsize);
		} else {
			json_address("vmem_seg", leak->segment);
			json_number("size", leak->least);
		}
		json_number("leaked", leak->n);
		json_number("bytes", leak->bytes);
		json_address("buffer", leak->first);
		if (details) {
			json_open("buffers", '[');
			detailed = leak;
			each_leak(model, json_one);
			json_close();
		}
		json_close();
	}
	json_close();
	json_number("leaked", n);
	json_number("bytes", bytes);
	json_close();
}

int
leaks_report(struct model *model, const struct leaks_options *options)
{
	double start = seconds_now();

	mark_all(model);
	if (json_wanted) {
		print_json(model, options->details);
	} else {
		if (options->figures)
			print_figures(model, seconds_now() - start);
		if (nfound == 0)
			puts("findleaks: no memory leaks detected");
		print_buffers(print_large());
		if (options->details)
			print_details(model);
	}
	return nfound == 0 ? EXIT_FINE : EXIT_FOUND;
}

int
command_leaks(int argc, char **argv)
{
	struct leaks_options options = {0};
	int letter;

	while ((letter = next_option(argc, argv, "dfv")) != -1)
		switch (letter) {
		case 'd':
			options.details = true;
			break;
		case 'v':
			options.figures = true;
			break;
		case 'J':
			json_wanted = true;
			break;
		default: /* -f: nothing is ever cached */
			break;
		}
	if (argc - optind != 1)
		fail_usage(argv[0]);
	return leaks_report(model_of(argv[optind], true), &options);
}
