/* samples.h - blocks of the target that were sampled; see samples.c */
#ifndef TOOLS_SAMPLES_H
#define TOOLS_SAMPLES_H

#include "tools/inspect/model.h"

/* A record; see umem/malloc/sample.h. */
struct sample {
	uint64_t record;
	uint64_t at;   /* of the block */
	uint64_t span; /* unit in which it starts */
	uint64_t size;
	uint64_t mean;
	uint64_t time, freed_time; /* ns */
	uint64_t thread, freed_thread;
	const uint64_t *stack, *freed_stack; /* in our copy */
	unsigned depth, freed_depth;
	bool live;  /* else freed recently, with inaccessible pages, ... */
	bool waits; /* ... or freed, waiting for a grace period */
	bool guarded;
};

/* Reads the table; for model_take(). */
void samples_take(struct model *model);

/* Returns the sampling interval in bytes; 0: sampling is off. */
uint64_t samples_mean(const struct model *model);

/* Returns sample number index if it starts in this unit, else NULL. */
const struct sample *samples_of(
    const struct model *model, uint32_t index, uint64_t span);

/* Returns the sample with this record, or NULL. */
const struct sample *samples_by_record(
    const struct model *model, uint64_t record);

/* Returns the number of blocks that a sample stands for, itself included. */
double samples_weight(const struct sample *s);

/* Returns the time from which ages count, in ns. */
uint64_t samples_now(const struct model *model);

/* For whatis: prints the sample at or near this address, and its stacks. */
bool samples_say(struct model *model, uint64_t at);

#endif
