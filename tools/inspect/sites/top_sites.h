/* top_sites.h - call sites of samples, read again and again; top_sites.c */
#ifndef TOOLS_TOP_SITES_H
#define TOOLS_TOP_SITES_H

#include "tools/inspect/model/model.h"

struct top_site {
	const char *name;
	double bytes, blocks; /* estimates */
	double first;         /* bytes at the first look */
	uint64_t nsamples;
};

/* Samples with one stack. */
struct top_stack {
	const uint64_t *stack;
	unsigned depth;
	struct top_site *site;
};

struct top_sites {
	void *by_stack, *by_name; /* for tsearch() */
	struct top_site **site;   /* the largest first */
	size_t n, capacity;
	char **copies; /* of the samples in the target */
	size_t ncopies, copies_capacity;
	bool looked;
};

/*
 * Reads the samples of a process that runs, or of a core, into model->samples,
 * valid until top_sites_forget().
 */
void top_sites_read(struct top_sites *sites, struct model *model);

/* Counts these samples by call site. */
void top_sites_count(struct top_sites *sites, struct model *model);
void top_sites_forget(struct top_sites *sites, struct model *model);

#endif
