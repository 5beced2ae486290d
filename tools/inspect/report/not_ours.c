/*
 * not_ours.c - the memory of a process that is not the library's, by mappings
 *
 * The kernel counts the pages of each mapping in /proc/PID/smaps.  Pages of the
 * library are taken out of the mapping that has them, because the kernel joins
 * neighbouring mappings.
 */
#include <stdlib.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/report/not_ours.h"

/* The largest parts that the text has. */
#define PARTS_SHOWN 3

/* The kinds of mappings, and their names in JSON and in the text. */
enum kind {
	FILES,
	STACKS,
	NAMED,
	OTHERS
};
static const char *const kinds[] = {"files", "stacks", "named", "others"};

/* Mappings of one name. */
struct part {
	const char *name;
	uint64_t bytes;
};

static struct {
	struct target *target;
	const struct usage *usage;
	struct mapping mapping; /* of the lines that are read */
	uint64_t bytes[array_size(kinds)];
	void *tree;
	struct part **part; /* the largest first */
	size_t n, capacity;
} all;

static enum kind
kind_of(const struct mapping *m, const char **name)
{
	int tid = target_stack_of(all.target, m);

	*name = m->name;
	if (m->name[0] == '/') {
		*name = base_name(m->name);
		return FILES;
	}
	if (tid != 0 || text_begins(m->name, "[stack")) {
		*name = xprint("stack of %d", tid != 0 ? tid : all.target->pid);
		return STACKS;
	}
	if (text_begins(m->name, "[anon"))
		return NAMED;
	if (m->name[0] == '\0')
		*name = xprint("at %lx", m->start);
	return OTHERS;
}

static int
order_by_bytes(const void *a, const void *b)
{
	const struct part *x = *(struct part *const *)a;
	const struct part *y = *(struct part *const *)b;

	return order_rows(
	    (double)x->bytes, (double)y->bytes, strcmp(x->name, y->name));
}

/* Adds a mapping with so many bytes of memory, less those of the library. */
static void
mapping_add(const struct mapping *m, uint64_t bytes)
{
	const struct ranges *ranges = &all.usage->ranges;
	struct part key = {.bytes = 0}, *part;
	uint64_t ours = 0;
	bool is_new;

	for (size_t i = 0; i < ranges->n; i++) {
		struct range r = ranges->range[i];

		if (r.start < m->start)
			r.start = m->start;
		if (r.end > m->end)
			r.end = m->end;
		if (r.start < r.end)
			usage_pages(all.target, r, &ours);
	}
	bytes = usage_less(bytes, ours);
	if (bytes == 0)
		return;
	all.bytes[kind_of(m, &key.name)] += bytes;
	part =
	    tree_item(&all.tree, &key, sizeof(key), order_first_texts, &is_new);
	part->bytes += bytes;
	if (is_new)
		ARRAY_ADD(all.part, all.n, all.capacity, part);
}

static void
take_line(char *line, void *arg)
{
	struct mapping m;

	(void)arg;
	if (text_begins(line, "Rss:"))
		mapping_add(&all.mapping, KIB * strtoull(line + 4, NULL, 10));
	else if (live_parse_mapping(line, &m))
		all.mapping = m;
}

const char *
not_ours_text(struct target *target, const struct usage *usage)
{
	const char *text = "";

	all.target = target;
	all.usage = usage;
	text_each_line(proc_path(target->reader, "smaps"), take_line, NULL);
	ARRAY_SORT(all.part, all.n, order_by_bytes);
	json_open("not_ours", '{');
	for (size_t i = 0; i < array_size(kinds); i++) {
		json_number(kinds[i], all.bytes[i]);
		if (all.bytes[i] != 0)
			text = xprint("%s%s%s %s", text, *text ? ", " : "",
			    kinds[i], size_text(all.bytes[i]));
	}
	json_open("largest", '[');
	for (size_t i = 0; i < all.n; i++) {
		json_open(NULL, '{');
		json_text("name", all.part[i]->name);
		json_number("bytes", all.part[i]->bytes);
		json_close();
		if (i < PARTS_SHOWN)
			text = xprint("%s%s%s %s", text,
			    i == 0 ? "; largest: " : ", ",
			    size_text(all.part[i]->bytes), all.part[i]->name);
	}
	json_close();
	json_close();
	return text;
}
