/* leaks.h - leaks of a model with MODEL_POINTERS; see leaks.c */
#ifndef TOOLS_LEAKS_H
#define TOOLS_LEAKS_H

#include "tools/inspect/model.h"

struct leaks_figures {
	uint64_t nwords;   /* examined */
	uint64_t nmisses;  /* in the heap, and not in a live block */
	uint64_t ndups;    /* in a block that is already marked */
	uint64_t nfollows; /* marked a block */
	uint64_t nobjects; /* live blocks */
};

/* Marks all chunks and blocks that the program can reach. */
void leaks_mark(struct model *model, struct leaks_figures *figures);

/* Calls f for each leak: chunk i of a slab, or a large block. */
typedef void leaks_func(
    struct model *model, struct slab *slab, struct large *large, unsigned i);
void leaks_each(struct model *model, leaks_func *f);

struct leaks_options {
	bool details;
	bool figures;
	const char *caller; /* selects stacks with this in a name; or NULL */
};

/* Prints the report on standard output; returns EXIT_OK or EXIT_FOUND. */
int leaks_report(struct model *model, const struct leaks_options *options);

#endif
