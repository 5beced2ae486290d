/*
 * look.c - the call sites of one look at a program, saved and compared
 *
 * A saved look is text:
 *	umem leaks 1			or "umem users 1"; the version
 *	time	1763870000.123		seconds since 1970; 0: not known
 *	site	4096	12	exact	NAME	CALLERS
 *	site	4096	12	estimate:3	NAME	CALLERS
 *	end	2			the number of sites
 * Tabs separate the fields.  A site is a row of the table, with its bytes and
 * blocks; the bytes of a direct leak are with its indirect leaks.  The third
 * field is "exact", "estimate" and the number of samples, or "estimate" for
 * blocks that the samples do not explain.  Sites of two looks are compared by
 * name, so they may be looks at two processes.
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

/* Fields of a line with a site. */
#define FIELDS 6

struct look
look_of_sites(struct sites *sites)
{
	struct look look = {.of_leaks = sites->are_leaks};
	struct timespec now;

	/* A core does not tell when it was written. */
	if (sites->model->target->live) {
		clock_gettime(CLOCK_REALTIME, &now);
		look.time = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
	}
	for (size_t i = 0; i < sites->nrows; i++) {
		const struct site *site = &sites->rows[i];

		ARRAY_GROW(look.rows, look.nrows, look.capacity);
		look.rows[look.nrows++] = (struct look_row){.name = site->name,
		    .callers = site_callers(sites, site, SITE_CALLERS),
		    .bytes = site_total(site),
		    .blocks = site->blocks,
		    .estimated = site->estimated,
		    .nsamples = !site->estimated || site->tallies[0]->depth == 0
				    ? 0
				    : (double)site->nseen};
	}
	return look;
}

static const char *
certainty_text(const struct look_row *row)
{
	if (!row->estimated)
		return "exact";
	return row->nsamples == 0 ? "estimate"
				  : xprint("estimate:%.0f", row->nsamples);
}

/* Reads a text of certainty_text(). */
static bool
parse_certainty(const char *text, struct look_row *row)
{
	static const char estimate[] = "estimate:";

	row->nsamples = 0;
	row->estimated = strcmp(text, "exact") != 0;
	if (!row->estimated || strcmp(text, "estimate") == 0)
		return true;
	return strncmp(text, estimate, sizeof(estimate) - 1) == 0 &&
	       fields_number(text + sizeof(estimate) - 1, &row->nsamples);
}

void
look_write(const struct look *look, FILE *file, const char *path)
{
	fprintf(file, "umem %s 1\ntime\t%.3f\n",
	    look->of_leaks ? "leaks" : "users", look->time);
	for (size_t i = 0; i < look->nrows; i++) {
		const struct look_row *row = &look->rows[i];

		fprintf(file, "site\t%.0f\t%.0f\t%s\t%s\t%s\n", row->bytes,
		    row->blocks, certainty_text(row), row->name, row->callers);
	}
	fprintf(file, "end\t%zu\n", look->nrows);
	if (fflush(file) != 0 || ferror(file))
		fail_with(EXIT_ERROR, "%s: %s", path, strerror(errno));
}

void
look_save(const struct look *look, const char *path)
{
	FILE *file = fopen(path, "we");

	if (file == NULL)
		fail_with(EXIT_ERROR, "%s: %s", path, strerror(errno));
	look_write(look, file, path);
	fclose(file);
}

/* Reads a line behind the first; returns false if it is wrong. */
static bool
parse_line(struct look *look, char *line, bool *ended)
{
	struct look_row row;
	char *field[FIELDS];
	size_t n = fields_split(line, field, FIELDS);
	double count;

	if (*ended)
		return false;
	if (n == 2 && strcmp(field[0], "time") == 0)
		return fields_time(field[1], &look->time);
	if (n == 2 && strcmp(field[0], "end") == 0) {
		*ended = true;
		return fields_number(field[1], &count) &&
		       count == (double)look->nrows;
	}
	if (n != FIELDS || strcmp(field[0], "site") != 0 ||
	    !fields_number(field[1], &row.bytes) ||
	    !fields_number(field[2], &row.blocks) ||
	    !parse_certainty(field[3], &row))
		return false;
	row.name = plain_text(field[4], SIZE_MAX);
	row.callers = plain_text(field[5], SIZE_MAX);
	ARRAY_GROW(look->rows, look->nrows, look->capacity);
	look->rows[look->nrows++] = row;
	return true;
}

