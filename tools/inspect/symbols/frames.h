/* frames.h - patterns of functions; see frames.c */
#ifndef TOOLS_FRAMES_H
#define TOOLS_FRAMES_H

#include "tools/inspect/base/text.h"

/* The kinds of frames.txt, as bits. */
enum {
	FRAME_LIBRARY = 1,
	FRAME_ALLOCATOR = 2,
	FRAME_RUNTIME = 4,
	FRAME_GENERATED = 8
};

struct pattern {
	const char *text;
	unsigned kind;
	bool used; /* it has matched */
};

struct patterns {
	struct pattern *pattern;
	size_t n, capacity;
};

/*
 * Adds the patterns of a file, a line each, and closes it; NULL: of the file at
 * path.  Ends the command with this status if it cannot be read.
 */
void patterns_read(
    struct patterns *patterns, FILE *file, const char *path, int failure);

/* Returns a pattern of these kinds that matches, from this one on, or NULL. */
struct pattern *patterns_match(
    struct patterns *patterns, const char *name, unsigned kinds, int flags);

/* Reads more patterns, for --frames. */
void frames_read(const char *path);

/* Returns the kinds of a function; object and function may be NULL. */
unsigned frames_kinds(const char *object, const char *function);

#endif
