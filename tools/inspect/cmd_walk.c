/*
 * cmd_walk.c - umem walk and segments: one address on each line, for pipes
 *
 * Walks have the names of libumem's mdb module; the name of a cache walks its
 * allocated buffers.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/inspect/audit.h"
#include "tools/inspect/leaks.h"
#include "tools/inspect/print.h"
#include "tools/inspect/snapshot.h"
#include "vmem/vmem.h"

static void
print_item(uint64_t at)
{
	if (json_wanted)
		json_address(NULL, at);
	else
		printf("%lx\n", at);
}

/* Prints the allocated (live) or free chunks of one or all (NULL) caches. */
static void
walk_chunks(struct model *model, const struct cache *only, bool live)
{
	assert(only == NULL || (only >= model->caches &&
				   only < model->caches + model->ncaches));
	for (size_t i = 0; i < model->nslabs; i++) {
		const struct slab *s = &model->slabs[i];

		if (only != NULL && &model->caches[s->cache] != only)
			continue;
		for (unsigned j = 0; j < s->nchunks; j++)
			if (bit_get(s->live, j) == live)
				print_item(slab_chunk_at(model, s, j));
	}
	for (size_t i = 0; i < model->nlarges && only == NULL; i++)
		if (model->larges[i].waits != live)
			print_item(model->larges[i].at);
}

static void
walk_umem(struct model *model, const struct cache *only)
{
	walk_chunks(model, only, true);
}

static void
walk_freemem(struct model *model, const struct cache *only)
{
	walk_chunks(model, only, false);
}

static void
walk_caches(struct model *model, const struct cache *only)
{
	for (size_t i = 0; i < model->ncaches; i++)
		if (only == NULL || only == &model->caches[i])
			print_item(model->caches[i].at);
}

static void
walk_slabs(struct model *model, const struct cache *only)
{
	for (size_t i = 0; i < model->nslabs; i++)
		if (only == NULL ||
		    only == &model->caches[model->slabs[i].cache])
			print_item(model->slabs[i].at);
}

static void
walk_partial(struct model *model, const struct cache *only)
{
	for (size_t i = 0; i < model->nslabs; i++) {
		const struct slab *s = &model->slabs[i];
		unsigned n = bits_count(s->free, s->nchunks);

		if ((only == NULL || only == &model->caches[s->cache]) &&
		    n != 0 && n != s->nchunks)
			print_item(s->at);
	}
}

static bool wanted_live;

static void
print_record(struct model *model, const struct audit *audit, void *arg)
{
	const struct cache *only = arg;

	if (only != NULL && only->at != audit->cache)
		return;
	if ((audit->state == layout_value(model->layout, L_BUFCTL_ALLOCATED)) ==
	    wanted_live)
		print_item(audit->at);
}

static void
walk_bufctl(struct model *model, const struct cache *only)
{
	wanted_live = true;
	audit_each(model, print_record, (void *)(uintptr_t)only);
}

static void
walk_freectl(struct model *model, const struct cache *only)
{
	wanted_live = false;
	audit_each(model, print_record, (void *)(uintptr_t)only);
}

static void
print_entry(struct model *model, const struct audit *audit, void *arg)
{
	(void)model;
	(void)arg;
	print_item(audit->at);
}

static void
walk_log(struct model *model, const struct cache *only)
{
	(void)only;
	audit_each_logged(model, L_LOG_TRANSACTION, print_entry, NULL);
}

static void
walk_arenas(struct model *model, const struct cache *only)
{
	(void)only;
	for (size_t i = 0; i < model->narenas; i++)
		print_item(model->arenas[i].at);
}

static void
walk_segments(struct model *model, unsigned types)
{
	for (size_t i = 0; i < model->narenas; i++) {
		size_t n;
		struct segment *s =
		    model_segments(model, &model->arenas[i], &n);

		for (size_t j = 0; j < n; j++)
			if (s[j].type & types)
				print_item(s[j].at);
		free(s);
	}
}

static void
walk_seg(struct model *model, const struct cache *only)
{
	(void)only;
	walk_segments(model, ~0u);
}

static void
walk_alloc(struct model *model, const struct cache *only)
{
	(void)only;
	walk_segments(model, VMEM_ALLOC);
}

static void
walk_free(struct model *model, const struct cache *only)
{
	(void)only;
	walk_segments(model, VMEM_FREE);
}

static void
walk_span(struct model *model, const struct cache *only)
{
	(void)only;
	walk_segments(model, VMEM_SPAN);
}

static const struct cache *leaks_of; /* NULL: of all */

static void
print_leak(
    struct model *model, struct slab *slab, struct large *large, unsigned i)
{
	assert((slab != NULL) != (large != NULL));
	if (leaks_of != NULL &&
	    (slab == NULL || &model->caches[slab->cache] != leaks_of))
		return;
	print_item(slab ? slab_chunk_at(model, slab, i) : large->at);
}

static void
walk_leaks(struct model *model, const struct cache *only)
{
	leaks_of = only;
	leaks_mark(model);
	target_end_copy(model->target);
	leaks_each(model, print_leak);
}

