/*
 * usage_others.c - the resident memory that is not of the library, by mapping
 *
 * /proc/PID/smaps has the pages of each mapping in memory.  Pages of the
 * library's memory in a mapping do not count, because the program may have
 * other memory there.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/print.h"
#include "tools/inspect/usage.h"

/* The resident memory of mappings with one name. */
struct other {
	const char *name;
	uint64_t bytes;
};

struct others_reading {
	struct target *target;
	const struct usage *usage;
	struct usage_pages pages;
	struct usage_others *result;
	struct other *all;
	size_t n, capacity;
};

static bool
is_stack(const struct target *target, const struct mapping *m)
{
	if (strcmp(m->name, "[stack]") == 0)
		return true;
	for (size_t i = 0; i < target->nthreads; i++)
		if (target->threads[i].sp >= m->start &&
		    target->threads[i].sp < m->end)
			return true;
	return false;
}

/* Returns the bytes of the library's memory in a mapping. */
static uint64_t
bytes_of_library(const struct others_reading *r, const struct mapping *m)
{
	const struct usage *u = r->usage;
	uint64_t bytes = 0;

	for (size_t i = 0; i < u->nranges; i++) {
		uint64_t at = u->ranges[i].at, end = at + u->ranges[i].bytes;

		at = at > m->start ? at : m->start;
		end = end < m->end ? end : m->end;
		if (at < end)
			bytes += usage_pages_in(&r->pages, at, end - at);
	}
	return bytes;
}

static void
other_add(struct others_reading *r, const char *name, uint64_t bytes)
{
	size_t i = 0;

	while (i < r->n && strcmp(r->all[i].name, name) != 0)
		i++;
	if (i == r->n) {
		ARRAY_GROW(r->all, r->n, r->capacity);
		r->all[r->n++] = (struct other){.name = name};
	}
	r->all[i].bytes += bytes;
}

static void
mapping_add(struct others_reading *r, const struct mapping *m, uint64_t rss)
{
	uint64_t bytes = usage_less(rss, m->file ? 0 : bytes_of_library(r, m));
	bool stack = !m->file && is_stack(r->target, m);

	if (bytes == 0)
		return;
	if (m->file)
		r->result->files += bytes;
	else if (stack)
		r->result->stacks += bytes;
	else
		r->result->rest += bytes;
	other_add(r,
	    *m->name != '\0'
		? m->name
		: xprint("%s, at %lx", stack ? "stack" : "anonymous", m->start),
	    bytes);
}

static int
order_by_bytes(const void *a, const void *b)
{
	const struct other *x = a, *y = b;

	return order_numbers(y->bytes, x->bytes);
}

static void
mappings_read(struct others_reading *r, FILE *file)
{
	const struct mapping *m = NULL;
	char *line = NULL;
	size_t n = 0;

	while (getline(&line, &n, file) > 0) {
		unsigned long start, kib;

		if (sscanf(line, "%lx-%*x %*4s", &start) == 1 &&
		    strchr(line, '-') < strchr(line, ' '))
			m = target_mapping(r->target, start);
		else if (m != NULL && sscanf(line, "Rss: %lu kB", &kib) == 1)
			mapping_add(r, m, kib * KIB);
	}
	free(line);
}

bool
usage_others_read(
    struct target *target, const struct usage *usage, struct usage_others *to)
{
	struct others_reading r = {
	    .target = target, .usage = usage, .result = to};
	char path[64];
	FILE *file;

	*to = (struct usage_others){0};
	if (!usage->has_pages)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/smaps", target->reader);
	file = fopen(path, "re");
	if (file == NULL)
		return false;
	usage_pages_open(&r.pages, target);
	mappings_read(&r, file);
	usage_pages_close(&r.pages);
	fclose(file);
	if (r.n != 0)
		qsort(r.all, r.n, sizeof(*r.all), order_by_bytes);
	for (; to->n < r.n && to->n < OTHERS_NAMED; to->n++) {
		to->name[to->n] = r.all[to->n].name;
		to->bytes[to->n] = r.all[to->n].bytes;
	}
	free(r.all);
	return true;
}

void
usage_others_print(const struct usage_others *o)
{
	printf("\nNot ours: files %s, stacks %s, other mappings %s; the "
	       "largest:\n",
	    size_text(o->files), size_text(o->stacks), size_text(o->rest));
	for (size_t i = 0; i < o->n; i++)
		printf("%9s  %s\n", size_text(o->bytes[i]),
		    text_shortened(o->name[i], TEXT_WIDTH - 11));
}

void
usage_others_json(const struct usage_others *o)
{
	json_open("not_ours", '{');
	json_number("files_bytes", o->files);
	json_number("stacks_bytes", o->stacks);
	json_number("other_bytes", o->rest);
	json_open("largest", '[');
	for (size_t i = 0; i < o->n; i++) {
		json_open(NULL, '{');
		json_text("name", o->name[i]);
		json_number("bytes", o->bytes[i]);
		json_close();
	}
	json_close();
	json_close();
}
