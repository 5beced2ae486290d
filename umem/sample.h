/* sample.h - one allocation in about N bytes is remembered; see sample.c */
#ifndef UMEM_SAMPLE_H
#define UMEM_SAMPLE_H

#include "umem/umem.h"
#include "vmem/base.h"

/*
 * Is sampling on?  Read by the slow paths; written by umem_sample(), and by
 * the command from outside the process (tools/cmd_sample.c).
 */
struct sampling {
	size_t mean; /* [a] bytes from one sample to the next; 0: off */
	size_t able; /* started, and nothing debugs or checks */
	/* [a] malloc() counts smaller sizes; see "On and off" in sample.c. */
	size_t counted_end;
} __attribute__((aligned(CACHE_LINE)));

extern struct sampling sampling;

/* Mean that UMEM_OPTIONS asks for, before the library is started. */
extern size_t sample_wanted;

enum sample_state {
	SAMPLE_NONE, /* the record is free */
	SAMPLE_LIVE,
	SAMPLE_FREED,  /* its pages are gone, and stay so for a while */
	SAMPLE_WAITING /* freed, and waits for a grace period */
};

/* What is kept of a block that was taken as a sample. */
struct sample {
	void *at;      /* what the program has */
	char *span;    /* unit that it starts in */
	char *unit;    /* of the record, for small blocks; NULL: none yet */
	uint64_t size; /* as asked for */
	uint64_t mean; /* when it was taken */
	uint64_t time; /* ns, CLOCK_MONOTONIC */
	uint64_t thread;
	uint64_t freed_time;
	uint64_t freed_thread;
	uint32_t state; /* [a] enum sample_state */
	uint32_t index; /* in the table */
	uint32_t next;  /* [sample_lock] free record, or slot; 0: the last */
	uint16_t depth, freed_depth;
	uint32_t guarded;
	uint32_t nframes;  /* room for a stack; a guarded one has two */
	uintptr_t stack[]; /* then, at nframes, of who freed it */
};

/* Bytes until this thread looks whether a sample is due: static TLS. */
struct sample_count {
	int32_t left; /* above 0; 0: a new thread */
	bool due;     /* then one is */
};
extern __thread struct sample_count sample_count
    __attribute__((tls_model("initial-exec")));

static inline bool
sample_is_on(void)
{
	return __atomic_load_n(&sampling.mean, __ATOMIC_RELAXED) != 0;
}

/* Counts a small size.  False: ask sample_ran_out(). */
static inline __attribute__((always_inline)) bool
sample_spend(size_t size)
{
	return (sample_count.left -= (int32_t)size) > 0;
}

/* Is the block of this size, counted by sample_spend(), to be a sample? */
bool sample_ran_out(size_t size);

/* The same for any size, which has not been counted. */
bool sample_is_due(size_t size);

/*
 * A block that is a sample; align is a power of two.  NULL: it cannot be one,
 * and is to be had the usual way.
 */
void *sample_take(size_t size, size_t align, bool *zeroed);

/*
 * By the number that addr_map_sample_index() has.  What was freed already is
 * reported, in the name of who, as the last thing the program does.
 */
size_t sample_usable(uint32_t index, const char *who);
size_t sample_size(uint32_t index);
void sample_free(uint32_t index, const char *who);

/*
 * As sample_free(), in two steps, for a free that waits for a grace period; the
 * third function takes the first step back.  sample_waits(): between the two?
 */
void sample_defer(uint32_t index, const char *who);
void sample_free_deferred(uint32_t index);
void sample_defer_undo(uint32_t index);
bool sample_waits(uint32_t index);

/* Another size; the first within sample_usable(), the second never. */
void sample_stays(uint32_t index, size_t size);
void *sample_resize(uint32_t index, size_t size);

/* The last step of the start. */
void sample_start(void);

/* Samples count as large blocks: what that is too much, and too little. */
size_t sample_slack(void);
size_t sample_guarded(size_t *bytes);

void sample_lock_for_fork(void);
void sample_unlock_for_fork(void);

/* In the child of fork(), which is not to draw as its parent does. */
void sample_after_fork(void);

#endif
