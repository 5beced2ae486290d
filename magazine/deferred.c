/*
 * deferred.c - per-CPU magazines of objects that wait for a grace period
 *
 * Frees that must wait go into magazines, too, but nobody allocates from these.
 * Each CPU has one magazine for a layer.  A push is the restartable section of
 * an ordinary free.  A full magazine is submitted: it moves to the list of
 * pending magazines, and an empty magazine takes its place.  The thread that
 * waits for grace periods (umem/rcu/grace.c) takes the list as a whole, waits,
 * and gives each magazine to the cache.
 *
 * Headers
 *	A header has a loaded magazine only while that has rounds.  The first
 *	push after a collection therefore takes the slow path, where the caller
 *	sees that rounds lie on this CPU and has them collected in time.
 *	    The previous magazine is not used.
 *
 * The list of pending magazines
 *	A submitting thread pushes by compare-and-swap; the collecting thread
 *	takes the list by one exchange.  No thread takes a single element, so
 *	the list cannot change between the load of its head and the swap to one
 *	that begins with the same magazine and goes on differently (no ABA).
 *	    The push has release order and the exchange has acquire order, so
 *	the collecting thread sees the rounds.  A push that comes later in the
 *	order of modifications of the head continues the release sequence of
 *	those before it, because it is a read-modify-write operation.
 *
 * The list of waiting magazines
 *	Only the thread that runs the cycle changes it, or the thread that calls
 *	the program for that.
 *
 * Order of a submission
 *	The thread that owns the header submits the full magazine before it
 *	gives the header up.  Hence at every moment at which no thread owns a
 *	header, each object of the layer lies in a loaded magazine, in the list,
 *	or beyond the exchange.  deferred_collect(all) owns all headers at one
 *	moment (cpu_drain_all()), so it submits each object that any thread put
 *	before.  The barrier of umem/rcu/grace.c relies on this.
 *
 * fork()
 *	A thread that owns a header is waited for (cpu_lock_for_fork()), so the
 *	child has each object, too.  An exception is a magazine that its thread
 *	has in hand outside of the header, between deferred_next() and the
 *	depot: umem/rcu/grace.c keeps fork() out there.
 */
#include "magazine/deferred.h"
#include "vmem/panic.h"

bool
deferred_init(struct deferred *layer, size_t object_bytes)
{
	*layer = (struct deferred){.object_bytes = object_bytes};
	return cpu_header_alloc(CPU_GUARD_NONE, &layer->hot, &layer->cold);
}

void
deferred_end(struct deferred *layer)
{
	umem_assert(layer->pending == NULL && layer->waiting == NULL);
	cpu_header_free(layer->hot);
}

void
deferred_submit(struct deferred *layer, struct magazine *mag)
{
	struct magazine *head = load_relaxed(&layer->pending);

	umem_assert(mag->nrounds > 0);
	/* Relaxed: the count is for statistics. */
	add_relaxed(&layer->nsubmitted, mag->nrounds);
	do
		mag->next = head;
	/* Release; pairs with the exchange in deferred_begin_wait(). */
	while (!__atomic_compare_exchange_n(&layer->pending, &head, mag, true,
	    __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

/* Makes space on the owned header, with *spare if need be. */
static bool
deferred_have_space(struct deferred *layer, struct cpu_owned *own,
    struct magazine **spare, struct deferred_work *work)
{
	struct magazine *full = own->cold->loaded;

	if (full != NULL && own->nrounds < full->capacity)
		return true;
	if (*spare == NULL)
		return false;
	if (full != NULL) {
		full->nrounds = own->nrounds;
		work->nsubmitted = own->nrounds;
		work->bytes = deferred_bytes(layer, full);
		deferred_submit(layer, full);
	}
	store_relaxed(&own->cold->loaded, *spare);
	own->cold->nloads++;
	own->nrounds = 0;
	*spare = NULL;
	work->loaded = true;
	return true;
}

enum magazine_result
deferred_put(struct deferred *layer, void *object, struct magazine **spare,
    struct deferred_work *work)
{
	enum magazine_result result = MAGAZINE_OK;
	struct cpu_owned own;

	*work = (struct deferred_work){0};
	if (!cpu_acquire(layer->hot, layer->cold, &own))
		return MAGAZINE_BYPASS;
	/* In locked mode no section has counted this push. */
	work->is_ticked = cpu_ticked(&own, cpu_layer.rseq.owner == RSEQ_NONE);
	if (magazine_has_newest(
		own.cold->loaded, own.nrounds, MAGAZINE_NEWEST, object))
		result = MAGAZINE_TWICE;
	else if (!deferred_have_space(layer, &own, spare, work))
		result = MAGAZINE_FULL;
	else
		own.cold->loaded->round[own.nrounds++] = object;
	cpu_release(&own);
	return result;
}

/* For cpu_drain_all(), which wants to know of magazines elsewhere. */
static void
take_none(void *arg, struct magazine **chain)
{
	(void)arg;
	(void)chain;
}

size_t
deferred_collect(struct deferred *layer, bool all, bool *complete)
{
	struct magazine *chain = NULL;
	size_t bytes = 0;
	unsigned most = 0;

	/*
	 * Most layers are empty.  A completed put left its object in a header
	 * that is open until a collection, or in one that a thread owns.
	 */
	*complete = true;
	if (!cpu_is_open(layer->hot, layer->cold))
		return 0;
	/*
	 * A header that exchanges its magazine between any two collections is
	 * never collected; each of its objects has been submitted within that
	 * time, or the next exchange does it.
	 */
	*complete =
	    all ? cpu_drain_all(
		      layer->hot, layer->cold, take_none, NULL, &chain)
		: cpu_drain(layer->hot, layer->cold, &most, false, &chain);
	while (chain != NULL) {
		struct magazine *mag = chain;

		chain = mag->next;
		if (mag->nrounds == 0) {
			magazine_delete(mag);
			continue;
		}
		bytes += deferred_bytes(layer, mag);
		deferred_submit(layer, mag);
	}
	return bytes;
}

bool
deferred_begin_wait(struct deferred *layer)
{
	umem_assert(layer->waiting == NULL);
	/* A look first: the line stays shared while nothing is submitted. */
	if (load_relaxed(&layer->pending) == NULL)
		return false;
	/* Acquire; pairs with the release in deferred_submit(). */
	layer->waiting =
	    __atomic_exchange_n(&layer->pending, NULL, __ATOMIC_ACQUIRE);
	return true;
}

struct magazine *
deferred_next(struct deferred *layer)
{
	struct magazine *mag = layer->waiting;

	if (mag == NULL)
		return NULL;
	layer->waiting = mag->next;
	sub_relaxed(&layer->nsubmitted, mag->nrounds);
	return mag;
}

void
deferred_wait_again(struct deferred *layer)
{
	struct magazine *mag;

	while ((mag = deferred_next(layer)) != NULL)
		deferred_submit(layer, mag);
}

bool
deferred_is_used(struct deferred *layer)
{
	return load_relaxed(&layer->pending) != NULL ||
	       cpu_is_open(layer->hot, layer->cold);
}

size_t
deferred_rounds(struct deferred *layer)
{
	return cpu_rounds(layer->hot, layer->cold) +
	       load_relaxed(&layer->nsubmitted);
}
