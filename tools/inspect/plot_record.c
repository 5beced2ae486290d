/*
 * plot_record.c - a saved recording of umem plot
 *
 * A record is text; tabs separate the fields:
 *	umem plot 1			the version
 *	process	redis-server	1234
 *	start	1763870000.123		in s since 1970
 *	fields	seconds	rss_bytes	...
 *	look	0.000	9175040	...
 *	sampling	65536		bytes between samples; 0: off
 *	ended	TEXT			why the process was left; or no line
 *	no_leaks	TEXT		why no look at leaks follows; or no line
 *	site	4096	-200	2	NAME
 *	stack	4096	2	main	work	...
 *	end	600	12	40	looks, sites, stacks
 * A look at the leaks may follow, as umem leaks saves it (look.c).  A look has
 * the seconds since the start and bytes; a site has its bytes, their growth and
 * its blocks; a stack has its bytes and blocks.
 *
 * The looks are written when they are taken.  If the command is killed, a
 * record without the rest remains, of which the last line may be cut.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/fields.h"
#include "tools/inspect/plot.h"
#include "tools/inspect/print.h"

#define FIRST_LINE "umem plot 1\n"

/* Above any time; the C library knows the date of it. */
#define SECONDS_MOST 1e11

/* Fields of the lines "fields" and "look". */
#define LOOK_FIELDS (USAGE_LAYERS + 4)

void
plot_add(struct plot *plot, double time, const struct usage *usage)
{
	struct plot_look look = {.time = rint(time * 1e3) / 1e3,
	    .rss = usage->rss,
	    .untouched = usage->untouched};

	for (size_t i = 0; i < USAGE_LAYERS; i++)
		look.layer[i] = usage_in(usage, i);
	ARRAY_GROW(plot->looks, plot->nlooks, plot->looks_capacity);
	plot->looks[plot->nlooks++] = look;
}

static void
check_written(FILE *file, const char *path)
{
	if (fflush(file) != 0 || ferror(file))
		fail_with(EXIT_ERROR, "%s: %s", path, strerror(errno));
}

void
plot_write_head(const struct plot *plot, FILE *file, const char *path)
{
	fprintf(file, FIRST_LINE "process\t%s\t%s\nstart\t%.3f\n",
	    plot->program, plot->pid, plot->start);
	fputs("fields\tseconds\trss_bytes\tuntouched_bytes", file);
	for (size_t i = 0; i < USAGE_LAYERS; i++)
		fprintf(file, "\t%s", usage_layers[i].key);
	putc('\n', file);
	check_written(file, path);
}

void
plot_write_look(const struct plot *plot, FILE *file, const char *path)
{
	const struct plot_look *look = &plot->looks[plot->nlooks - 1];

	fprintf(file, "look\t%.3f\t%lu\t%lu", look->time, look->rss,
	    look->untouched);
	for (size_t i = 0; i < USAGE_LAYERS; i++)
		fprintf(file, "\t%lu", look->layer[i]);
	putc('\n', file);
	check_written(file, path);
}

void
plot_write_rest(const struct plot *plot, FILE *file, const char *path)
{
	fprintf(file, "sampling\t%.0f\n", plot->mean);
	if (plot->ended != NULL)
		fprintf(file, "ended\t%s\n", plot->ended);
	if (plot->no_leaks != NULL)
		fprintf(file, "no_leaks\t%s\n", plot->no_leaks);
	for (size_t i = 0; i < plot->nsites; i++) {
		const struct plot_site *site = &plot->sites[i];

		fprintf(file, "site\t%.0f\t%.0f\t%.0f\t%s\n", site->bytes,
		    site->growth, site->blocks,
		    plain_text(site->name, SIZE_MAX));
	}
	for (size_t i = 0; i < plot->nstacks; i++) {
		const struct flame_stack *stack = &plot->stacks[i];

		fprintf(file, "stack\t%.0f\t%.2f", stack->bytes, stack->blocks);
		for (size_t j = 0; j < stack->n; j++)
			fprintf(file, "\t%s",
			    plain_text(stack->names[j], SIZE_MAX));
		putc('\n', file);
	}
	fprintf(file, "end\t%zu\t%zu\t%zu\n", plot->nlooks, plot->nsites,
	    plot->nstacks);
	if (plot->no_leaks == NULL)
		look_write(&plot->leaks, file, path);
	check_written(file, path);
}

static bool
parse_look(struct plot *plot, char **field)
{
	double last =
	    plot->nlooks == 0 ? 0 : plot->looks[plot->nlooks - 1].time;
	struct plot_look look;
	double number;

	if (!fields_time(field[1], &look.time) || look.time < last ||
	    look.time > SECONDS_MOST)
		return false;
	for (size_t i = 0; i < USAGE_LAYERS + 2; i++) {
		if (!fields_number(field[2 + i], &number))
			return false;
		*(i == 0     ? &look.rss
		    : i == 1 ? &look.untouched
			     : &look.layer[i - 2]) = (uint64_t)number;
	}
	ARRAY_GROW(plot->looks, plot->nlooks, plot->looks_capacity);
	plot->looks[plot->nlooks++] = look;
	return true;
}

