/* usage_text.c - the figures of usage.h as text and as JSON */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/print.h"
#include "tools/inspect/usage.h"

const struct usage_layer usage_layers[USAGE_LAYERS] = {
    {"live_bytes", "in use", "blocks and objects that the program holds",
	offsetof(struct usage, in_use), false},
    {"cpu_bytes", "cached by CPUs", "free blocks in the magazines of CPUs",
	offsetof(struct usage, cpus), false},
    {"depot_bytes", "cached in depots", "free blocks in full magazines",
	offsetof(struct usage, depots), false},
    {"slab_bytes", "cached in slabs", "free blocks in slabs",
	offsetof(struct usage, slabs), false},
    {"waiting_bytes", "waiting", "freed blocks that wait for a grace period",
	offsetof(struct usage, waiting), false},
    {"dirty_bytes", "free dirty", "free pages, not yet returned to the kernel",
	offsetof(struct usage, dirty), false},
    {"sampled_bytes", "samples", "pages of sampled blocks",
	offsetof(struct usage, samples), false},
    {"own_bytes", "library", "structures of the library itself",
	offsetof(struct usage, own), false},
    {"surplus_bytes", "surplus",
	"pages of the heap beyond these, by the kernel",
	offsetof(struct usage, surplus), true},
    {"not_ours_bytes", "not ours", "program files, stacks, other mappings",
	offsetof(struct usage, others), true}};

/* Appends a term; a new line begins if it does not fit. */
static void
term_add(FILE *file, size_t width, size_t *column, char sign, const char *name,
    const char *size)
{
	size_t bytes = 4 + strlen(name) + strlen(size);

	if (*column + bytes > width && *column > 7) {
		fputs("\n      ", file);
		*column = 6;
	}
	fprintf(file, " %c %s %s", sign, name, size);
	*column += bytes;
}

/* Is the layer left out of the text while it is empty? */
static bool
is_rare(size_t member)
{
	return member == offsetof(struct usage, waiting) ||
	       member == offsetof(struct usage, surplus) ||
	       member == offsetof(struct usage, others);
}

char *
usage_text(const struct usage *u, size_t width)
{
	char *text = NULL;
	size_t bytes, column;
	FILE *file = open_memstream(&text, &bytes);
	char cached[96];

	if (file == NULL)
		fail_with(EXIT_ERROR, "out of memory");
	column = (size_t)fprintf(file, "%s %s = in use %s",
	    u->has_pages ? "RSS" : "Memory",
	    size_text(u->has_pages ? u->rss : usage_sum(u)),
	    size_text(u->in_use));
	snprintf(cached, sizeof(cached), "%s (CPUs %s, depots %s, slabs %s)",
	    size_text(usage_cached(u)), size_text(u->cpus),
	    size_text(u->depots), size_text(u->slabs));
	term_add(file, width, &column, '+', "cached", cached);
	for (size_t i = 0; i < USAGE_LAYERS; i++) {
		size_t member = usage_layers[i].offset;

		if (member > offsetof(struct usage, slabs) &&
		    (usage_in(u, i) != 0 || !is_rare(member)))
			term_add(file, width, &column, '+',
			    usage_layers[i].name, size_text(usage_in(u, i)));
	}
	if (u->untouched != 0)
		term_add(file, width, &column, '-', "untouched",
		    size_text(u->untouched));
	if (u->has_rounding)
		fprintf(file,
		    "\nof %s in use, %s are rounding, estimated from "
		    "samples",
		    size_text(u->in_use),
		    bytes_text((double)u->rounding, /* estimated */ true));
	fclose(file);
	return text;
}

/* Prints the addresses of the library's memory. */
static void
ranges_json(const struct usage *u)
{
	json_open("ranges", '[');
	for (size_t i = 0; i < u->nranges; i++) {
		json_open(NULL, '{');
		json_address("address", u->ranges[i].at);
		json_number("bytes", u->ranges[i].bytes);
		json_close();
	}
	json_close();
}

void
usage_json(const struct usage *u)
{
	json_open("memory", '{');
	json_number("mapped_bytes", u->heap + u->own);
	json_number("heap_bytes", u->heap);
	json_number("cached_bytes", usage_cached(u));
	for (size_t i = 0; i < USAGE_LAYERS; i++)
		if (u->has_pages || !usage_layers[i].of_pages)
			json_number(usage_layers[i].key, usage_in(u, i));
	json_number("large_bytes", u->large);
	json_number("arena_bytes", u->arenas);
	if (u->has_rounding)
		json_number("rounding_estimate_bytes", u->rounding);
	if (u->has_pages) {
		json_number("rss_bytes", u->rss);
		json_number("untouched_bytes", u->untouched);
	}
	ranges_json(u);
	json_close();
}
