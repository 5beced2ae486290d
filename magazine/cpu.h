/* cpu.h - each CPU's loaded and previous magazine; see cpu.c */
#ifndef MAGAZINE_CPU_H
#define MAGAZINE_CPU_H

#include "magazine/cpu_layout.h"
#include "magazine/rseq_ops.h"

/*
 * State of this layer, which the fast paths read.  Written at start, except for
 * the members with a key.
 *
 * Keys: [a] atomic
 */
struct cpu_layer {
	struct rseq_place place;
	struct rseq_state rseq;
	char *blocks;     /* block of CPU 0 in the first region */
	unsigned nslots;  /* blocks in a region */
	unsigned nwanted; /* CPU numbers from here on get no memory */
	unsigned nrun;    /* CPUs that could run the process at start */
	unsigned nquota;  /* at most nrun: as many as its quota of time is */
	unsigned nused;   /* [a] only blocks 0 .. nused - 1 can be in use */
	uint32_t tick_pushes; /* [a] pushes on a CPU for each tick */
};

extern hidden struct cpu_layer cpu_layer;

/* A header that the calling thread owns, until cpu_release(). */
struct cpu_owned {
	struct cpu_hot *hot;
	struct cpu_cold *cold;
	unsigned cpu;
	unsigned nrounds; /* in cold->loaded, 0 if that is NULL */
	/* Rounds up to the newest one that cpu_release() marks; 0: none. */
	unsigned nmarked;
	bool is_marked; /* cpu_acquire() has found the newest round marked */
};

/*
 * Start this layer.  wanted is that of rseq_start().  concurrency is the number
 * of CPUs that keep rounds; 0: all.  Returns false if there is no memory for
 * the first region.
 */
bool cpu_start(enum rseq_owner wanted, unsigned concurrency);

/*
 * Allocate a header of each CPU for a new cache.  *hot and *cold are those of
 * CPU 0; those of CPU n are n * CPU_BLOCK bytes above.  Returns false if there
 * is no memory.
 */
bool cpu_header_alloc(
    struct cpu_guard guard, struct cpu_hot **hot, struct cpu_cold **cold);

/* Free the headers, of which none has a magazine. */
void cpu_header_free(struct cpu_hot *hot);

/*
 * Commit the memory of this CPU's headers, which are about to be used.  A read
 * before that would cause an additional page fault.
 */
void cpu_warm(void);

/* At start: reserve n headers from header first on for cpu_header_at(). */
void cpu_header_reserve(unsigned first, unsigned n);

/*
 * Allocate the reserved header i of each CPU, with the results of
 * cpu_header_alloc().  At most once for each header.
 */
void cpu_header_at(unsigned i, struct cpu_guard guard, struct cpu_hot **hot,
    struct cpu_cold **cold);

/* Header 0, which refuses every operation for ever. */
static inline struct cpu_hot *
cpu_header_none(void)
{
	return (struct cpu_hot *)(void *)cpu_layer.blocks;
}

/*
 * Racy estimate: has this CPU's header no round, loaded or previous, and no
 * owner?  *refill becomes its refill.  Returns false also if that is not known:
 * in locked mode, or if this thread cannot run sections.
 */
bool cpu_seems_empty(
    struct cpu_hot *hot, struct cpu_cold *cold, uint32_t *refill);

/*
 * Racy estimate: has this CPU no magazine loaded?  The block of the CPU may
 * have no memory yet.  Registers the thread, like cpu_acquire().
 */
bool cpu_seems_closed(struct cpu_hot *hot);

/*
 * Prefetch all cache lines that an exchange of magazines needs.  Called after a
 * miss, before cpu_acquire().  Exchanges are so rare that each line may have
 * left the cache.
 */
void cpu_prefetch(struct cpu_hot *hot);

/*
 * Acquire ownership of this CPU's header.  Returns false if another thread owns
 * it or if this thread cannot run sections; the caller then bypasses the
 * magazines.
 */
bool cpu_acquire(
    struct cpu_hot *hot, struct cpu_cold *cold, struct cpu_owned *owned);

/*
 * Publish owned->cold->loaded, with owned->nrounds rounds, to the sections, and
 * release ownership.
 */
void cpu_release(struct cpu_owned *owned);

/*
 * Take the magazines of every CPU, as a chain, and leave the headers empty.
 * Skips headers that another thread owns.  Returns false if this process cannot
 * stop other CPUs; then nothing was taken.  unused: no thread is in a section,
 * and none will be, so that this does not matter.
 *	If most is not NULL, this is an update: it leaves headers on which
 * magazines were loaded or unloaded since the last update.  A CPU that did so,
 * but fewer than CPU_BUSY_EXCHANGES times, or that has no magazine, keeps a
 * capacity of at most twice the rounds that it loaded.  *most becomes the
 * largest capacity, if it was less.
 */
#define CPU_BUSY_EXCHANGES 8
bool cpu_drain(struct cpu_hot *hot, struct cpu_cold *cold, unsigned *most,
    bool unused, struct magazine **chain);

/*
 * Take the magazines of every CPU, as a chain, and leave the headers empty.
 * Waits for the owners of headers.  take(arg, chain) may add to the chain while
 * the caller owns every header, so that no thread exchanges magazines
 * meanwhile.  Returns false if the headers were not emptied, because this
 * process cannot stop other CPUs or the caller is forking.
 */
bool cpu_drain_all(struct cpu_hot *hot, struct cpu_cold *cold,
    void (*take)(void *arg, struct magazine **chain), void *arg,
    struct magazine **chain);

/* Number of rounds cached by all CPUs; exact only if no thread uses them. */
size_t cpu_rounds(struct cpu_hot *hot, struct cpu_cold *cold);

/*
 * Is a header of any CPU open or owned?  If false, no magazine is loaded, and a
 * thread that owns a header after this call makes all of its changes after this
 * call.
 */
bool cpu_is_open(struct cpu_hot *hot, struct cpu_cold *cold);

/* Number of this CPU; the thread may be on another CPU at any time. */
unsigned cpu_now(void);

/* Racy estimate of the rounds in the loaded magazine of a CPU, cpu_now(). */
size_t cpu_rounds_estimate(struct cpu_hot *hot, unsigned cpu);

/*
 * Maintenance countdown.  Each push that takes the slow path calls
 * cpu_ticked().  npushes is the number of pushes that no section has counted.
 * Returns true for a tick: cpu_layer.tick_pushes pushes have occurred on this
 * CPU since the last one.
 */
bool cpu_ticked(const struct cpu_owned *owned, uint32_t npushes);

/* Set cpu_layer.tick_pushes, and shorten countdowns that are longer. */
void cpu_set_tick_pushes(uint32_t n);

/*
 * For the atfork handlers: between these two calls no thread owns a header, and
 * cpu_acquire() fails, also in the forking thread.
 */
void cpu_lock_for_fork(void);
void cpu_unlock_for_fork(bool child);

#endif
