/* look.h - the call sites of one look at a program, saved and compared */
#ifndef TOOLS_LOOK_H
#define TOOLS_LOOK_H

#include "tools/inspect/sites/sites.h"

struct look_row {
	const char *name;
	const char *callers;
	double bytes, blocks;
	bool estimated;
	/* Samples of the estimate; 0: the samples do not explain it. */
	double nsamples;
};

struct look {
	bool of_leaks; /* else of users */
	double time;   /* in s since 1970; 0: not known */
	struct look_row *rows;
	size_t nrows, capacity;
};

/* Returns the rows of sites, which are finished. */
struct look look_of_sites(struct sites *sites);

/* Writes a look to a file, or ends the command. */
void look_write(const struct look *look, FILE *file, const char *path);
void look_save(const struct look *look, const char *path);

/*
 * Reads a saved look from a file, or ends the command.  Returns false if the
 * file is not such a file at all.
 */
bool look_read(struct look *look, FILE *file, const char *path);

/*
 * Takes a look at a process or a core, in a child process.  Returns false if
 * that failed; the child has printed the reason.
 */
bool look_take(const char *target, bool of_leaks, struct look *look);

/*
 * Prints the growth between two looks, or if every is set, all rows.  Returns
 * EXIT_FOUND if leaks have grown, else EXIT_OK.
 */
int look_print_growth(
    const struct look *before, const struct look *after, bool every);

#endif
