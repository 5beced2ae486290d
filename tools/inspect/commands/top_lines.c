/*
 * top_lines.c - the screen of umem top, as lines of text
 *
 * The screen has the identity of the memory (usage.c), then the caches, then
 * the call sites of the samples.  On a small terminal the tables have fewer
 * rows, and then fewer columns.  A screen for a file or pipe has a fixed number
 * of rows.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/top.h"

/* Rows of caches and of call sites, if the number of rows is not limited. */
#define CACHE_ROWS 15
#define SITE_ROWS  8

/* Columns of the terminal for the name of a cache: "umem_alloc_16384". */
#define NAME_BYTES_MIN 16
#define NAME_BYTES_MAX 25

/* The numbers of a cache, behind its name; the last ones need a wide screen. */
static const struct column {
	const char *title;
	size_t width;
} columns[] = {{"MEMORY", 7}, {"IN USE", 7}, {"CACHED", 7}, {"GROWTH", 7},
    {"LOADS/S", 7}, {"HIT%", 5}, {"DEPOT%", 6}, {"LOCK/S", 6}};

/* A row of the table of caches. */
struct row {
	const char *name;
	uint64_t at; /* of a cache */
	double memory, in_use, cached;
	bool has_growth; /* the next is known */
	double growth;
	bool moves; /* the next two are known */
	double loads, locks;
	double cpu_hits, depot_hits; /* 0 to 1; -1: none */
};

static struct {
	char **line;
	size_t n, capacity;
	size_t width;
} screen;

/* The orders of the caches, by a number of their rows. */
static const struct {
	const char *name;
	size_t offset;
} orders[] = {{"memory", offsetof(struct row, memory)},
    {"use", offsetof(struct row, in_use)},
    {"cached", offsetof(struct row, cached)},
    {"growth", offsetof(struct row, growth)},
    {"loads", offsetof(struct row, loads)},
    {"locks", offsetof(struct row, locks)}};

size_t
top_order_named(const char *name)
{
	for (size_t i = 0; i < array_size(orders); i++)
		if (strcmp(name, orders[i].name) == 0)
			return i;
	fail_with(EXIT_ERROR,
	    "top: -s takes memory, use, cached, growth, loads or locks, not %s",
	    name);
}

/* Cuts a text behind so many characters, of which some may be UTF-8. */
static void
text_cut(char *text, size_t width)
{
	size_t n = 0;

	while (*text != '\0' && (is_inside_character(*text) || n++ != width))
		text++;
	*text = '\0';
}

/* Adds a line, which is freed with the others. */
static void
line_put(char *text)
{
	text_cut(text, screen.width);
	ARRAY_ADD(screen.line, screen.n, screen.capacity, text);
}

#define line_add(...) line_put(xprint(__VA_ARGS__))

static void
lines_clear(void)
{
	for (size_t i = 0; i < screen.n; i++)
		free(screen.line[i]);
	screen.n = 0;
}

static void
add_title(const struct top *top)
{
	time_t now = time(NULL);
	char clock[16];
	struct tm tm;

	strftime(clock, sizeof(clock), "%T", localtime_r(&now, &tm));
	line_add("umem top  %d %s  %s  %s  every %g s  by %s",
	    top->watch.target->pid, top->watch.program,
	    counted(top->watch.nthreads, "thread"), clock, top->interval,
	    orders[top->order].name);
}

static void
add_limit(const char *what, uint64_t used, uint64_t limit)
{
	if (limit != 0)
		line_add("heap %s, %.0f%% of the %s limit %s", size_text(used),
		    100.0 * (double)used / (double)limit, what,
		    size_text(limit));
}

static const struct usage_cache *
cache_find(const struct usage *usage, const struct usage_cache *c)
{
	for (size_t i = 0; i < usage->ncaches; i++)
		if (usage->caches[i].at == c->at &&
		    strcmp(usage->caches[i].name, c->name) == 0)
			return &usage->caches[i];
	return NULL;
}

static double
seconds_between(const struct top *top)
{
	double seconds = top->now.time - top->before.time;

	return seconds > 0.001 ? seconds : 0.001;
}