/* Are these the layers of this command? */
static bool
has_our_layers(char **field)
{
	bool same = strcmp(field[1], "seconds") == 0 &&
		    strcmp(field[2], "rss_bytes") == 0 &&
		    strcmp(field[3], "untouched_bytes") == 0;

	for (size_t i = 0; i < USAGE_LAYERS; i++)
		same = same && strcmp(field[4 + i], usage_layers[i].key) == 0;
	return same;
}

static bool
parse_site(struct plot *plot, char **field)
{
	bool shrinks = field[2][0] == '-';
	struct plot_site site = {.name = plain_text(field[4], SIZE_MAX)};

	if (!fields_number(field[1], &site.bytes) ||
	    !fields_number(field[2] + shrinks, &site.growth) ||
	    !fields_number(field[3], &site.blocks))
		return false;
	if (shrinks)
		site.growth = -site.growth;
	ARRAY_GROW(plot->sites, plot->nsites, plot->sites_capacity);
	plot->sites[plot->nsites++] = site;
	return true;
}

/* Parses a line "stack", which has any number of fields. */
static bool
parse_stack(struct plot *plot, char *line)
{
	struct flame_stack stack = {0};
	const char *bytes, *blocks, *name;
	size_t capacity = 0;

	strsep(&line, "\t");
	bytes = strsep(&line, "\t");
	blocks = strsep(&line, "\t");
	if (bytes == NULL || blocks == NULL ||
	    !fields_number(bytes, &stack.bytes) ||
	    !fields_number(blocks, &stack.blocks))
		return false;
	while ((name = strsep(&line, "\t")) != NULL) {
		ARRAY_GROW(stack.names, stack.n, capacity);
		stack.names[stack.n++] = plain_text(name, SIZE_MAX);
	}
	ARRAY_GROW(plot->stacks, plot->nstacks, plot->stacks_capacity);
	plot->stacks[plot->nstacks++] = stack;
	return true;
}

static bool
parse_end(struct plot *plot, char **field)
{
	const size_t counts[] = {plot->nlooks, plot->nsites, plot->nstacks};
	double count;

	for (size_t i = 0; i < array_size(counts); i++)
		if (!fields_number(field[1 + i], &count) ||
		    count != (double)counts[i])
			return false;
	plot->is_whole = true;
	return true;
}

/* Parses a line with a text; returns false if it is another line. */
static bool
parse_text(struct plot *plot, const char *key, const char *text)
{
	const char **to = strcmp(key, "ended") == 0      ? &plot->ended
			  : strcmp(key, "no_leaks") == 0 ? &plot->no_leaks
							 : NULL;

	if (to != NULL)
		*to = plain_text(text, SIZE_MAX);
	return to != NULL;
}

/* Reads a line behind the first; returns false if it is wrong. */
static bool
parse_line(struct plot *plot, char *line, const char *path)
{
	char *field[LOOK_FIELDS];
	size_t n;

	line[strcspn(line, "\n")] = '\0';
	if (strncmp(line, "stack\t", 6) == 0)
		return parse_stack(plot, line);
	n = fields_split(line, field, LOOK_FIELDS);
	if (n == LOOK_FIELDS && strcmp(field[0], "look") == 0)
		return plot->program != NULL && parse_look(plot, field);
	if (strcmp(field[0], "fields") == 0) {
		if (n != LOOK_FIELDS || !has_our_layers(field))
			fail_with(EXIT_ERROR,
			    "%s: was saved by another version of umem", path);
		return true;
	}
	if (n == 3 && strcmp(field[0], "process") == 0) {
		plot->program = plain_text(field[1], SIZE_MAX);
		plot->pid = plain_text(field[2], SIZE_MAX);
		return true;
	}
	if (n == 5 && strcmp(field[0], "site") == 0)
		return parse_site(plot, field);
	if (n == 4 && strcmp(field[0], "end") == 0)
		return parse_end(plot, field);
	if (n == 2 && strcmp(field[0], "start") == 0)
		return fields_time(field[1], &plot->start) &&
		       plot->start <= SECONDS_MOST;
	if (n == 2 && strcmp(field[0], "sampling") == 0)
		return fields_number(field[1], &plot->mean);
	return n == 2 && parse_text(plot, field[0], field[1]);
}

/* Reads the lines up to the end of the record.  A last line may be cut. */
static void
read_lines(struct plot *plot, FILE *file, const char *path)
{
	char *line;

	while (!plot->is_whole &&
	       (line = fields_line(file, path, EXIT_ERROR)) != NULL)
		if (strchr(line, '\n') != NULL && !parse_line(plot, line, path))
			fail_with(EXIT_ERROR, "%s: is damaged", path);
}

void
plot_read(struct plot *plot, const char *path)
{
	FILE *file = fopen(path, "re");
	char first[sizeof(FIRST_LINE)];

	if (file == NULL)
		fail_with(EXIT_ERROR, "%s: %s", path, strerror(errno));
	if (fgets(first, sizeof(first), file) == NULL ||
	    strcmp(first, FIRST_LINE) != 0)
		fail_with(EXIT_ERROR,
		    "%s: is no process, and was not saved by umem plot", path);
	read_lines(plot, file, path);
	if (plot->nlooks == 0)
		fail_with(EXIT_ERROR, "%s: has no look", path);
	if (plot->is_whole && plot->no_leaks == NULL &&
	    (!look_read(&plot->leaks, file, path) || !plot->leaks.of_leaks))
		fail_with(EXIT_ERROR, "%s: is truncated", path);
	fclose(file);
}
