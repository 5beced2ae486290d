/*
 * roots_library.c - the library's own memory, which is not searched for
 * pointers
 *
 * Its structures point to every object that the library knows, also to objects
 * that the program cannot reach.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/model/roots_inner.h"

void
ranges_add(struct ranges *ranges, uint64_t start, uint64_t bytes)
{
	if (bytes == 0 || start + bytes < start)
		return;
	ARRAY_GROW(ranges->range, ranges->n, ranges->capacity);
	ranges->range[ranges->n++] =
	    (struct range){.start = start, .end = start + bytes};
}

void
ranges_sort(struct ranges *ranges)
{
	if (ranges->n != 0)
		qsort(ranges->range, ranges->n, sizeof(*ranges->range),
		    order_first_words);
}

uint64_t
roots_number_at(struct model *model, uint64_t at)
{
	uint64_t value = 0;

	target_peek(model->target, at, &value, sizeof(value));
	return value;
}

static void
add_meta_list(struct model *model, struct ranges *out, enum layout_entry list)
{
	const struct layout *l = model->layout;
	uint64_t at = layout_variable(l, model->target, list);
	struct cycle_detector cycles = {0};
	const char *record;

	while (cycle_continues(&cycles, at) &&
	       (record = target_at(model->target, at,
		    layout_value(l, L_META_RANGE_BYTES))) != NULL) {
		ranges_add(out, layout_get(l, record, L_RANGE_AT),
		    layout_get(l, record, L_RANGE_BYTES));
		at = layout_get(l, record, L_RANGE_NEXT);
	}
}

static void
add_cpus(struct model *model, struct ranges *out)
{
	const struct layout *l = model->layout;
	uint64_t at = layout_variable(l, model->target, L_REGIONS);
	const char *layer = layout_at(l, model->target, L_CPU_LAYER);
	struct cycle_detector cycles = {0};
	const char *region;

	while (layer != NULL && cycle_continues(&cycles, at) &&
	       (region = target_at(model->target, at,
		    layout_value(l, L_REGION_BYTES))) != NULL) {
		ranges_add(out, layout_get(l, region, L_REGION_BLOCKS),
		    layout_get(l, layer, L_LAYER_NSLOTS) *
			layout_value(l, L_CPU_BLOCK));
		at = layout_get(l, region, L_REGION_NEXT);
	}
}

/* The logs contain copies of freed buffers, which do not count as pointers. */
static void
add_logs(struct model *model, struct ranges *out)
{
	const struct layout *l = model->layout;
	uint64_t at = layout_value(l, L_LOGS);
	uint64_t end = at + l->known[L_LOGS].bytes;

	for (; at < end; at += layout_value(l, L_LOG_BYTES)) {
		char log[256];
		uint64_t base;

		if (layout_value(l, L_LOG_BYTES) > sizeof(log) ||
		    !target_peek(
			model->target, at, log, layout_value(l, L_LOG_BYTES)) ||
		    layout_get(l, log, L_LOG_BASE) == 0)
			continue;
		base = layout_get(l, log, L_LOG_BASE);
		ranges_add(out, base, base + layout_get(l, log, L_LOG_SIZE));
	}
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

/* Returns all memory of the library itself, and the heap. */
struct ranges
roots_library_ranges(struct model *model)
{
	const struct layout *l = model->layout;
	uint64_t window = layout_value(l, L_HEAP_WINDOW);
	uint64_t units =
	    roots_number_at(model, window + layout_value(l, L_WINDOW_UNITS));
	uint64_t map = layout_value(l, L_PAGE_MAP);
	struct ranges out = {0};

	ranges_add(&out, model->base, units * layout_value(l, L_HEAP_UNIT));
	ranges_add(&out, layout_variable(l, model->target, L_STATES), units);
	ranges_add(&out,
	    roots_number_at(model, map + layout_value(l, L_MAP_ENTRY)),
	    units * 8);
	ranges_add(&out,
	    roots_number_at(model, map + layout_value(l, L_MAP_OWNER)),
	    units * 8);
	add_meta_list(model, &out, L_META_POOLS);
	add_meta_list(model, &out, L_DEDICATED);
	add_cpus(model, &out);
	add_logs(model, &out);
	add_object(model, &out);
	ranges_sort(&out);
	return out;
}

void
roots_copy_logs(struct model *model)
{
	struct ranges logs = {0};

	assert(target_is_still(model->target));
	add_logs(model, &logs);
	for (size_t i = 0; i < logs.n; i++)
		target_copy(model->target, logs.range[i].start,
		    logs.range[i].end - logs.range[i].start, true);
	target_copy_end(model->target);
	free(logs.range);
}

bool
roots_is_meta(struct model *model, uint64_t at)
{
	static struct ranges meta;
	static const struct model *of;
	size_t low = 0, high;

	if (of != model) {
		free(meta.range);
		meta = (struct ranges){0};
		add_meta_list(model, &meta, L_META_POOLS);
		add_meta_list(model, &meta, L_DEDICATED);
		ranges_sort(&meta);
		of = model;
	}
	high = meta.n;
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (at < meta.range[middle].start)
			high = middle;
		else if (at >= meta.range[middle].end)
			low = middle + 1;
		else
			return true;
	}
	return false;
}