static const struct walk {
	const char *name;
	void (*run)(struct model *model, const struct cache *only);
	unsigned parts; /* MODEL_* */
} walks[] = {
    {"bufctl", walk_bufctl, 0},
    {"freectl", walk_freectl, 0},
    {"freemem", walk_freemem, 0},
    {"leak", walk_leaks, MODEL_POINTERS},
    {"leakbuf", walk_leaks, MODEL_POINTERS},
    {"umem", walk_umem, 0},
    {"umem_cache", walk_caches, 0},
    {"umem_log", walk_log, MODEL_LOGS},
    {"umem_slab", walk_slabs, 0},
    {"umem_slab_partial", walk_partial, 0},
    {"vmem", walk_arenas, 0},
    {"vmem_alloc", walk_alloc, 0},
    {"vmem_free", walk_free, 0},
    {"vmem_seg", walk_seg, 0},
    {"vmem_span", walk_span, 0},
};

static const struct walk *
find_walk(const char *name)
{
	for (size_t i = 0; i < array_size(walks); i++)
		if (strcmp(walks[i].name, name) == 0)
			return &walks[i];
	return NULL;
}

static const struct cache *
find_cache(struct model *model, const char *name)
{
	const struct cache *c = model_cache(model, name);

	if (c == NULL)
		fail_with(EXIT_ERROR, "walk: no walk and no cache %s", name);
	return c;
}

int
command_walk(int argc, char **argv)
{
	const struct cache *only = NULL;
	const struct walk *walk;
	struct model *model;

	no_option(argc, argv);
	expect_arguments(argc, argv, 2, 3);
	walk = find_walk(argv[optind + 1]);
	model = snapshot_open(argv[optind], walk == NULL ? 0 : walk->parts);
	if (walk == NULL)
		only = find_cache(model, argv[optind + 1]);
	else if (argc - optind == 3)
		only = find_cache(model, argv[optind + 2]);
	if (json_wanted)
		json_open(NULL, '[');
	if (walk == NULL)
		walk_umem(model, only);
	else
		walk->run(model, only);
	if (json_wanted)
		json_close();
	return EXIT_OK;
}

struct shown {
	uint64_t least, most;
	unsigned type; /* 0: all */
	bool sizes;
};

static const struct {
	unsigned type;
	const char *name;
	const char *word; /* for -T */
} types[] = {
    {VMEM_ALLOC, "ALLC", "ALLOC"},
    {VMEM_FREE, "FREE", "FREE"},
    {VMEM_SPAN, "SPAN", "SPAN"},
    {VMEM_ROTOR, "ROTR", "ROTOR"},
    {VMEM_WALKER, "WLKR", "WALKER"},
};

static const char *
type_name(unsigned type)
{
	for (size_t i = 0; i < array_size(types); i++)
		if (types[i].type == type)
			return types[i].name;
	return "?";
}

static unsigned
type_option(const char *word)
{
	for (size_t i = 0; i < array_size(types); i++)
		if (strcmp(types[i].word, word) == 0 ||
		    strcmp(types[i].name, word) == 0)
			return types[i].type;
	fail_with(EXIT_ERROR, "segments: no type %s", word);
}

/* Returns the owner of an allocated segment of the heap. */
static const char *
segment_user(struct model *model, const struct segment *s)
{
	struct place place;

	if (s->type != VMEM_ALLOC || !model_find(model, s->start, &place))
		return "";
	return place.slab ? model->caches[place.slab->cache].name
			  : "umem_oversize";
}

static void
print_segment(
    struct model *model, const struct segment *s, const struct shown *shown)
{
	if ((shown->type != 0 && shown->type != s->type) ||
	    s->size < shown->least || s->size > shown->most)
		return;
	if (json_wanted) {
		json_open(NULL, '{');
		json_address("segment", s->at);
		json_text("type", type_name(s->type));
		json_address("start", s->start);
		json_number("size", s->size);
		json_text("who", segment_user(model, s));
		json_close();
		return;
	}
	printf("%016lx %4s %016lx %016lx %s\n", s->at, type_name(s->type),
	    s->start, shown->sizes ? s->size : s->start + s->size,
	    segment_user(model, s));
}

static const struct arena *
find_arena(struct model *model, const char *name)
{
	const struct arena *a = NULL;
	uint64_t at;

	for (size_t i = 0; i < model->narenas && a == NULL; i++)
		if (strcmp(model->arenas[i].name, name) == 0)
			a = &model->arenas[i];
	if (a == NULL && parse_address(name, &at))
		a = model_arena(model, at);
	if (a == NULL)
		fail_with(EXIT_ERROR, "segments: no arena %s", name);
	return a;
}

static uint64_t
bytes_option(const char *text)
{
	return size_argument(text, "segments: ", "size");
}

int
command_segments(int argc, char **argv)
{
	struct shown shown = {.most = UINT64_MAX};
	struct segment *segments;
	struct model *model;
	size_t n;
	int letter;

	while ((letter = next_option(argc, argv, "m:M:sT:")) != -1)
		switch (letter) {
		case 'm':
			shown.least = bytes_option(optarg);
			break;
		case 'M':
			shown.most = bytes_option(optarg);
			break;
		case 's':
			shown.sizes = true;
			break;
		case 'T':
			shown.type = type_option(optarg);
			break;
		}
	expect_arguments(argc, argv, 2, 2);
	model = snapshot_open(argv[optind], 0);
	segments =
	    model_segments(model, find_arena(model, argv[optind + 1]), &n);
	if (json_wanted)
		json_open(NULL, '[');
	else
		printf("%-16s %4s %16s %16s %s\n", "ADDR", "TYPE", "START",
		    shown.sizes ? "SIZE" : "END", "WHO");
	for (size_t i = 0; i < n; i++)
		print_segment(model, &segments[i], &shown);
	if (json_wanted)
		json_close();
	free(segments);
	return EXIT_OK;
}
