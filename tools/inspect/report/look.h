/* look.h - the call sites of one look at a program, saved and compared */
#ifndef TOOLS_LOOK_H
#define TOOLS_LOOK_H

#include "tools/inspect/sites/sites.h"

struct look_row {
	const char *name; /* of a call site, or the functions of a stack */
	const char *callers;
	double bytes, blocks;
	bool estimated;
	/* Samples of the estimate; 0: the samples do not explain it. */
	double nsamples;
	bool of_stack; /* the outermost function is first, ";" is between */
};

enum look_kind {
	LOOK_LEAKS,
	LOOK_USERS,
	LOOK_REACHABLE, /* the users that are no leaks */
	LOOK_GROWTH     /* between two looks */
};

struct look {
	enum look_kind kind;
	const char *caller; /* part of its name; NULL: of any */
	double time;        /* in s since 1970; 0: not known */
	struct look_row *rows;
	size_t nrows, capacity;
	bool has_stacks; /* rows, or space for some in a file */
};

/*
 * Returns the rows of sites, which are finished, with at most so many callers
 * each, and on request a row for each stack.
 */
struct look look_of_sites(struct sites *sites, unsigned callers, bool stacks);

/* Writes a look to a file, or ends the command. */
void look_write(const struct look *look, FILE *file, const char *path);
void look_save(const struct look *look, const char *path);

/*
 * Reads a saved look from a file, or ends the command.  Returns false if the
 * file is not such a file at all.
 */
bool look_read(struct look *look, FILE *file, const char *path);

/* The growth between two looks, by call sites or by stacks; see look.c. */
struct growth *growth_of(
    const struct look *before, const struct look *after, bool stacks);

/* Has any call site, or the rest, grown? */
bool growth_is_more(const struct growth *growth);

/* Returns "since the look 1m00s before". */
const char *growth_since(const struct growth *growth);

/* Prints the growth; if every is set, all rows.  Are some of them estimates? */
bool growth_print(const struct growth *growth, bool every);

/* Prints it as members of an open JSON object. */
void growth_json(const struct growth *growth);

/* Adds rows for the growth to a look. */
void growth_add(const struct growth *growth, struct look *look);

#endif
