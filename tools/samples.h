/* samples.h - blocks of the target that were sampled; see samples.c */
#ifndef TOOLS_SAMPLES_H
#define TOOLS_SAMPLES_H

#include "tools/model.h"

/* A record; see umem/sample.h. */
struct sample {
	uint64_t record;
	uint64_t at;   /* of the block */
	uint64_t span; /* unit that it starts in */
	uint64_t size;
	uint64_t mean;
	uint64_t time, freed_time; /* ns */
	uint64_t thread, freed_thread;
	const uint64_t *stack, *freed_stack; /* in our copy */
	unsigned depth, freed_depth;
	bool live;  /* else freed a while ago, with its pages kept away, ... */
	bool waits; /* ... or freed, for a grace period */
	bool guarded;
};

/* Reads the table; for model_take(). */
void samples_take(struct model *model);

/* Bytes from one sample to the next; 0: sampling is off. */
uint64_t samples_mean(const struct model *model);

/* Number index if it starts in this unit, else NULL. */
const struct sample *samples_of(
    const struct model *model, uint32_t index, uint64_t span);

/* By the address of the record; NULL: it is none. */
const struct sample *samples_by_record(
    const struct model *model, uint64_t record);

/* Blocks that a sample stands for, itself included. */
double samples_weight(const struct sample *s);

/* The moment that ages count from, in ns. */
uint64_t samples_now(const struct model *model);

/* For whatis: the block at or near this address, and its stacks. */
bool samples_say(struct model *model, uint64_t at);

#endif
