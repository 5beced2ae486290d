/* plot.h - a recording of the memory of a process, and its page */
#ifndef TOOLS_PLOT_H
#define TOOLS_PLOT_H

#include "tools/inspect/flame.h"
#include "tools/inspect/look.h"
#include "tools/inspect/usage.h"

struct plot_look {
	double time; /* seconds since the start */
	uint64_t rss, untouched;
	uint64_t layer[USAGE_LAYERS];
};

/* A call site of samples, at the last look. */
struct plot_site {
	const char *name;
	double bytes, blocks; /* estimates */
	double growth;        /* of the bytes since the first look */
};

struct plot {
	const char *program;
	const char *pid;
	double start; /* in s since 1970 */
	struct plot_look *looks;
	size_t nlooks, looks_capacity;
	double mean; /* sampling interval; 0: off */
	struct plot_site *sites;
	size_t nsites, sites_capacity;
	struct flame_stack *stacks;
	size_t nstacks, stacks_capacity;
	const char *ended;    /* why the process could be looked at no more */
	const char *no_leaks; /* why leaks is not there; or NULL */
	struct look leaks;
	bool is_whole; /* else only the looks are there */
};

/* Adds a look, taken so many seconds after the start. */
void plot_add(struct plot *plot, double time, const struct usage *usage);

/*
 * Write the parts of a record: the head, the newest look, and the rest.  They
 * end the command if that fails.
 */
void plot_write_head(const struct plot *plot, FILE *file, const char *path);
void plot_write_look(const struct plot *plot, FILE *file, const char *path);
void plot_write_rest(const struct plot *plot, FILE *file, const char *path);

/* Reads a record, or ends the command. */
void plot_read(struct plot *plot, const char *path);

/* Writes the page to standard output. */
void plot_write_page(const struct plot *plot);

/* Writes the areas with their axes and the table of the layers into a page. */
void plot_write_chart(const struct plot *plot);
extern const char plot_style[];

/* Returns "+4 MiB", "-300 B" or "0 B". */
const char *plot_growth_text(double growth, bool estimated);

#endif
