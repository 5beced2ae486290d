/* defer.h - frees that wait for a grace period; see defer.c and grace.c */
#ifndef UMEM_DEFER_H
#define UMEM_DEFER_H

#include "magazine/deferred.h"
#include "umem/cache/cache.h"
#include "umem/rcu/defer_api.h"

/* The kind of a layer's objects. */
enum defer_kind {
	DEFER_OBJECT,  /* chunks of a cache, which may be that of a class */
	DEFER_MALLOC,  /* blocks of malloc() that are in no such cache */
	DEFER_UMEM,    /* the same of umem_alloc() */
	DEFER_FOREIGN, /* blocks of another library's malloc() */
	DEFER_KINDS
};

/*
 * One for each cache, or kind, and flavour.  Keys as in struct domain.
 *
 * A layer is in two lists, that of its domain and that of its cache; a layer of
 * blocks is in domain->kinds instead of the latter.  Threads follow both
 * without a lock.
 *	insertion	at the head, with defer_lock held: cache_layer() and
 *			kind_layer() set all members and link both lists, and
 *			publish last, by a release store of the head.  Between
 *			the two stores the domain has a layer that is not in its
 *			cache's list yet.
 *	removal		only when the cache is destroyed, in the order of
 *			defer_end_cache().  From the domain's list: with the
 *			turn, while no slab of the layer is being released; all
 *			walks of it have the turn.  From the cache's list after
 *			that: with cache_list_lock held.  Walks of this list are
 *			those of the domain of the last layer, which ends first;
 *			those that hold cache_list_lock; and those of a program
 *			that uses the cache, which it may not while it destroys
 *			the cache.
 */
struct defer {
	struct deferred mags;
	uintptr_t header_offset;     /* [I] of the header for rseq_push() */
	const void *key;             /* [I] of the domain */
	struct domain *domain;       /* [I] */
	struct umem_cache *cache;    /* [I] of DEFER_OBJECT */
	struct defer *next_of_cache; /* [a] the one that was made before */
	struct defer *next;          /* [a] in domain->layers */
	enum defer_kind kind;        /* [I] */
	uint32_t retired_batch;      /* [t] of slabs that were retired, or 0 */
	bool was_online;             /* the thread that destroys the cache */
	bool calls_program;          /* [I] a release may call the program */
};

/*
 * A walk over domains, or over layers of a domain or of a cache: they enter at
 * the head, and next of one that leaves stays.  Acquire; pairs with the release
 * by which an item is entered, when its other members are set.
 */
/* NOLINTBEGIN(bugprone-macro-parentheses): item is declared, type is a type. */
#define chain_foreach(item, head, type, next)                                  \
	for (type *item = load_acquire(&(head)); item != NULL;                 \
	     item = load_acquire(&item->next))
/* NOLINTEND(bugprone-macro-parentheses) */

/*
 * A flavour of liburcu.  Keys: [I] set at creation, [a] atomic, [l] defer_lock
 * to write, [t] domain->turn.
 */
struct domain {
	const void *key;         /* [I] */
	struct umem_grace grace; /* [I] */
	struct domain *next;     /* [I] */
	struct defer *layers;    /* [a] [l]; [t], too, to take one out */
	struct defer *kinds[DEFER_KINDS]; /* [a] [l] layers of no cache */
	void (*release)(void *);          /* [a] for DEFER_FOREIGN */
	size_t (*usable)(void *);         /* [a] likewise, or NULL */
	intptr_t bytes;         /* [a] submitted, and of single large blocks */
	uint32_t nsubmitted;    /* [a] objects submitted since the last cycle */
	uint32_t turn;          /* [a] mutex; see grace.c */
	uintptr_t turn_holder;  /* [a] thread that has the turn */
	int saved_cancel_state; /* [t] the holder's, before it had the turn */
	uint32_t thread_state;  /* [a] of the thread; see grace.c */
	uint32_t nsynchronizing;  /* [a] calls of synchronize() in progress */
	uint32_t grace_state;     /* [a] of the turn; see grace.c */
	uint32_t is_broken;       /* [a] 1: no grace period can end here */
	uint32_t has_empty_slabs; /* [a] 1: of a type-stable cache */
	uint32_t is_inherited;    /* [a] 1: in a child; see grace.c, fork() */
	uint32_t fork_waits;      /* [a] 1: a fork() waits for the turn */
	uintptr_t fork_holder; /* [t] thread that holds the turn for a fork() */
	uint64_t collect_ns;   /* [t] when magazines were collected last */
	uint64_t ngraces;      /* [a] grace periods that were waited for */
	uint64_t nreleased;    /* [a] objects released after one */
	uint64_t ncalled;      /* [a] of these, of layers with calls_program */

