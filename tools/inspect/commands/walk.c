/*
 * walk.c - umem walk: addresses of blocks and objects, one on each line,
 * for pipes
 */
#include <string.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "tools/inspect/model/snapshot.h"
#include "tools/inspect/sites/leaks.h"

static void
print_item(uint64_t at)
{
	json_address(NULL, at);
	plain_print("%lx\n", at);
}

static const struct cache *only; /* its blocks are wanted; NULL: all */

/* Prints the allocated (live) or free chunks. */
static void
walk_chunks(struct model *model, bool live)
{
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
print_leak(
    struct model *model, struct slab *slab, struct large *large, unsigned i)
{
	assert((slab != NULL) != (large != NULL));
	if (only == NULL ||
	    (slab != NULL && &model->caches[slab->cache] == only))
		print_item(slab ? slab_chunk_at(model, slab, i) : large->at);
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
	char **arguments = options_take(argc, argv, NULL, 0, 2, 3);
	const char *what = arguments[1];
	bool leaks = strcmp(what, "leak") == 0,
	     live = strcmp(what, "free") != 0;
	const char *name = arguments[2];
	struct model *model;

	if (live && !leaks && strcmp(what, "allocated") != 0) {
		if (name != NULL)
			fail_usage(argv[0],
			    xprint("%s is not allocated, free or leak", what));
		name = what;
	}
	model = snapshot_open(arguments[0], leaks ? MODEL_POINTERS : 0);
	if (name != NULL)
		only = find_cache(model, name);
	json_open(NULL, '[');
	if (leaks) {
		leaks_mark(model);
		target_end_copy(model->target);
		leaks_each(model, print_leak);
	} else {
		walk_chunks(model, live);
	}
	json_close();
	return EXIT_OK;
}
