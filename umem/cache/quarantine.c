/*
 * quarantine.c - delays the reuse of freed chunks
 *
 * A cache that is hardened, or debugged with guards, puts each freed chunk into
 * a slot here, and the chunk that was in the slot may be reused.  The slots are
 * filled in up to 31 runs.  The next run is chosen at random; within a run the
 * slots follow each other, so that chunks which were freed one after the other,
 * and often are neighbours, leave in the same order.
 *	The number of frees after which an address is reused cannot be
 * predicted: on average it is the number of slots, and the run of an address is
 * chosen again at once with a probability of one in the number of runs.  A
 * write by a stale pointer is detected when the chunk is allocated again, or
 * earlier, when debug_alloc() inspects a quarantined chunk.  Because the
 * inspecting thread takes the chunk out meanwhile, no other thread has it.
 *
 * Locking: none.  A thread exchanges the contents of a slot in one atomic step,
 * so of two threads each gets one of the chunks.  The release of that exchange
 * publishes the chunk's contents; it pairs with the acquire of the exchange
 * that takes the chunk out.  Two threads may fill one slot, one after the
 * other, or begin two runs at once: then a chunk stays for a shorter or a
 * longer time.  A fork() while another thread has a chunk in hand, or takes one
 * out to put it back, loses that chunk in the child, and no other.
 */
#include "umem/base/random.h"
#include "umem/cache/quarantine.h"
#include "vmem/meta.h"
#include "vmem/panic.h"

/* The limits of the quarantine of one cache, in bytes and chunks. */
#define QUARANTINE_BYTES_MAX (16 * KIB)
#define QUARANTINE_SLOTS_MAX 256
#define QUARANTINE_SLOTS_MIN 2

/* The least runs of a quarantine; as many as slots if these are fewer. */
#define QUARANTINE_RUNS 16

static struct random slot_random;

void
quarantine_init(struct quarantine *q, size_t chunk)
{
	size_t n = size_max(QUARANTINE_BYTES_MAX / chunk, QUARANTINE_SLOTS_MIN);

	random_seed(&slot_random);
	n = size_min(n, QUARANTINE_SLOTS_MAX);
	q->run =
	    n < QUARANTINE_RUNS ? 1 : (size_t)1 << highbit(n / QUARANTINE_RUNS);
	n = align_down(n, q->run);
	q->slot = meta_alloc(n * sizeof(*q->slot));
	q->nslots = q->slot == NULL ? 0 : n;
}

void
quarantine_end(struct quarantine *q)
{
	umem_assert(quarantine_count(q) == 0);
	if (q->slot != NULL)
		meta_free(q->slot, q->nslots * sizeof(*q->slot));
	*q = (struct quarantine){0};
}

void *
quarantine_swap(struct quarantine *q, void *p)
{
	size_t i;

	if (q->nslots == 0)
		return p;
	i = load_relaxed(&q->next);
	if ((i & (q->run - 1)) == 0)
		i = q->run * random_below(&slot_random, q->nslots / q->run);
	/* Two threads here may use one slot, one after the other. */
	store_relaxed(&q->next, i + 1);
	store_relaxed(&q->newest, i + 1);
	return __atomic_exchange_n(&q->slot[i], p, __ATOMIC_ACQ_REL);
}

void *
quarantine_inspect(struct quarantine *q, size_t *at)
{
	size_t last = 0;

	if (q->nslots == 0)
		return NULL;
	if (load_relaxed(&q->newest) != 0)
		last = __atomic_exchange_n(&q->newest, 0, __ATOMIC_RELAXED);
	*at = last != 0 ? last - 1
			: __atomic_fetch_add(
			      &q->next_inspected, 1, __ATOMIC_RELAXED) %
			      q->nslots;
	return __atomic_exchange_n(&q->slot[*at], NULL, __ATOMIC_ACQ_REL);
}

void *
quarantine_put_back(struct quarantine *q, size_t at, void *p)
{
	umem_assert(p != NULL && at < q->nslots);
	return __atomic_exchange_n(&q->slot[at], p, __ATOMIC_ACQ_REL);
}

void *
quarantine_remove(struct quarantine *q, size_t *at)
{
	while (*at < q->nslots) {
		void *p = __atomic_exchange_n(
		    &q->slot[(*at)++], NULL, __ATOMIC_ACQ_REL);

		if (p != NULL)
			return p;
	}
	return NULL;
}

size_t
quarantine_count(const struct quarantine *q)
{
	size_t n = 0;

	for (size_t i = 0; i < q->nslots; i++)
		if (load_relaxed(&q->slot[i]) != NULL)
			n++;
	return n;
}
