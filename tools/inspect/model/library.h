/* library.h - the memory of the library itself; see library.c */
#ifndef TOOLS_LIBRARY_H
#define TOOLS_LIBRARY_H

#include "tools/inspect/model/model.h"

struct range {
	uint64_t start;
	uint64_t end;
};

struct ranges {
	struct range *range;
	size_t n, capacity;
};

void ranges_add(struct ranges *ranges, uint64_t start, uint64_t bytes);

void ranges_sort(struct ranges *ranges);

/*
 * These add a part of the library's memory.  The target may run: the lists that
 * lead to the memory are read from the copies, or else from the target.
 */
void library_add_meta(struct model *model, struct ranges *out);
void library_add_cpus(struct model *model, struct ranges *out);
void library_add_logs(struct model *model, struct ranges *out);

/* Adds the heap up to an address, first, and the tables of its units. */
void library_add_heap(struct model *model, uint64_t end, struct ranges *out);

/* Returns all memory of the library itself, and the heap; sorted. */
struct ranges library_ranges(struct model *model);

#endif
