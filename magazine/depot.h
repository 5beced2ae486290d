/* depot.h - the depot: magazines that no CPU has loaded; see depot.c */
#ifndef MAGAZINE_DEPOT_H
#define MAGAZINE_DEPOT_H

#include "vmem/lock.h"

/*
 * A magazine: a stack of object pointers, called rounds.  It belongs to one
 * per-CPU header, to the depot, or to the thread that has taken it from there.
 */
struct magazine {
	uint16_t size; /* rounds that it has memory for */
	/* Most rounds on its CPU, or those with which it was loaded. */
	uint16_t capacity;
	uint32_t nrounds; /* rounds; stale while a header has it loaded */
	/*
	 * Link in a list of the depot or in a chain.  In a loaded magazine, its
	 * own address, because rseq_pop() prefetches the word below the last
	 * round.
	 */
	struct magazine *next;
	void *round[];
};

/*
 * rseq_push() compares the object with the two words below top.  In a magazine
 * with fewer than two rounds these include words before round[0], which never
 * equal an object.
 */
_Static_assert(offsetof(struct magazine, round) == 16, "two words ahead");

/* The largest capacity: a magazine of 32 KiB; see sizes.c. */
#define MAGAZINE_ROUNDS_MAX 4094

static inline size_t
magazine_bytes(unsigned capacity)
{
	return sizeof(struct magazine) + capacity * sizeof(void *);
}

/* A list of magazines, newest first. */
struct maglist {
	struct magazine *head;
	uint32_t n;   /* length */
	uint32_t low; /* working-set minimum: least n since the last update */
};

/*
 * One shard of a depot, on a cache line of its own.
 *
 * Keys: [d] lock, [a] atomic
 */
struct depot {
	struct lock lock;     /* rank LOCK_DEPOT */
	uint32_t ncontended;  /* [a] contended acquisitions of the lock */
	uint32_t full_max;    /* [a] limit of full magazines */
	struct maglist full;  /* [d] magazines with at least one round */
	struct maglist empty; /* [d] magazines without a round */
	uint32_t nmoved; /* [d] magazines put in or taken; read without lock */
} __attribute__((aligned(CACHE_LINE)));

void depot_init(struct depot *depot);

/*
 * Take a magazine with rounds (for_full) or an empty one, and put in, which may
 * be NULL, into the other list.  If there is none to take, return NULL; the
 * caller keeps in.
 */
struct magazine *depot_trade(
    struct depot *depot, bool for_full, struct magazine *in);

/*
 * Put a magazine in, with or without rounds.  Returns true if the shard is
 * above its limit now.
 */
bool depot_put(struct depot *depot, struct magazine *mag);

/*
 * Take the magazines that were not needed since the last call (the working-set
 * minimum), as chains of full and of empty magazines.  A chain may be NULL.
 */
void depot_take_surplus(
    struct depot *depot, struct magazine **full, struct magazine **empty);

/* Take all magazines, as two chains. */
void depot_take_all(
    struct depot *depot, struct magazine **full, struct magazine **empty);

/* Racy estimate: has the shard more full magazines than its limit? */
static inline bool
depot_is_over(const struct depot *depot)
{
	return load_relaxed(&depot->full.n) > load_relaxed(&depot->full_max);
}

/* Number of rounds in all full magazines. */
size_t depot_rounds(struct depot *depot);

/* Are the invariants of depot.c true?  Examines every magazine. */
bool depot_check(struct depot *depot);

#endif
