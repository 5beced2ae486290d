/* usage_inner.h - for usage.c and usage_caches.c */
#ifndef TOOLS_USAGE_INNER_H
#define TOOLS_USAGE_INNER_H

#include "tools/inspect/model/model_inner.h"
#include "tools/inspect/model/usage.h"

/* Figures that are read besides the result. */
struct reading {
	struct model *model;
	struct usage *usage;
	char **blocks; /* of each region and CPU, copies; NULL: no memory */
	uint64_t *block_at;
	size_t nblocks, blocks_capacity, at_capacity;
	size_t ncpus;
	uint64_t slab_bytes; /* memory of the heap in slabs */
	uint64_t absent;     /* addresses of the heap without memory in slabs */
	uint64_t opened;     /* addresses of the firewall that have memory */
};

static inline uint64_t
value_of(const struct reading *r, enum layout_entry entry)
{
	return layout_value(r->model->layout, entry);
}

static inline uint64_t
usage_get(const struct reading *r, const char *from, enum layout_entry entry)
{
	return layout_get(r->model->layout, from, entry);
}

static inline uint64_t
variable_of(const struct reading *r, enum layout_entry entry)
{
	return layout_variable(r->model->layout, r->model->target, entry);
}

/* Returns a member of the record at at, or 0. */
static inline uint64_t
member_at(const struct reading *r, uint64_t at, enum layout_entry member)
{
	uint64_t value = 0;

	layout_peek(r->model->layout, r->model->target, at, member, &value);
	return value;
}

/* Adds memory of the library. */
void usage_range_add(struct reading *r, uint64_t at, uint64_t bytes);

/* Reads the caches, and the magazines of the CPUs; usage_caches.c. */
void usage_caches_read(struct reading *r);

#endif
