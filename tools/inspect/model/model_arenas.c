/* model_arenas.c - arenas and their segments */
#include <stdlib.h>

#include "tools/inspect/model/model_inner.h"

static void
take_arena(struct model *model, uint64_t at)
{
	const char *r = model_record(model, at, L_ARENA_BYTES);

	if (r == NULL)
		return;
	ARRAY_ADD(model->arenas, model->narenas, model->arenas_capacity,
	    (struct arena){.at = at,
		.record = r,
		.source = model_get(model, r, L_ARENA_SOURCE),
		.name = plain_text(
		    r + layout_value(model->layout, L_ARENA_NAME), 31)});
}

/*
 * Above the number of arenas of any program.  To sort them takes time by the
 * square of their number.
 */
#define ARENAS_MAX 20000

/*
 * Adds the arenas among n that import from source, each before its own
 * importers.  In a damaged target, an arena may be its own source.
 */
static void
add_importers(struct model *model, const struct arena *arenas, size_t n,
    uint64_t source, unsigned depth)
{
	for (size_t i = 0; i < n && model->narenas < n; i++) {
		if (arenas[i].source != source)
			continue;
		model->arenas[model->narenas] = arenas[i];
		model->arenas[model->narenas++].depth = depth;
		add_importers(model, arenas, n, arenas[i].at, depth + 1);
	}
}

void
model_take_arenas(struct model *model)
{
	uint64_t head = layout_value(model->layout, L_ARENA_LIST);
	uint64_t link = model_list_first(model, head);
	struct cycle_detector cycles = {0};
	struct arena *arenas;
	size_t n;

	while (link != head && cycle_continues(&cycles, link) &&
	       model->narenas < ARENAS_MAX) {
		take_arena(
		    model, link - layout_value(model->layout, L_ARENA_LINK));
		link = model_list_first(model, link);
	}
	/* Each arena comes after its source and the source's importers. */
	arenas = model->arenas;
	n = model->narenas;
	model->arenas = xalloc((n + 1) * sizeof(*arenas));
	model->narenas = 0;
	add_importers(model, arenas, n, 0, 0);
	free(arenas);
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
		ARRAY_ADD(segments, *n, capacity,
		    (struct segment){.at = at,
			.start = model_get(model, r, L_SEGMENT_START),
			.size = model_get(model, r, L_SEGMENT_SIZE),
			.type = (unsigned)model_get(model, r, L_SEGMENT_TYPE)});
		at = model_get(model, r, L_SEGMENT_ANEXT);
	}
	return segments;
}