static struct row
row_of(const struct top *top, const struct usage_cache *c)
{
	static const struct usage_cache at_start;
	const struct usage_cache *first = cache_find(&top->first, c);
	const struct usage_cache *before =
	    top->has_before ? cache_find(&top->before, c) : &at_start;
	struct row row = {.name = c->name,
	    .at = c->at,
	    .memory = (double)c->memory,
	    .in_use = (double)(c->nlive * c->chunk),
	    .cached =
		(double)((c->nchunks - c->nlive - c->nwaiting) * c->chunk),
	    .cpu_hits = -1,
	    .depot_hits = -1};
	uint32_t nloads, nreceived, nrefills;

	row.has_growth = top->nlooks != 0;
	row.growth = row.in_use;
	if (first != NULL)
		row.growth -= (double)(first->nlive * first->chunk);
	if (before == NULL)
		return row;
	row.moves = top->has_before;
	nloads = c->nloads - before->nloads;
	nreceived = c->nreceived - before->nreceived;
	nrefills = c->nrefills - before->nrefills;
	row.loads = nloads / seconds_between(top);
	row.locks = (uint32_t)(c->ncontended - before->ncontended) /
		    seconds_between(top);
	if (nloads != 0 && nreceived >= nloads)
		row.cpu_hits = 1 - (double)nloads / nreceived;
	if (nloads != 0 && nrefills <= nloads)
		row.depot_hits = 1 - (double)nrefills / nloads;
	return row;
}

static struct row
row_of_bytes(
    const struct top *top, const char *name, uint64_t bytes, uint64_t first)
{
	return (struct row){.name = name,
	    .has_growth = top->nlooks != 0,
	    .memory = (double)bytes,
	    .in_use = (double)bytes,
	    .growth = (double)bytes - (double)first,
	    .cpu_hits = -1,
	    .depot_hits = -1};
}

static size_t order_wanted;

static double
sort_value(const struct row *row)
{
	return *(const double *)(const void *)((const char *)row +
					       orders[order_wanted].offset);
}

static int
order_caches(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	int by_name = strcmp(x->name, y->name);

	/* Two caches may have one name. */
	if (by_name == 0)
		by_name = order_numbers(x->at, y->at);
	return order_rows(sort_value(x), sort_value(y),
	    order_rows(x->memory, y->memory, by_name));
}

static struct row *
rows_make(const struct top *top, size_t *n)
{
	const struct usage *u = &top->now;
	struct row *rows = xalloc((u->ncaches + 3) * sizeof(*rows));

	*n = 0;
	for (size_t i = 0; i < u->ncaches; i++)
		if (u->caches[i].memory != 0)
			rows[(*n)++] = row_of(top, &u->caches[i]);
	if (u->s.large_bytes != 0)
		rows[(*n)++] = row_of_bytes(top, "[large blocks]",
		    u->s.large_bytes, top->first.s.large_bytes);
	if (u->s.sampled_bytes != 0)
		rows[(*n)++] = row_of_bytes(top, "[samples]",
		    u->s.sampled_bytes, top->first.s.sampled_bytes);
	if (u->s.arena_bytes != 0)
		rows[(*n)++] = row_of_bytes(top, "[other arenas]",
		    u->s.arena_bytes, top->first.s.arena_bytes);
	order_wanted = top->order;
	ARRAY_SORT(rows, *n, order_caches);
	return rows;
}

/* Returns a rate or a percentage; "-": not known. */
static const char *
number_text(bool known, double number)
{
	static char texts[8][32];
	static unsigned next;
	char *text = texts[next++ % array_size(texts)];

	if (!known)
		return "-";
	snprintf(text, sizeof(texts[0]), "%.*f",
	    number > 0 && number < 9.95 ? 1 : 0, number);
	return text;
}

/* Returns the number of columns for which there is space beside the names. */
static size_t
columns_shown(void)
{
	size_t n = array_size(columns), width = NAME_BYTES_MIN;

	for (size_t i = 0; i < n; i++)
		width += 1 + columns[i].width;
	while (n > 1 && width > screen.width)
		width -= 1 + columns[--n].width;
	return n;
}

static size_t
name_width(void)
{
	size_t width = screen.width, n = columns_shown();

	for (size_t i = 0; i < n; i++)
		width -= width > columns[i].width ? 1 + columns[i].width : 0;
	return width > NAME_BYTES_MAX   ? NAME_BYTES_MAX
	       : width < NAME_BYTES_MIN ? NAME_BYTES_MIN
					: width;
}

