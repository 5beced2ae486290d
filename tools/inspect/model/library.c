/*
 * library.c - the library's own memory
 *
 * It is copied to make the model, counted as the library's in the resident set,
 * and not searched for pointers: its structures point to every object that the
 * library knows, also to objects that the program cannot reach.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/model/library.h"
#include "tools/inspect/model/model_inner.h"
#include "tools/inspect/model/roots.h"

void
ranges_add(struct ranges *ranges, uint64_t start, uint64_t bytes)
{
	if (start == 0 || bytes == 0 || start + bytes < start)
		return;
	ARRAY_ADD(ranges->range, ranges->n, ranges->capacity,
	    (struct range){.start = start, .end = start + bytes});
}

void
ranges_sort(struct ranges *ranges)
{
	ARRAY_SORT(ranges->range, ranges->n, order_first_words);
}

static void
add_list(struct model *model, struct ranges *out, enum layout_entry list)
{
	uint64_t at = model_variable(model, list);
	struct cycle_detector cycles = {0};

	for (; cycle_continues(&cycles, at);
	     at = model_member(model, at, L_RANGE_NEXT))
		ranges_add(out, model_member(model, at, L_RANGE_AT),
		    model_member(model, at, L_RANGE_BYTES));
}

void
library_add_meta(struct model *model, struct ranges *out)
{
	add_list(model, out, L_META_POOLS);
	add_list(model, out, L_DEDICATED);
}

/* Adds the blocks of the CPUs, of which some have no memory yet. */
void
library_add_cpus(struct model *model, struct ranges *out)
{
	uint64_t bytes =
	    model_cpus_used(model) * layout_value(model->layout, L_CPU_BLOCK);
	uint64_t at = model_variable(model, L_REGIONS);
	struct cycle_detector cycles = {0};

	for (; cycle_continues(&cycles, at);
	     at = model_member(model, at, L_REGION_NEXT))
		ranges_add(
		    out, model_member(model, at, L_REGION_BLOCKS), bytes);
}

void
library_add_logs(struct model *model, struct ranges *out)
{
	const struct layout *l = model->layout;
	uint64_t at = layout_value(l, L_LOGS);
	uint64_t end = at + l->known[L_LOGS].bytes;

	for (; at < end; at += layout_value(l, L_LOG_BYTES))
		ranges_add(out, model_member(model, at, L_LOG_BASE),
		    model_member(model, at, L_LOG_SIZE));
}

void
library_add_heap(struct model *model, uint64_t end, struct ranges *out)
{
	const struct layout *l = model->layout;
	uint64_t base =
	    model_member(model, layout_value(l, L_HEAP_WINDOW), L_WINDOW_BASE);
	uint64_t bytes = end > base ? end - base : 0;
	uint64_t units = bytes / layout_value(l, L_HEAP_UNIT);

	ranges_add(out, base, bytes);
	ranges_add(out, model_variable(model, L_STATES), units);
	ranges_add(out, model_map_table(model, L_MAP_ENTRY), units * 8);
	ranges_add(out, model_map_table(model, L_MAP_OWNER), units * 8);
}

/* Adds the library's data and bss, unless they are the program's, too. */
static void
add_object(struct model *model, struct ranges *out)
{
	uint64_t end = layout_value(model->layout, L_IMAGE_END);
	uint64_t start = UINT64_MAX;

	if (model->layout->in_program)
		return;
	for (size_t i = 0; i < model->target->nmaps; i++) {
		const struct mapping *m = &model->target->maps[i];

		if (strcmp(m->name, model->layout->object) != 0 || !m->file)
			continue;
		ranges_add(out, m->start, m->end - m->start);
		if (m->start < start)
			start = m->start;
	}
	if (start < end)
		ranges_add(out, start, end - start);
}

/* The logs contain copies of freed buffers, which do not count as pointers. */
struct ranges
library_ranges(struct model *model)
{
	const struct layout *l = model->layout;
	uint64_t units =
	    model_member(model, layout_value(l, L_HEAP_WINDOW), L_WINDOW_UNITS);
	struct ranges out = {0};

	library_add_heap(
	    model, model->base + units * layout_value(l, L_HEAP_UNIT), &out);
	library_add_meta(model, &out);
	library_add_cpus(model, &out);
	library_add_logs(model, &out);
	add_object(model, &out);
	ranges_sort(&out);
	return out;
}

bool
roots_is_meta(struct model *model, uint64_t at)
{
	static struct ranges meta;
	static const struct model *of;

	if (of != model) {
		free(meta.range);
		meta = (struct ranges){0};
		library_add_meta(model, &meta);
		ranges_sort(&meta);
		of = model;
	}
	return meta.n != 0 && bsearch(&at, meta.range, meta.n,
				  sizeof(*meta.range), order_range) != NULL;
}
