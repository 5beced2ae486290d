/* deferred.h - per-CPU magazines of objects that wait; see deferred.c */
#ifndef MAGAZINE_DEFERRED_H
#define MAGAZINE_DEFERRED_H

#include "magazine/cpu.h"
#include "magazine/depot.h"
#include "magazine/magazine.h"

/*
 * Keys: [I] set at creation, [a] atomic, [c] the thread that runs the cycle, or
 * that calls the program for it
 */
struct deferred {
	struct cpu_hot *hot;      /* [I] headers of CPU 0 */
	struct cpu_cold *cold;    /* [I] */
	struct magazine *pending; /* [a] submitted, the newest first */
	struct magazine *waiting; /* [c] for the grace period in progress */
	size_t nsubmitted;        /* [a] rounds in both */
	size_t object_bytes;      /* [I] */
};

/* Returns false if there is no memory for the headers. */
bool deferred_init(struct deferred *layer, size_t object_bytes);

/* Gives the headers back; no magazine is left in the layer. */
void deferred_end(struct deferred *layer);

/* The result of deferred_put(). */
struct deferred_work {
	unsigned nsubmitted; /* rounds of a full magazine that was submitted */
	size_t bytes;        /* deferred_bytes() of it */
	bool loaded;         /* a magazine was loaded, so rounds lie here now */
	bool is_ticked;      /* WORK_TICKED is due */
};

/*
 * Puts an object into this CPU's magazine.  *spare, if not NULL, is an empty
 * magazine that the call may load; it is then set to NULL.
 *	MAGAZINE_OK	the object is in the layer
 *	MAGAZINE_FULL	the call needs an empty magazine
 *	MAGAZINE_TWICE	the object is one of the two newest rounds of this CPU
 *	MAGAZINE_BYPASS	the header belongs to another thread at the moment, or
 *			this thread cannot have one
 */
enum magazine_result deferred_put(struct deferred *layer, void *object,
    struct magazine **spare, struct deferred_work *work);

/* Bytes of a magazine and of the objects in it. */
static inline size_t
deferred_bytes(const struct deferred *layer, const struct magazine *mag)
{
	return mag->nrounds * layer->object_bytes + magazine_bytes(mag->size);
}

/* Submits a magazine with rounds; any thread, any number at once. */
void deferred_submit(struct deferred *layer, struct magazine *mag);

/*
 * Submits magazines of the CPUs: if all, every magazine that any call loaded
 * before this one began; otherwise those that were loaded before the last call.
 * Returns deferred_bytes() of them all.  *complete is set to whether all that
 * the caller asked for has been submitted: without it, this process cannot stop
 * other CPUs.
 */
size_t deferred_collect(struct deferred *layer, bool all, bool *complete);

/* Moves all that was submitted to waiting; returns whether there was any. */
bool deferred_begin_wait(struct deferred *layer);

/* Takes the first magazine of those that wait, or returns NULL. */
struct magazine *deferred_next(struct deferred *layer);

/* Moves the waiting magazines back to pending, in the child of fork(). */
void deferred_wait_again(struct deferred *layer);

/*
 * Whether the layer may have rounds: a magazine is loaded or submitted, or a
 * thread owns a header, and may be about to load one.
 */
bool deferred_is_used(struct deferred *layer);

/* Rounds in the layer; exact when nothing runs. */
size_t deferred_rounds(struct deferred *layer);

#endif
