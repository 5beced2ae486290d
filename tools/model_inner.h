/*
 * model_inner.h - what the files of the model share; see model.c
 *
 * model_magazines.c takes what CPUs and depots hold, model_deferred.c objects
 * that wait for a grace period, model_arenas.c arenas.
 */
#ifndef TOOLS_MODEL_INNER_H
#define TOOLS_MODEL_INNER_H

#include "tools/model.h"

/* More than Linux knows of, and more than a slab has. */
#define CPUS_MOST   8192
#define CHUNKS_MOST ((unsigned)1 << 24)

static inline uint64_t
model_variable(struct model *model, enum layout_entry entry)
{
	return layout_variable(model->layout, model->target, entry);
}

/* A record of the target, copied; NULL: not in memory that we have. */
static inline const char *
model_record(struct model *model, uint64_t at, enum layout_entry bytes)
{
	return target_at(model->target, at, layout_value(model->layout, bytes));
}

static inline uint64_t
model_get(struct model *model, const void *from, enum layout_entry entry)
{
	return layout_get(model->layout, from, entry);
}

static inline uint64_t
model_word(struct model *model, uint64_t at)
{
	const uint64_t *word = target_at(model->target, at, sizeof(*word));

	return word ? *word : 0;
}

/* What follows the list head or link at at. */
uint64_t model_list_first(struct model *model, uint64_t at);

/* CPUs that the library has headers for. */
uint64_t model_cpus_used(struct model *model);

/* Every CPU's header of a cache; count: and what is in there. */
void model_take_headers(struct model *model, struct cache *c, bool count);

/* The headers of one CPU, of a cache or of a layer; f is called for rounds. */
void model_take_header(struct model *model, uint64_t hot, uint64_t cold,
    uint64_t cpu, bool count, model_round_func *f, void *arg);

/* An idle resource of an import cache, which may be an address. */
void model_add_resource(struct model *model, uint64_t resource);

/* A list of magazines that begins at at. */
void model_take_list(
    struct model *model, uint64_t at, model_round_func *f, void *arg);

/* Looks for headers of layers that are being changed: see nunsure. */
void model_look_at_layers(struct model *model);

/* The domains, and the objects that wait. */
void model_take_waiting(struct model *model);

void model_take_magazines(struct model *model);

/* What the library has freed of its own memory, list by list. */
void model_take_freed(struct model *model);

void model_take_arenas(struct model *model);

#endif
