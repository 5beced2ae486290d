/* usage_text.c - the figures of usage.h as text and as JSON */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/model/usage.h"

/* The layers of the identity but for untouched, in the order of the text. */
static const struct layer {
	const char *key; /* in JSON */
	const char *name;
	size_t offset; /* of the member of struct usage */
	bool of_pages; /* known with pages only */
} layers[] = {{"live_bytes", "in use", offsetof(struct usage, in_use), false},
    {"cpu_bytes", "cached by CPUs", offsetof(struct usage, cpus), false},
    {"depot_bytes", "cached in depots", offsetof(struct usage, depots), false},
    {"slab_bytes", "cached in slabs", offsetof(struct usage, slabs), false},
    {"waiting_bytes", "waiting", offsetof(struct usage, waiting), false},
    {"dirty_bytes", "free dirty", offsetof(struct usage, dirty), false},
    {"sampled_bytes", "samples", offsetof(struct usage, samples), false},
    {"own_bytes", "library", offsetof(struct usage, own), false},
    {"surplus_bytes", "surplus", offsetof(struct usage, surplus), true},
    {"not_ours_bytes", "not ours", offsetof(struct usage, others), true}};

static uint64_t
bytes_in(const struct usage *u, size_t i)
{
	return *(const uint64_t *)((const char *)u + layers[i].offset);
}

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
	for (size_t i = 0; i < array_size(layers); i++) {
		size_t member = layers[i].offset;

		if (member > offsetof(struct usage, slabs) &&
		    (bytes_in(u, i) != 0 || !is_rare(member)))
			term_add(file, width, &column, '+', layers[i].name,
			    size_text(bytes_in(u, i)));
	}
	if (u->untouched != 0)
		term_add(file, width, &column, '-', "untouched",
		    size_text(u->untouched));
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
	for (size_t i = 0; i < array_size(layers); i++)
		if (u->has_pages || !layers[i].of_pages)
			json_number(layers[i].key, bytes_in(u, i));
	json_number("large_bytes", u->large);
	json_number("arena_bytes", u->arenas);
	if (u->has_pages) {
		json_number("rss_bytes", u->rss);
		json_number("untouched_bytes", u->untouched);
	}
	ranges_json(u);
	json_close();
}
