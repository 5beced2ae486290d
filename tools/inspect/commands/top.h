/* top.h - the figures and lines of umem top; see top_lines.c */
#ifndef TOOLS_TOP_H
#define TOOLS_TOP_H

#include "tools/inspect/commands/watch.h"

struct top {
	struct watch watch;
	struct usage now, before, first;
	size_t nlooks;
	double interval; /* seconds */
	size_t order;    /* top_order_named() */
	bool has_before; /* rates are known */
};

/*
 * Returns the screen as lines of at most width columns; rows: at most so many,
 * or 0.  Without a look (nlooks is 0) the figures in now have no title, and hit
 * rates are those since the start of the program.  The lines stay valid until
 * the next call.
 */
char **top_lines(const struct top *top, size_t rows, size_t width, size_t *n);

/* Returns the order of the caches with this name, or ends the command. */
size_t top_order_named(const char *name);

#endif
