/*
 * look.c - the call sites of one look at a program, saved and compared
 *
 * A saved look is text:
 *	umem leaks 2			or "umem users 2"; the version
 *	time	1763870000.123		seconds since 1970; 0: not known
 *	site	4096	12	exact	NAME	CALLERS
 *	stack	4096	12	exact	main;f;g	
 *	site	4096	12	3	NAME	CALLERS
 *	end	3			the number of sites and stacks
 * Tabs separate the fields.  A site is a row of the table, with its bytes and
 * blocks; the bytes of a direct leak are with its indirect leaks.  The third
 * number is that of the samples of an estimate, 0 for blocks that the samples
 * do not explain.  Sites of two looks are compared by name, so they may be
 * looks at two processes.  Version 1 has no stacks.
 *
 * Growth of estimates
 *	Each look fits the estimates of all call sites of a size class to the
 *	number of its blocks.  So the estimate of a call site changes although
 *	it has allocated nothing, because others have.  Its samples do not.
 *	Therefore a call site grows by its additional samples, each of which
 *	stands for as many bytes as all its samples do on average.  Blocks that
 *	the samples do not explain may become fewer, but not more: blocks that
 *	were allocated since have samples of other rows.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/inspect/base/fields.h"
#include "tools/inspect/base/print.h"
#include "tools/inspect/report/look.h"
#include "tools/inspect/symbols/symbols.h"

/* Seconds of which the nanoseconds fit in 64 bits. */
#define TIME_MAX 1e10

/* Fields of a line with a site. */
#define FIELDS 6

static const char *const kinds[] = {"leaks", "users", "reachable"};
static const char *const verbs[] = {"leaked", "allocated", "reachable"};

static void
row_add(struct look *look, struct look_row row)
{
	ARRAY_ADD(look->rows, look->nrows, look->capacity, row);
}

/* Functions have one name for all lines from which they call. */
static const char *
stack_text(struct target *target, const struct site_tally *t)
{
	char *text = NULL;
	size_t bytes, n;
	FILE *file = xchecked(open_memstream(&text, &bytes));

	for (unsigned depth = t->depth; depth-- > 0;) {
		const struct symbol_frame *frames =
		    symbol_frames(target, t->stack[depth], &n);

		while (n-- > 0) {
			const char *name = frames[n].function != NULL
					       ? frames[n].function
					       : frames[n].name;

			for (; *name != '\0'; name++)
				putc(*name == ';' ? '_' : *name, file);
			fputs(depth + n != 0 ? ";" : "", file);
		}
	}
	fclose(file);
	return text;
}

static void
stacks_add(struct look *look, struct sites *sites, const struct site *site)
{
	for (size_t i = 0; i < site->ntallies; i++) {
		const struct site_tally *t = site->tallies[i];
		bool is_known = t->depth != 0;

		row_add(look,
		    (struct look_row){
			.name = is_known ? stack_text(sites->model->target, t)
					 : site->name,
			.callers = "",
			.bytes = site_tally_total(t),
			.blocks = t->blocks,
			.estimated = site->estimated,
			.nsamples = is_known ? (double)t->nseen : 0,
			.of_stack = true});
	}
}

struct look
look_of_sites(struct sites *sites, unsigned callers, bool stacks)
{
	struct look look = {.kind = sites->are_leaks ? LOOK_LEAKS : LOOK_USERS,
	    .caller = sites->caller};
	struct timespec now;

	/* A core does not tell when it was written. */
	if (sites->model->target->live) {
		clock_gettime(CLOCK_REALTIME, &now);
		look.time = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
	}
	for (size_t i = 0; i < sites->nrows; i++) {
		const struct site *site = &sites->rows[i];
		bool is_known = site->tallies[0]->depth != 0;

		row_add(
		    &look, (struct look_row){.name = site->name,
			       .callers = site_callers(sites, site, callers),
			       .bytes = site_total(site),
			       .blocks = site->blocks,
			       .estimated = site->estimated,
			       .nsamples = is_known ? (double)site->nseen : 0});
		if (stacks)
			stacks_add(&look, sites, site);
	}
	return look;
}

/* Reads "exact", or the number of samples of an estimate. */
static bool
parse_samples(const char *text, struct look_row *row)
{
	row->nsamples = 0;
	row->estimated = strcmp(text, "exact") != 0;
	return !row->estimated || fields_number(text, &row->nsamples);
}

void
look_write(const struct look *look, FILE *file, const char *path)
{
	fprintf(file, "umem %s 2\ntime\t%.3f\n", kinds[look->kind], look->time);
	for (size_t i = 0; i < look->nrows; i++) {
		const struct look_row *row = &look->rows[i];

		fprintf(file, "%s\t%.0f\t%.0f\t%s\t%s\t%s\n",
		    row->of_stack ? "stack" : "site", row->bytes, row->blocks,
		    row->estimated ? xprint("%.0f", row->nsamples) : "exact",
		    row->name, row->callers);
	}
	fprintf(file, "end\t%zu\n", look->nrows);
	if (fflush(file) != 0 || ferror(file))
		fail_with(EXIT_ERROR, "%s: %s", path, strerror(errno));
}