bool
look_read(struct look *look, FILE *file, const char *path)
{
	static const char leaks[] = "umem leaks 1\n",
			  users[] = "umem users 1\n";
	char first[sizeof(leaks)], *line;
	bool ended = false;

	static_assert(sizeof(leaks) == sizeof(users), "one buffer");
	*look = (struct look){0};
	if (fgets(first, sizeof(first), file) == NULL)
		return false;
	look->of_leaks = strcmp(first, leaks) == 0;
	if (!look->of_leaks && strcmp(first, users) != 0)
		return false;
	while ((line = fields_line(file, path, EXIT_ERROR)) != NULL)
		if (!parse_line(look, line, &ended))
			fail_with(EXIT_ERROR, "%s: is damaged", path);
	if (!ended)
		fail_with(EXIT_ERROR, "%s: is truncated", path);
	return true;
}

/* A call site in both looks, or in one of them. */
struct change {
	const char *name, *callers;
	double bytes, blocks;               /* after */
	double bytes_before, blocks_before; /* before */
	double more_bytes, more_blocks;     /* after than before */
	double nsamples, nsamples_before;
	bool estimated, has_exact; /* in one of the looks */
};

struct changes {
	void *tree; /* by name, for tsearch() */
	struct change **change;
	size_t n, capacity;
	double bytes, more_bytes; /* of all */
	size_t nsame;             /* that have not changed */
	bool estimated;           /* for some of them */
};