	/* [t] the domain's thread releases slabs of this layer, or NULL */
	struct defer *releasing;
	/*
	 * [a] The thread that calls the program for a cycle, or 0; it is set
	 * with the turn.  It alone uses the waiting lists of layers with
	 * calls_program until it sets 0.
	 */
	uintptr_t releaser;
	/* [t] threads that wait for the end of either */
	uint32_t nawaiting;
	/* [a] ends of either, to wait on */
	uint32_t nreleases;
};

/*
 * All domains.  domain_make() sets all members of a domain, and publishes it
 * last, at the head, with defer_lock held.  No domain is ever removed, so the
 * list is followed without a lock, by an acquire load of the head.
 */
extern hidden struct domain *domains;
extern hidden struct lock defer_lock;

/* UMEM_OPTIONS: rcu_budget in bytes, rcu_delay. */
extern hidden size_t defer_budget;
extern hidden uint64_t defer_delay_ns;

/*
 * Gives a magazine to the layer's cache; its grace period is over.  *part is
 * NULL or a magazine with free space, which collects the rounds of others; the
 * caller passes it to defer_give_part() at the end.
 */
void defer_give(
    struct defer *layer, struct magazine *mag, struct magazine **part);
void defer_give_part(struct defer *layer, struct magazine **part);

/* Bytes of the submitted objects; for a process with one thread. */
size_t defer_pending_bytes(const struct defer *layer);

/*
 * Waits until the objects of a cache that is being destroyed are free, and ends
 * its layers.  Returns false if some objects cannot be freed here.
 */
bool defer_end_cache(struct umem_cache *cache);

/*
 * Objects of the cache that wait for a grace period; exact when nothing runs.
 * The caller holds cache_list_lock, or nobody destroys the cache.
 */
size_t defer_waiting(const struct umem_cache *cache);

/*
 * fork() calls these before it takes any lock of the library, and after it has
 * released them.
 */
void defer_before_fork(void);
void defer_after_fork(bool child);

/*
 * Starts the threads of domains that have slabs to release.  Not for malloc()
 * and free(), because libc may call these with a lock that pthread_create()
 * takes.
 */
void defer_rouse(void);

/* grace.c */

/* Returns the domain of a key, or NULL if it does not exist yet. */
struct domain *domain_find(const void *key);

/*
 * Returns the domain of a key, and makes it unless another thread has; NULL if
 * there is no memory.
 */
struct domain *domain_make(const void *key, umem_grace_of_t *grace_of);

/* Empty slabs of the layer's type-stable cache are to be released. */
void domain_retire(struct domain *domain);

/* More than so many times the budget waits. */
bool domain_is_over(const struct domain *domain, unsigned ntimes);

bool domain_is_broken(const struct domain *domain);

/*
 * Is the caller in a read-side section of any domain?  If it waited for the
 * readers of another domain, one of those could be waiting for it.
 */
bool domain_is_reader(void);

/*
 * The caller has put objects into the layer: n of them, bytes in all, were
 * submitted; if loaded, others lie in the magazine of a CPU.  Wakes the
 * domain's thread if that is due, and beyond the budget waits for a grace
 * period.
 */
void domain_submitted(struct defer *layer, size_t n, size_t bytes);
void domain_loaded(struct domain *domain);

/*
 * Waits for a grace period of all readers of the domain.  Returns false if the
 * caller is in a read-side section of any domain, or if none can end.
 */
bool domain_wait(struct domain *domain);

/*
 * Releases all objects that were put before the call.  Returns 0 or EDEADLK,
 * ENOTSUP, EAGAIN.
 */
int domain_flush(struct domain *domain);

/*
 * Releases all objects of a layer whose cache is being destroyed, and takes the
 * layer out of its domain.  Returns whether it could.
 */
bool domain_flush_layer(struct domain *domain, struct defer *layer);

/*
 * domain_go_offline() takes a caller that is online with qsbr offline.  It
 * returns false if the caller must not wait for readers of the flavour, because
 * it is in a read-side section of it, or in a cycle of any domain.
 * domain_go_online() undoes it.
 */
bool domain_go_offline(struct domain *domain, bool *was_online);
void domain_go_online(struct domain *domain, bool was_online);

#endif
