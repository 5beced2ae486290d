/* segments.c - the segments of an arena, for umem stat PID ARENA */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/stat.h"
#include "vmem/vmem.h"

static const struct {
	unsigned type;
	const char *name;
} types[] = {{VMEM_ALLOC, "allocated"}, {VMEM_FREE, "free"},
    {VMEM_SPAN, "span"}, {VMEM_ROTOR, "rotor"}, {VMEM_WALKER, "walker"}};

static const char *
type_name(unsigned type)
{
	for (size_t i = 0; i < array_size(types); i++)
		if (types[i].type == type)
			return types[i].name;
	return "?";
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
print_segment(struct model *model, const struct segment *s)
{
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
	printf("%16lx %16lx %14lu %-9s %s\n", s->start, s->start + s->size,
	    s->size, type_name(s->type), segment_user(model, s));
}

static const struct arena *
find_arena(struct model *model, const char *name)
{
	for (size_t i = 0; i < model->narenas; i++)
		if (strcmp(model->arenas[i].name, name) == 0)
			return &model->arenas[i];
	fail_with(EXIT_ERROR, "stat: no arena %s", name);
}

void
stat_segments(struct model *model, const char *arena)
{
	size_t n;
	struct segment *segments =
	    model_segments(model, find_arena(model, arena), &n);

	if (json_wanted)
		json_open(NULL, '[');
	else
		printf("%16s %16s %14s %-9s %s\n", "START", "END", "BYTES",
		    "TYPE", "USER");
	for (size_t i = 0; i < n; i++)
		print_segment(model, &segments[i]);
	if (json_wanted)
		json_close();
	free(segments);
}
