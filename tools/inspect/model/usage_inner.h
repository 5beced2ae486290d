/* usage_inner.h - for usage.c and usage_caches.c */
#ifndef TOOLS_USAGE_INNER_H
#define TOOLS_USAGE_INNER_H

#include "tools/inspect/model/model_inner.h"
#include "tools/inspect/model/usage.h"

/* Figures that are read besides the result. */
struct reading {
	struct model *model;
	struct usage *usage;
	uint64_t ncpus;
	uint64_t slab_bytes; /* memory of the heap in slabs */
	uint64_t absent;     /* addresses of the heap without memory in slabs */
	uint64_t opened;     /* addresses of the firewall that have memory */
};

/* Returns a member of the variable with this name. */
static inline uint64_t
member_of(const struct reading *r, enum layout_entry variable,
    enum layout_entry member)
{
	return model_member(
	    r->model, layout_value(r->model->layout, variable), member);
}

/* Reads the caches, and the magazines of the CPUs; usage_caches.c. */
void usage_caches_read(struct reading *r);

#endif
