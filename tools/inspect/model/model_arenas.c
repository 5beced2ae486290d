/* model_arenas.c - arenas and their segments */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/model/model_inner.h"

static unsigned
arena_depth(struct model *model, uint64_t source)
{
	for (size_t i = 0; i < model->narenas; i++)
		if (model->arenas[i].at == source)
			return model->arenas[i].depth + 1;
	return 0;
}

static void
take_arena(struct model *model, uint64_t at)
{
	const char *r = model_record(model, at, L_ARENA_BYTES);
	struct arena *a;

	if (r == NULL)
		return;
	ARRAY_GROW(model->arenas, model->narenas, model->arenas_capacity);
	a = &model->arenas[model->narenas];
	*a = (struct arena){.at = at,
	    .record = r,
	    .source = model_get(model, r, L_ARENA_SOURCE),
	    .quantum = model_get(model, r, L_ARENA_QUANTUM)};
	a->depth = arena_depth(model, a->source);
	assert(a->depth <= model->narenas);
	a->name = plain_text(r + layout_value(model->layout, L_ARENA_NAME), 31);
	model->narenas++;
}

/*
 * Above the number of arenas of any program.  To sort them takes time by the
 * square of their number.
 */
#define ARENAS_MAX 20000

/* Sorts each arena after its source and the source's earlier importers. */
static void
sort_arenas(struct model *model)
{
	struct arena *sorted = xalloc((model->narenas + 1) * sizeof(*sorted));
	size_t n = 0;

	for (size_t i = 0; i < model->narenas; i++) {
		const struct arena *a = &model->arenas[i];
		size_t at = n;

		for (size_t j = 0; j < n && a->depth > 0; j++)
			if (sorted[j].at == a->source) {
				at = j + 1;
				while (at < n && sorted[at].depth >= a->depth)
					at++;
			}
		assert(at <= n);
		memmove(
		    sorted + at + 1, sorted + at, (n - at) * sizeof(*sorted));
		sorted[at] = *a;
		n++;
	}
	assert(n == model->narenas);
	free(model->arenas);
	model->arenas = sorted;
}

void
model_take_arenas(struct model *model)
{
	uint64_t head = layout_value(model->layout, L_ARENA_LIST);
	uint64_t link = model_list_first(model, head);
	struct cycle_detector cycles = {0};

	while (link != head && cycle_continues(&cycles, link) &&
	       model->narenas < ARENAS_MAX) {
		take_arena(
		    model, link - layout_value(model->layout, L_ARENA_LINK));
		link = model_list_first(model, link);
	}
	sort_arenas(model);
}

struct arena *
model_arena(struct model *model, uint64_t at)
{
	for (size_t i = 0; i < model->narenas; i++)
		if (model->arenas[i].at == at)
			return &model->arenas[i];
	return NULL;
}

struct segment *
model_segments(struct model *model, const struct arena *arena, size_t *n)
{
	uint64_t head = arena->at + layout_value(model->layout, L_ARENA_HEAD);
	uint64_t at = model_word(
	    model, head + layout_value(model->layout, L_SEGMENT_ANEXT));
	struct segment *segments = NULL;
	struct cycle_detector cycles = {0};
	size_t capacity = 0;

	assert(
	    arena >= model->arenas && arena < model->arenas + model->narenas);
	*n = 0;
	while (at != head && cycle_continues(&cycles, at)) {
		const char *r = model_record(model, at, L_SEGMENT_BYTES);

		if (r == NULL)
			break;
		ARRAY_GROW(segments, *n, capacity);
		segments[(*n)++] = (struct segment){.at = at,
		    .start = model_get(model, r, L_SEGMENT_START),
		    .size = model_get(model, r, L_SEGMENT_SIZE),
		    .type = (unsigned)model_get(model, r, L_SEGMENT_TYPE)};
		at = model_get(model, r, L_SEGMENT_ANEXT);
	}
	return segments;
}