/* Adds a row with this name and texts, one for each column. */
static void
add_cells(const char *name, const char *const *texts)
{
	char line[NAME_BYTES_MAX + 8 * 32], *start;
	size_t n = columns_shown(), used;

	start = text_shortened(name, name_width());
	used = (size_t)snprintf(
	    line, sizeof(line), "%-*s", (int)name_width(), start);
	free(start);
	for (size_t i = 0; i < n && used < sizeof(line); i++)
		used += (size_t)snprintf(line + used, sizeof(line) - used,
		    " %*s", (int)columns[i].width, texts[i]);
	line_add("%s", line);
}

static void
add_cache(const struct row *row)
{
	const char *texts[array_size(columns)] = {
	    bytes_text(row->memory, false), bytes_text(row->in_use, false),
	    bytes_text(row->cached, false),
	    row->has_growth ? growth_text(row->growth, false) : "-",
	    number_text(row->moves, row->loads),
	    number_text(row->cpu_hits >= 0, row->cpu_hits * 100),
	    number_text(row->depot_hits >= 0, row->depot_hits * 100),
	    number_text(row->moves, row->locks)};

	add_cells(row->name, texts);
}

static void
add_head(void)
{
	const char *texts[array_size(columns)];

	for (size_t i = 0; i < array_size(columns); i++)
		texts[i] = columns[i].title;
	add_cells("CACHE", texts);
}

/* Adds the table of caches in at most rows lines. */
static void
add_caches(const struct top *top, size_t rows)
{
	size_t n, shown;
	struct row *row = rows_make(top, &n);

	add_head();
	rows = rows > 1 ? rows - 1 : 0;
	shown = n <= rows ? n : rows > 0 ? rows - 1 : 0;
	for (size_t i = 0; i < shown; i++)
		add_cache(&row[i]);
	if (shown < n && rows > 0)
		line_add("%zu more caches", n - shown);
	free(row);
}

static void
add_sites(const struct top *top, size_t rows)
{
	size_t n = 0, shown;

	while (n < top->watch.sites.n && top->watch.sites.site[n]->bytes > 0)
		n++;
	line_add("%8s %8s %8s  CALL SITE (estimates from samples)", "BYTES",
	    "GROWTH", "BLOCKS");
	rows = rows > 1 ? rows - 1 : 0;
	shown = n <= rows ? n : rows > 0 ? rows - 1 : 0;
	for (size_t i = 0; i < shown; i++) {
		const struct top_site *s = top->watch.sites.site[i];
		/* Half a block is the error of rounding. */
		bool estimated = s->blocks - (double)s->nsamples >= 0.5;

		line_add("%8s %8s %8s  %s", bytes_text(s->bytes, estimated),
		    top->nlooks != 0
			? growth_text(s->bytes - s->first, estimated)
			: "-",
		    count_text(s->blocks, estimated), s->name);
	}
	if (shown < n && rows > 0)
		line_add("%zu more call sites", n - shown);
	if (n == 0 && top->watch.mean != 0)
		line_add("no sample yet, of one in %s bytes",
		    size_text(top->watch.mean));
	else if (n == 0 && top->watch.target->live &&
		 !model_can_sample(&top->watch.model))
		line_add("sampling is off, because every block is checked");
	else if (n == 0 && top->watch.target->live)
		line_add(
		    "sampling is off; umem ctl %d sample=default turns it on",
		    top->watch.target->pid);
	else if (n == 0)
		line_add("sampling was off");
}

char **
top_lines(const struct top *top, size_t rows, size_t width, size_t *n)
{
	size_t left = CACHE_ROWS + SITE_ROWS + 2,
	       nsites = top->watch.sites.n + 1;
	char *identity, *rest, *line;

	lines_clear();
	screen.width = width;
	if (top->nlooks != 0)
		add_title(top);
	rest = identity = usage_text(&top->now, screen.width);
	while ((line = strsep(&rest, "\n")) != NULL)
		line_add("%s", line);
	free(identity);
	if (top->nlooks != 0) {
		add_limit(
		    "soft", top->now.s.heap_bytes, top->now.s.soft_limit_bytes);
		add_limit("hard", top->now.s.limited_bytes,
		    top->now.s.hard_limit_bytes);
	}
	if (rows != 0)
		left = rows > screen.n + 1 ? rows - screen.n - 1 : 0;
	if (nsites < 2)
		nsites = 2;
	if (nsites > left / 2)
		nsites = left / 2;
	add_caches(top, left - nsites);
	if (nsites > 1)
		add_sites(top, nsites);
	*n = screen.n;
	return screen.line;
}
