/* depot.h - the store of magazines behind the CPUs; see depot.c */
#ifndef MAGAZINE_DEPOT_H
#define MAGAZINE_DEPOT_H

#include "vmem/lock.h"

/*
 * A stack of object pointers ("rounds").  It belongs to one header, to the
 * depot, or to the thread that took it from there.
 */
struct magazine {
	struct magazine *next; /* in a list of the depot */
	uint32_t capacity;     /* rounds that fit */
	uint32_t nrounds;      /* in use; stale while a header has it loaded */
	void *round[];
};

/*
 * A push compares with the newest two rounds (rseq_push()), and so, in a
 * magazine with fewer, with the words before round[0].  None is an object.
 */
_Static_assert(offsetof(struct magazine, round) == 16, "two words ahead");

static inline size_t
magazine_bytes(unsigned capacity)
{
	return sizeof(struct magazine) + capacity * sizeof(void *);
}

struct maglist {
	struct magazine *head;
	uint32_t n;
	uint32_t low; /* least n since depot_take_surplus() */
};

/* Keys: [d] lock, [a] atomic.  On a cache line of its own. */
struct depot {
	struct lock lock;     /* rank LOCK_DEPOT */
	uint32_t ncontended;  /* [a] locks that were not free */
	uint32_t full_max;    /* [a] full magazines worth keeping */
	struct maglist full;  /* [d] at least one round each */
	struct maglist empty; /* [d] no round */
	uint32_t nmoved; /* [d] magazines handed out or taken in; read as is */
} __attribute__((aligned(CACHE_LINE)));

void depot_init(struct depot *depot);

/* A magazine with rounds, or NULL.  empty, if not NULL, goes in for it. */
struct magazine *depot_trade_for_full(
    struct depot *depot, struct magazine *empty);

/*
 * An empty magazine, or NULL.  full, if not NULL, goes in for it; if there is
 * no empty one, it is not taken.
 */
struct magazine *depot_trade_for_empty(
    struct depot *depot, struct magazine *full);

/* True if there are now more full magazines than worth keeping. */
bool depot_put_full(struct depot *depot, struct magazine *full);
void depot_put_empty(struct depot *depot, struct magazine *empty);
struct magazine *depot_take_full(struct depot *depot);
struct magazine *depot_take_empty(struct depot *depot);

/*
 * Takes out what nobody missed since the last call but one: chains of full
 * and of empty magazines, either NULL.
 */
void depot_take_surplus(
    struct depot *depot, struct magazine **full, struct magazine **empty);

/* Takes out everything. */
void depot_take_all(
    struct depot *depot, struct magazine **full, struct magazine **empty);

/* Rounds in all full magazines. */
size_t depot_rounds(struct depot *depot);

bool depot_check(struct depot *depot);

#endif