void
look_save(const struct look *look, const char *path)
{
	char *text;
	size_t n;
	FILE *file = xchecked(open_memstream(&text, &n));

	look_write(look, file, path);
	file_write(path, /* replaces */ false, file, &text, &n);
}

/* Reads a line behind the first; returns false if it is wrong. */
static bool
parse_line(struct look *look, char *line, bool *ended)
{
	struct look_row row = {0};
	char *field[FIELDS];
	size_t n = fields_split(line, field, FIELDS);
	double count;

	if (n == 2 && strcmp(field[0], "time") == 0)
		return fields_number(field[1], &look->time) &&
		       look->time < TIME_MAX;
	if (n == 2 && strcmp(field[0], "end") == 0) {
		*ended = true;
		return fields_number(field[1], &count) &&
		       count == (double)look->nrows;
	}
	row.of_stack = strcmp(field[0], "stack") == 0;
	if (n != FIELDS || (!row.of_stack && strcmp(field[0], "site") != 0) ||
	    !fields_number(field[1], &row.bytes) ||
	    !fields_number(field[2], &row.blocks) ||
	    !parse_samples(field[3], &row))
		return false;
	row.name = plain_text(field[4], SIZE_MAX);
	row.callers = plain_text(field[5], SIZE_MAX);
	row_add(look, row);
	return true;
}

bool
look_read(struct look *look, FILE *file, const char *path)
{
	char kind[16], version, *line;
	bool ended = false;

	*look = (struct look){0};
	if (fscanf(file, "umem %15s %c", kind, &version) != 2 ||
	    (version != '1' && version != '2') || getc(file) != '\n')
		return false;
	look->has_stacks = version == '2';
	while (strcmp(kinds[look->kind], kind) != 0)
		if (++look->kind == array_size(kinds))
			return false;
	while (!ended && (line = fields_line(file, path, EXIT_ERROR)) != NULL)
		if (!parse_line(look, line, &ended))
			fail_with(EXIT_ERROR, "%s: is damaged", path);
	if (!ended)
		fail_with(EXIT_ERROR, "%s: is truncated", path);
	return true;
}

/* The figures of a call site in a look. */
struct side {
	double bytes, blocks, nsamples;
};

/* A call site in both looks, or in one of them. */
struct change {
	const char *name, *callers;
	struct side before, after;
	double more_bytes, more_blocks; /* after than before */
	bool estimated, has_exact;      /* in one of the looks */
	bool is_stack;
};

struct growth {
	const struct look *after;
	double minutes; /* since the look before; 0: not known */
	void *tree;     /* by name, for tsearch() */
	struct change **change;
	size_t n, capacity;
	double bytes, more_bytes; /* of all */
	size_t nsame;             /* that have not changed */
	bool estimated;           /* for some of them */
};

static int
order_by_growth(const void *a, const void *b)
{
	const struct change *x = *(struct change *const *)a;
	const struct change *y = *(struct change *const *)b;

	return order_rows(
	    x->more_bytes, y->more_bytes, strcmp(x->name, y->name));
}

static void
change_add(struct growth *changes, const struct look_row *row, bool is_after)
{
	struct change key = {.name = row->name,
	    .callers = row->callers,
	    .is_stack = row->of_stack};
	struct side *side;
	bool is_new;
	struct change *c = tree_item(
	    &changes->tree, &key, sizeof(key), order_first_texts, &is_new);

	if (is_new)
		ARRAY_ADD(changes->change, changes->n, changes->capacity, c);
	side = is_after ? &c->after : &c->before;
	side->bytes += row->bytes;
	side->blocks += row->blocks;
	side->nsamples += row->nsamples;
	changes->bytes += is_after ? row->bytes : 0;
	changes->more_bytes += is_after ? row->bytes : -row->bytes;
	c->estimated |= row->estimated;
	changes->estimated |= row->estimated;
	c->has_exact |= !row->estimated;
}

/* See "Growth of estimates" at the top. */
static void
find_growth(struct change *c)
{
	double more = c->after.nsamples - c->before.nsamples;

	c->more_bytes = c->after.bytes - c->before.bytes;
	c->more_blocks = c->after.blocks - c->before.blocks;
	if (!c->estimated || c->has_exact)
		return;
	if (c->after.nsamples > 0) {
		c->more_bytes = more * c->after.bytes / c->after.nsamples;
		c->more_blocks = more * c->after.blocks / c->after.nsamples;
	} else if (c->before.nsamples == 0) {
		c->more_bytes = fmin(c->more_bytes, 0);
		c->more_blocks = fmin(c->more_blocks, 0);
	}
}

static bool
has_changed(const struct change *c)
{
	return fabs(c->more_bytes) >= 0.5 || fabs(c->more_blocks) >= 0.5;
}

