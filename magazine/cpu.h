/* cpu.h - each CPU's loaded and previous magazine; see cpu.c */
#ifndef MAGAZINE_CPU_H
#define MAGAZINE_CPU_H

#include "magazine/cpu_layout.h"
#include "magazine/rseq_ops.h"

/* What the fast paths of the process need; written once at start. */
struct cpu_layer {
	struct rseq_place place;
	struct rseq_state rseq;
	char *blocks;     /* first region's block of CPU 0 */
	unsigned nslots;  /* blocks there are */
	unsigned nwanted; /* CPUs from here on get no memory */
	unsigned nrun;    /* CPUs that may run us at once, as of the start */
	unsigned nused;   /* [a] blocks 0 .. nused - 1 may be in use */
	uint32_t ticks;   /* [a] pushes on a CPU until one is refused */
	bool checks;      /* others are refused, too, to be checked */
};

extern struct cpu_layer cpu_layer;

/* A header that the calling thread owns, between cpu_own and cpu_disown. */
struct cpu_owned {
	struct cpu_hot *hot;
	struct cpu_cold *cold;
	unsigned cpu;
	unsigned nrounds; /* in cold->loaded, 0 if that is NULL */
};

/*
 * wanted as in rseq_start(); concurrency is how many CPUs to keep rounds for,
 * 0: all.  False: no memory for the first region.
 */
bool cpu_start(enum rseq_owner wanted, unsigned concurrency);

/*
 * The headers of CPU 0 for a new cache; each other CPU's lies CPU_BLOCK
 * bytes further per CPU.  False: no memory.  cpu_header_free() takes them
 * back when every CPU's header is empty.
 */
bool cpu_header_alloc(
    struct cpu_guard guard, struct cpu_hot **hot, struct cpu_cold **cold);
void cpu_header_free(struct cpu_hot *hot);

/*
 * Memory for this CPU's headers now, if there is some: it is about to be
 * used, and a look before that would be a page fault more.
 */
void cpu_warm(void);

/* Keep the headers 1 to n, for caches known by number; at start. */
void cpu_header_reserve(unsigned n);

/* As cpu_header_alloc(), of one that was kept; once for each. */
void cpu_header_at(unsigned i, struct cpu_guard guard, struct cpu_hot **hot,
    struct cpu_cold **cold);

/* A header that refuses every operation for ever. */
struct cpu_hot *cpu_header_none(void);

/* A header of that kind, or the one. */
static inline bool
cpu_header_is_none(const struct cpu_hot *hot)
{
	return (const char *)hot == cpu_layer.blocks;
}

/*
 * A section was refused, and this CPU's header will be owned: the lines that
 * an exchange of magazines needs, all at once.  A visit is rare enough for
 * each of them to have left the cache.
 */
void cpu_bring_in(struct cpu_hot *hot);

/*
 * Own this CPU's header.  False: it is owned by another thread, or this
 * thread cannot run sections; the caller goes past the magazines.
 */
bool cpu_own(
    struct cpu_hot *hot, struct cpu_cold *cold, struct cpu_owned *owned);

/* Publish what own->cold->loaded now is, with own->nrounds rounds. */
void cpu_disown(struct cpu_owned *owned);

/*
 * Take the magazines of every CPU, as a chain, and leave the headers empty.
 * A header that is owned at that moment is left alone, as is one whose cold
 * part keep() says so of.  False: this process cannot stop other CPUs, and
 * nothing was taken.
 */
bool cpu_drain(struct cpu_hot *hot, struct cpu_cold *cold,
    bool (*keep)(struct cpu_cold *), struct magazine **chain);

/*
 * Take the magazines of every CPU, as a chain, and leave the headers empty.
 * Waits for the owners of headers.  take(arg, chain) adds to the chain while
 * the caller owns every header, so no thread trades magazines meanwhile.
 * False: the headers were not emptied, because this process cannot stop other
 * CPUs, or the caller is forking.
 */
bool cpu_drain_all(struct cpu_hot *hot, struct cpu_cold *cold,
    void (*take)(void *arg, struct magazine **chain), void *arg,
    struct magazine **chain);

/* Rounds cached by all CPUs, exact only when nothing runs. */
size_t cpu_rounds(struct cpu_hot *hot, struct cpu_cold *cold);

/*
 * Whether a header of any CPU is open or owned.  False: no magazine is loaded,
 * and a thread that owns a header after this call has made all of its changes
 * after it.
 */
bool cpu_is_open(struct cpu_hot *hot, struct cpu_cold *cold);

/* Number of this CPU, which may be another's in a moment. */
unsigned cpu_now(void);

/* Rounds in this CPU's loaded magazine, about; takes nothing. */
size_t cpu_glance(struct cpu_hot *hot);

/* The same for all caches but the latest of many, and what CPU it is. */
size_t cpu_glance_all(unsigned *cpu);

/*
 * CPU_TICKED: cpu_layer.ticks pushes have been on this CPU since the last such
 * answer.  CPU_CHECK: this push was refused so that its object is checked.  Each
 * push that takes the slow path asks; npushes are pushes that no section has
 * counted.
 */
#define CPU_TICKED 1u
#define CPU_CHECK  2u
unsigned cpu_ticked(const struct cpu_owned *owned, uint32_t npushes);

/* Sets cpu_layer.ticks, for pushes from now on if there are fewer. */
void cpu_set_ticks(uint32_t n);

/*
 * For the atfork handlers: between these two calls nobody owns a header, and
 * cpu_own() fails, also in the forking thread.
 */
void cpu_lock_for_fork(void);
void cpu_unlock_for_fork(bool child);

#endif