static int
order_by_name(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int
order_by_growth(const void *a, const void *b)
{
	const struct change *x = *(struct change *const *)a;
	const struct change *y = *(struct change *const *)b;

	if (x->more_bytes != y->more_bytes)
		return x->more_bytes > y->more_bytes ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void
change_add(struct changes *changes, const struct look_row *row, bool is_after)
{
	struct change key = {.name = row->name, .callers = row->callers};
	bool is_new;
	struct change *c = tree_item(
	    &changes->tree, &key, sizeof(key), order_by_name, &is_new);

	if (is_new) {
		ARRAY_GROW(changes->change, changes->n, changes->capacity);
		changes->change[changes->n++] = c;
	}
	if (is_after) {
		c->bytes += row->bytes;
		c->blocks += row->blocks;
		c->nsamples += row->nsamples;
		changes->bytes += row->bytes;
	} else {
		c->bytes_before += row->bytes;
		c->blocks_before += row->blocks;
		c->nsamples_before += row->nsamples;
	}
	changes->more_bytes += is_after ? row->bytes : -row->bytes;
	c->estimated |= row->estimated;
	changes->estimated |= row->estimated;
	c->has_exact |= !row->estimated;
}

/* See "Growth of estimates" at the top. */
static void
find_growth(struct change *c)
{
	double more = c->nsamples - c->nsamples_before;

	c->more_bytes = c->bytes - c->bytes_before;
	c->more_blocks = c->blocks - c->blocks_before;
	if (!c->estimated || c->has_exact)
		return;
	if (c->nsamples > 0) {
		c->more_bytes = more * c->bytes / c->nsamples;
		c->more_blocks = more * c->blocks / c->nsamples;
	} else if (c->nsamples_before == 0) {
		c->more_bytes = fmin(c->more_bytes, 0);
		c->more_blocks = fmin(c->more_blocks, 0);
	}
}

static bool
has_changed(const struct change *c)
{
	return fabs(c->more_bytes) >= 0.5 || fabs(c->more_blocks) >= 0.5;
}

static struct changes
compare(const struct look *before, const struct look *after)
{
	struct changes changes = {0};

	for (size_t i = 0; i < after->nrows; i++)
		change_add(&changes, &after->rows[i], true);
	for (size_t i = 0; i < before->nrows; i++)
		change_add(&changes, &before->rows[i], false);
	for (size_t i = 0; i < changes.n; i++)
		find_growth(changes.change[i]);
	for (size_t i = 0; i < changes.n; i++)
		changes.nsame += !has_changed(changes.change[i]);
	if (changes.n != 0)
		qsort(changes.change, changes.n, sizeof(*changes.change),
		    order_by_growth);
	return changes;
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

/* Is the time between the looks known?  Then stores it, in minutes. */
static bool
minutes_between(
    const struct look *before, const struct look *after, double *minutes)
{
	*minutes = (after->time - before->time) / 60;
	return before->time > 0 && after->time > before->time;
}

static void
print_change(const struct change *c, double minutes)
{
	int used = printf("%9s %9s %8s %9s %9s  ",
	    growth_text(c->more_bytes, c->estimated),
	    minutes > 0 ? growth_text(c->more_bytes / minutes, c->estimated)
			: "-",
	    more_text(c->more_blocks, c->estimated),
	    bytes_text(c->bytes, c->estimated),
	    count_text(c->blocks, c->estimated));

	print_call_site((size_t)used, c->name, c->callers);
}

/* Returns the growth of all blocks that is in no row. */
static double
growth_of_rest(const struct changes *changes)
{
	double rest = changes->more_bytes;

	for (size_t i = 0; i < changes->n; i++)
		rest -= changes->change[i]->more_bytes;
	return rest;
}

static void
print_changes(const struct changes *changes, double minutes, bool every)
{
	size_t nprinted = 0, nmore = 0;
	double rest = growth_of_rest(changes);

	if (every || changes->nsame < changes->n)
		printf("%9s %9s %8s %9s %9s  %s\n", "GROWTH", "PER MIN",
		    "+BLOCKS", "BYTES", "BLOCKS", "CALL SITE");
	for (size_t i = 0; i < changes->n; i++) {
		const struct change *c = changes->change[i];

		if (!every && !has_changed(c))
			continue;
		if (!every && nprinted == SITES_ROWS) {
			nmore++;
			continue;
		}
		nprinted++;
		print_change(c, minutes);
	}
	if (nmore != 0)
		printf("%zu more rows; -e prints all\n", nmore);
	if (fabs(rest) >= 0.5)
		printf("%s: the samples do not tell by which call sites\n",
		    growth_text(rest, /* estimated */ true));
	if (!every && changes->nsame != 0)
		printf("%zu call site%s without a change\n", changes->nsame,
		    changes->nsame == 1 ? "" : "s");
}

static void
json_changes(const struct changes *changes, double minutes)
{
	json_open(NULL, '{');
	json_open("call_sites", '[');
	for (size_t i = 0; i < changes->n; i++) {
		const struct change *c = changes->change[i];

		json_open(NULL, '{');
		json_text("call_site", c->name);
		json_bool("estimated", c->estimated);
		json_rounded("bytes", c->bytes);
		json_rounded("bytes_before", c->bytes_before);
		json_rounded("blocks", c->blocks);
		json_rounded("blocks_before", c->blocks_before);
		if (c->estimated) {
			json_rounded("samples", c->nsamples);
			json_rounded("samples_before", c->nsamples_before);
		}
		json_close();
	}
	json_close();
	if (minutes > 0)
		json_rounded("seconds", minutes * 60);
	json_rounded("bytes", changes->bytes);
	json_rounded("bytes_before", changes->bytes - changes->more_bytes);
	json_close();
}

int
look_print_growth(
    const struct look *before, const struct look *after, bool every)
{
	struct changes changes = compare(before, after);
	double minutes;
	bool grown = (changes.n != 0 && changes.change[0]->more_bytes >= 0.5) ||
		     growth_of_rest(&changes) >= 0.5;

	if (before->of_leaks != after->of_leaks)
		fail_with(EXIT_ERROR,
		    "diff: one look is at leaks, the other at users");
	if (!minutes_between(before, after, &minutes))
		minutes = 0;
	if (json_wanted) {
		json_changes(&changes, minutes);
	} else {
		printf("%s %s, %s since the look %sbefore\n\n",
		    bytes_text(changes.bytes, changes.estimated),
		    after->of_leaks ? "leaked" : "allocated",
		    growth_text(changes.more_bytes, changes.estimated),
		    minutes > 0 ? xprint("%s ",
				      site_age_text((uint64_t)(minutes * 60e9)))
				: "");
		print_changes(&changes, minutes, every);
		if (changes.estimated)
			puts("\n~ is an estimate from samples.");
	}
	return after->of_leaks && grown ? EXIT_FOUND : EXIT_OK;
}
