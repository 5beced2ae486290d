/*
 * sample.h - heap profiling by samples, one in about N bytes allocated; see
 * sample.c
 */
#ifndef UMEM_SAMPLE_H
#define UMEM_SAMPLE_H

#include "umem/profile/sample_stack.h"
#include "umem/umem.h"
#include "vmem/base.h"

/*
 * State of sampling.  The slow paths read it.  umem_sample() writes it, and so
 * does the umem command from outside (tools/inspect/model/change.c).
 */
struct sampling {
	size_t mean;       /* [a] mean bytes between two samples; 0: off */
	size_t is_allowed; /* started, and no debugging, no checks */
	/*
	 * [a] Sizes below it that are not below small_end are counted: all
	 * small ones, or none.
	 */
	size_t counted_end;
	/* [a] The mean for which alloc_choose_paths() has chosen the paths. */
	size_t chosen;
	size_t is_halving; /* [a] a thread halves the samples */
} __attribute__((aligned(CACHE_LINE)));

extern hidden struct sampling sampling;

/* Calls of the allocation engine, which defines the table (alloc.c). */
extern hidden const struct sample_engine {
	/* Chooses the paths for the present mean. */
	void (*choose_paths)(void);
} sample_engine;

/* Live samples, at which the interval is doubled. */
#define SAMPLES_MAX 32768

/* The largest number of a record.  Tests make it smaller. */
extern hidden uint32_t sample_records_most;

/*
 * Variable of the option sample: the mean distance, in bytes, that UMEM_OPTIONS
 * asks for; later that of the last sample_refresh_option().
 */
extern hidden size_t sample_wanted;

enum sample_state {
	SAMPLE_NONE, /* the record is free */
	SAMPLE_LIVE,
	SAMPLE_FREED,  /* pages are released, and stay so for a while */
	SAMPLE_WAITING /* freed; waits for a grace period */
};

/* The record of a block that was taken as a sample. */
struct sample {
	void *block; /* its address */
	/* The cache, if the block is an object of one; otherwise NULL. */
	struct umem_cache *cache;
	char *span;       /* unit in which it starts */
	char *own_unit;   /* the record's, see sample_unit.c; NULL: none yet */
	uint64_t size;    /* [a] bytes requested */
	uint64_t counted; /* size when it was taken */
	/*
	 * sampling.mean when it was taken; twice that for each time that the
	 * samples were halved; [sample_lock] while it is live
	 */
	uint64_t mean;
	uint64_t weight;     /* bytes for which it stood when it was taken */
	uint64_t page_bytes; /* of its pages; they end at the guard page */
	uint64_t time;       /* ns, CLOCK_MONOTONIC */
	uint64_t thread;
	uint64_t freed_time;
	uint64_t freed_thread;
	uint32_t state;        /* [a] enum sample_state */
	uint32_t index;        /* in the table */
	uint32_t next;         /* [sample_lock] next free record; 0: the last */
	uint32_t is_guarded;   /* [I] */
	uint32_t has_guard;    /* guarded: the guard page is inaccessible */
	uint32_t is_protected; /* guarded: so are the pages */
	uint32_t is_warm; /* free, and the first page of own_unit is resident */
	/*
	 * [a] The block is one of the samples; 0: it was one until their number
	 * was halved, see "Too many samples" in sample.c.
	 */
	uint32_t is_counted;
	/*
	 * That of the allocation, and of the free if the record is guarded; the
	 * record has references to both until it is filled again.  NULL: none.
	 */
	struct sample_stack *stack, *freed_stack;
};

static inline bool
sample_is_on(void)
{
	return load_relaxed(&sampling.mean) != 0;
}

/*
 * Allocates a sample; align is a power of two.  cache is that of an object,
 * which the caller constructs, and NULL for a block.  Returns NULL if the block
 * cannot be a sample; the caller then allocates it the usual way.
 */
void *sample_take(
    size_t size, size_t align, struct umem_cache *cache, bool *zeroed);

/* Takes back a sample that the program has not received. */
void sample_drop(void *block);

/* Returns the cache of which this sample is an object; NULL: it is a block. */
struct umem_cache *sample_cache(uint32_t index);

/*
 * Frees a sample that is an object of a cache, after it has called the
 * destructor.  object is the address that the program passed.  Misuse is
 * reported like that of sample_free().
 */
void sample_free_object(uint32_t index, void *object, const char *api);

/*
 * Functions on the sample with a number from page_map_sample_index().  If the
 * block has been freed already, sample_usable() and sample_free() report that
 * and abort; the report names api, the function that the
 * program called.
 */
size_t sample_usable(uint32_t index, const char *api);
size_t sample_size(uint32_t index);
bool sample_is_live(uint32_t index);
void sample_free(uint32_t index, const char *api);

/* Largest number of guarded records. */
#define SAMPLES_GUARDED 256

/*
 * Returns the guarded record with this address in its units, if it has or had a
 * block, or NULL.
 */
const struct sample *sample_guarded_near(const void *p);
bool sample_is_freed(const struct sample *s);

/*
 * Returns the record of the live sample that contains p; if there is none, the
 * record that sample_guarded_near() returns.
 */
const struct sample *sample_near(const void *p);

/* Adds the stacks of the allocation and of the free, if any, to a report. */
void sample_report_callers(const struct sample *s);

/*
 * sample_free() in two steps, for a free that waits for a grace period.
 * sample_defer() is the first step, sample_free_deferred() the second;
 * sample_defer_undo() takes the first step back.  sample_is_deferred() tells
 * whether the sample is between the two steps.
 */
void sample_defer(uint32_t index, const char *api);
void sample_free_deferred(uint32_t index);
void sample_defer_undo(uint32_t index);
bool sample_is_deferred(uint32_t index);

/*
 * Change the size of a sample.  sample_resize_in_place() records a size within
 * sample_usable(); the block stays in place.  sample_resize_large() is for a
 * sample in a span of its own, and for a size of LARGE_GROWN or more, as
 * sample_resizes() tells; it may move the block, and returns NULL if there is
 * no memory.  A block that it enlarges is counted again, and may be no sample
 * afterwards.
 */
void sample_resize_in_place(uint32_t index, size_t size);
bool sample_resizes(uint32_t index, size_t size);
void *sample_resize_large(uint32_t index, size_t size);

/*
 * Counts a large block that realloc() has enlarged to this size like a new
 * block, and makes it a sample if one is due.  It is no sample yet.
 */
void sample_grown(void *block, size_t size);

extern hidden uint64_t sample_ntaken;  /* [a] samples so far */
extern hidden uint64_t sample_nlost;   /* [a] not taken: no record or memory */
extern hidden uint64_t sample_nhalved; /* [a] times that they were halved */

/*
 * Calls visit for the live samples, while other threads may allocate and free.
 * visit is called with sample_lock held: it must take no lock, must be short,
 * must read the size as an atomic, and must not read the addresses of the
 * block; see sample.c.
 */
void sample_each(void (*visit)(struct sample *, void *arg), void *arg);

/*
 * Starts sampling if UMEM_OPTIONS asks for it; the last step of the start.
 * Returns true.
 */
bool sample_start(void);

/* Sets sample_wanted to the present mean. */
void sample_refresh_option(void);

/* Returns the number of live guarded samples, which are no large blocks. */
size_t sample_guarded_count(void);

/* Guards the records; for the atfork handlers. */
extern hidden struct lock sample_lock;

#endif
