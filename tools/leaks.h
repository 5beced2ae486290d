/* leaks.h - leaks of a model that has everything; see leaks.c */
#ifndef TOOLS_LEAKS_H
#define TOOLS_LEAKS_H

#include "tools/model.h"

struct leaks_figures {
	uint64_t nwords;   /* looked at */
	uint64_t nmisses;  /* in the heap, and no live block */
	uint64_t ndups;    /* marked before */
	uint64_t nfollows; /* marked by this */
	uint64_t nobjects; /* live */
};

/* Marks what can be reached. */
void leaks_mark(struct model *model, struct leaks_figures *figures);

/* Calls f for each leak: chunk i of a slab, or a large block. */
typedef void leaks_func(
    struct model *model, struct slab *slab, struct large *large, unsigned i);
void leaks_each(struct model *model, leaks_func *f);

struct leaks_options {
	bool details;
	bool figures;
	const char *caller; /* only with this in the stack; or NULL */
};

/* Prints the report on standard output; EXIT_FINE or EXIT_FOUND. */
int leaks_report(struct model *model, const struct leaks_options *options);

#endif
