/*
 * model_inner.h - declarations shared by the files of the model; see model.c
 *
 * model_magazines.c reads the magazines of CPUs and depots, model_deferred.c
 * reads the objects that wait for a grace period, model_samples.c reads the
 * sampled blocks, and model_arenas.c reads the arenas.
 */
#ifndef TOOLS_MODEL_INNER_H
#define TOOLS_MODEL_INNER_H

#include "tools/inspect/model/model.h"

/* Above the maxima of Linux and of a slab. */
#define CPUS_MAX   8192
#define CHUNKS_MAX ((unsigned)1 << 24)

static inline uint64_t
model_variable(struct model *model, enum layout_entry entry)
{
	return layout_variable(model->layout, model->target, entry);
}

/* Returns a member of the record at at, copied or not; 0: it has no memory. */
static inline uint64_t
model_member(struct model *model, uint64_t at, enum layout_entry member)
{
	uint64_t value = 0;

	layout_peek(model->layout, model->target, at, member, &value);
	return value;
}

/* Returns the word at at, copied or not; 0: it has no memory. */
static inline uint64_t
model_peek_word(struct model *model, uint64_t at)
{
	uint64_t word = 0;

	target_peek(model->target, at, &word, sizeof(word));
	return word;
}

/*
 * Counts bytes of structures that the model reads.  In a damaged target, lists
 * may have the same memory in each of their items, or items that overlap, so
 * that to read them all would take hours: ends the command if it reads much
 * more than the target has.
 */
void model_charge(struct model *model, uint64_t bytes);

/* Returns the copy of memory of the target, which is made now if it runs. */
static inline const void *
model_at(struct model *model, uint64_t at, uint64_t bytes)
{
	return model->runs ? target_fetch(model->target, at, bytes)
			   : target_at(model->target, at, bytes);
}

/* Returns the copy of a record of the target, or NULL if there is none. */
static inline const char *
model_record(struct model *model, uint64_t at, enum layout_entry entry)
{
	uint64_t bytes = layout_value(model->layout, entry);
	const char *record = model_at(model, at, bytes);

	if (record != NULL)
		model_charge(model, bytes);
	return record;
}

/* Returns the copy of n words, or NULL. */
static inline const uint64_t *
model_array(struct model *model, uint64_t at, uint64_t n)
{
	const uint64_t *array = at % 8 != 0 || n > UINT64_MAX / 8
				    ? NULL
				    : model_at(model, at, 8 * n);

	if (array != NULL)
		model_charge(model, 8 * n);
	return array;
}

static inline uint64_t
model_get(struct model *model, const void *from, enum layout_entry entry)
{
	return layout_get(model->layout, from, entry);
}

static inline uint64_t
model_word(struct model *model, uint64_t at)
{
	const uint64_t *word = model_array(model, at, 1);

	return word ? *word : 0;
}

/* Returns the address of a table of the page map. */
uint64_t model_map_table(struct model *model, enum layout_entry which);

/* Begins to count by model_charge(). */
void model_charge_anew(struct model *model);

/*
 * Reads the lists of caches and of destroyed ones, again if the copies are new.
 */
void model_take_caches(struct model *model);

/* Makes the model from the copies of a target. */
void model_analyse(struct model *model);

/* Returns the item after the list head or link at at. */
uint64_t model_list_first(struct model *model, uint64_t at);

/* Returns the number of CPUs for which the library has headers. */
uint64_t model_cpus_used(struct model *model);

/* Reads every CPU's header of a cache; count: counts its rounds, too. */
void model_take_headers(struct model *model, struct cache *c, bool count);

/* Reads one CPU's headers of a cache or group; calls f for each round. */
void model_take_header(struct model *model, uint64_t hot, uint64_t cold,
    uint64_t cpu, bool count, model_round_func *f, void *arg);

/*
 * Counts a chunk as free, although its slab has it as allocated.  Returns its
 * cache, or NULL if there is no allocated chunk at at; sets *block.
 */
struct cache *model_take_chunk(
    struct model *model, uint64_t at, struct block *block);

/* Adds an idle resource of an import cache, which may be an address. */
void model_add_resource(struct model *model, uint64_t resource);

/* Reads a list of magazines that begins at at. */
void model_take_list(
    struct model *model, uint64_t at, model_round_func *f, void *arg);

/* Finds claimed headers of groups: see ninconsistent. */
void model_look_at_groups(struct model *model);

/* Reads the domains and groups, again if the copies are new. */
void model_take_domains(struct model *model);

/* Reads the domains, and the objects that wait. */
void model_take_waiting(struct model *model);

void model_take_magazines(struct model *model);

/* Reads the lists of memory that the library has freed to itself. */
void model_take_freed(struct model *model);

/* Reads the table of samples. */
void model_take_samples(struct model *model);

/* Returns sample number index if it starts in this unit, else NULL. */
const struct sample *model_sample_of(
    const struct model *model, uint32_t index, uint64_t span);

void model_take_arenas(struct model *model);

#endif
