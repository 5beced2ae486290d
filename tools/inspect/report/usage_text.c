/* usage_text.c - the figures of usage.h as text and as JSON */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/model/usage.h"

/* While the layer is empty, the text lacks it; it is known with pages only. */
#define RARE     1u
#define OF_PAGES 2u

/* The layers of the identity but for untouched, in the order of the text. */
#define USAGE(member) offsetof(struct usage, member)
static const struct layer {
	const char *key;  /* in JSON */
	const char *name; /* of a term of the text; or NULL */
	size_t offset;    /* of the member of struct usage */
	unsigned is;
} layers[] = {{"live_bytes", NULL, USAGE(s.live_bytes), 0},
    {"cpu_bytes", NULL, USAGE(s.cpu_bytes), 0},
    {"depot_bytes", NULL, USAGE(s.depot_bytes), 0},
    {"slab_bytes", NULL, USAGE(s.slab_bytes), 0},
    {"waiting_bytes", "waiting", USAGE(s.waiting_bytes), RARE},
    {"dirty_bytes", "free dirty", USAGE(s.dirty_bytes), 0},
    {"sampled_bytes", "samples", USAGE(s.sampled_bytes), 0},
    {"own_bytes", "library", USAGE(s.own_bytes), 0},
    {"surplus_bytes", "surplus", USAGE(surplus), RARE | OF_PAGES},
    {"not_ours_bytes", "not ours", USAGE(others), RARE | OF_PAGES}};
#undef USAGE

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

char *
usage_text(const struct usage *u, size_t width)
{
	char *text = NULL;
	size_t bytes, column;
	FILE *file = xchecked(open_memstream(&text, &bytes));
	char cached[96];

	column = (size_t)fprintf(file, "%s %s = in use %s",
	    u->has_pages ? "RSS" : "Memory",
	    size_text(u->has_pages ? u->rss : usage_sum(u)),
	    size_text(u->s.live_bytes));
	snprintf(cached, sizeof(cached), "%s (CPUs %s, depots %s, slabs %s)",
	    size_text(usage_cached(u)), size_text(u->s.cpu_bytes),
	    size_text(u->s.depot_bytes), size_text(u->s.slab_bytes));
	term_add(file, width, &column, '+', "cached", cached);
	for (size_t i = 0; i < array_size(layers); i++)
		if (layers[i].name != NULL &&
		    (bytes_in(u, i) != 0 || (layers[i].is & RARE) == 0))
			term_add(file, width, &column, '+', layers[i].name,
			    size_text(bytes_in(u, i)));
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
	for (size_t i = 0; i < u->ranges.n; i++) {
		const struct range *r = &u->ranges.range[i];

		json_open(NULL, '{');
		json_address("address", r->start);
		json_number("bytes", r->end - r->start);
		json_close();
	}
	json_close();
}

void
usage_json(const struct usage *u)
{
	json_open("memory", '{');
	json_number("mapped_bytes", u->s.mapped_bytes);
	json_number("heap_bytes", u->s.heap_bytes);
	json_number("cached_bytes", usage_cached(u));
	for (size_t i = 0; i < array_size(layers); i++)
		if (u->has_pages || (layers[i].is & OF_PAGES) == 0)
			json_number(layers[i].key, bytes_in(u, i));
	json_number("large_bytes", u->s.large_bytes);
	json_number("arena_bytes", u->s.arena_bytes);
	if (u->has_pages) {
		json_number("rss_bytes", u->rss);
		json_number("untouched_bytes", u->untouched);
	}
	ranges_json(u);
	json_close();
}