struct growth *
growth_of(const struct look *before, const struct look *after, bool stacks)
{
	struct growth *g = xalloc(sizeof(*g));

	g->after = after;
	if (before->time > 0 && after->time > before->time)
		g->minutes = (after->time - before->time) / 60;
	for (size_t i = 0; i < after->nrows; i++)
		if (after->rows[i].of_stack == stacks)
			change_add(g, &after->rows[i], true);
	for (size_t i = 0; i < before->nrows; i++)
		if (before->rows[i].of_stack == stacks)
			change_add(g, &before->rows[i], false);
	for (size_t i = 0; i < g->n; i++) {
		find_growth(g->change[i]);
		g->nsame += !has_changed(g->change[i]);
	}
	ARRAY_SORT(g->change, g->n, order_by_growth);
	return g;
}

/* Returns "+30", "~+30" or "-30" blocks. */
static const char *
more_text(double blocks, bool estimated)
{
	const char *text = count_text(fabs(blocks), estimated);

	if (fabs(blocks) < 0.5)
		return "+0";
	return xprint("%s%c%s", estimated ? "~" : "", blocks < 0 ? '-' : '+',
	    text + estimated);
}

static void
print_change(const struct change *c, double minutes)
{
	int used = printf("%9s %9s %8s %9s %9s  ",
	    growth_text(c->more_bytes, c->estimated),
	    minutes > 0 ? growth_text(c->more_bytes / minutes, c->estimated)
			: "-",
	    more_text(c->more_blocks, c->estimated),
	    bytes_text(c->after.bytes, c->estimated),
	    count_text(c->after.blocks, c->estimated));

	print_call_site((size_t)used, c->name, c->callers);
}

/* Returns the growth of all blocks that is in no row. */
static double
growth_of_rest(const struct growth *g)
{
	double rest = g->more_bytes;

	for (size_t i = 0; i < g->n; i++)
		rest -= g->change[i]->more_bytes;
	return rest;
}

bool
growth_is_more(const struct growth *g)
{
	return (g->n != 0 && g->change[0]->more_bytes >= 0.5) ||
	       growth_of_rest(g) >= 0.5;
}

const char *
growth_since(const struct growth *g)
{
	uint64_t ns = (uint64_t)(g->minutes * 60e9);

	return xprint("since the look %s%sbefore",
	    ns > 0 ? site_age_text(ns) : "", ns > 0 ? " " : "");
}

bool
growth_print(const struct growth *g, bool every)
{
	size_t n = 0, wanted = every ? g->n : g->n - g->nsame;
	double rest = growth_of_rest(g);

	printf("%s %s, %s %s\n\n", bytes_text(g->bytes, g->estimated),
	    verbs[g->after->kind], growth_text(g->more_bytes, g->estimated),
	    growth_since(g));
	if (wanted != 0)
		printf("%9s %9s %8s %9s %9s  %s\n", "GROWTH", "PER MIN",
		    "+BLOCKS", "BYTES", "BLOCKS", "CALL SITE");
	for (size_t i = 0; i < g->n; i++)
		if ((every || has_changed(g->change[i])) &&
		    (every || n++ < SITES_ROWS))
			print_change(g->change[i], g->minutes);
	if (n > SITES_ROWS)
		printf(
		    "%s; -e prints all\n", counted(n - SITES_ROWS, "more row"));
	if (fabs(rest) >= 0.5)
		printf("%s: the samples do not tell by which call sites\n",
		    growth_text(rest, /* estimated */ true));
	if (!every && g->nsame != 0)
		printf("%s without a change\n", counted(g->nsame, "call site"));
	return g->estimated;
}

void
growth_json(const struct growth *g)
{
	json_open("call_sites", '[');
	for (size_t i = 0; i < g->n; i++) {
		const struct change *c = g->change[i];

		json_open(NULL, '{');
		json_text("call_site", c->name);
		json_bool("estimated", c->estimated);
		json_rounded("bytes", c->after.bytes);
		json_rounded("bytes_before", c->before.bytes);
		json_rounded("blocks", c->after.blocks);
		json_rounded("blocks_before", c->before.blocks);
		if (c->estimated) {
			json_rounded("samples", c->after.nsamples);
			json_rounded("samples_before", c->before.nsamples);
		}
		json_close();
	}
	json_close();
	if (g->minutes > 0)
		json_rounded("seconds", g->minutes * 60);
	json_rounded("bytes", g->bytes);
	json_rounded("bytes_before", g->bytes - g->more_bytes);
}

static int
order_by_bytes(const void *a, const void *b)
{
	const struct look_row *x = a, *y = b;

	return order_rows(x->bytes, y->bytes, strcmp(x->name, y->name));
}

/* The outermost function of a stack is the kind of the look. */
void
growth_add(const struct growth *g, struct look *look)
{
	for (size_t i = 0; i < g->n && g->change[i]->more_bytes >= 0.5; i++) {
		const struct change *c = g->change[i];

		row_add(
		    look, (struct look_row){
			      .name = xprint("%s%s%s", verbs[g->after->kind],
				  c->is_stack ? ";" : ": ", c->name),
			      .callers = c->callers,
			      .bytes = c->more_bytes,
			      .blocks = fmax(c->more_blocks, 0),
			      .estimated = c->estimated,
			      .of_stack = c->is_stack});
	}
	ARRAY_SORT(look->rows, look->nrows, order_by_bytes);
}
