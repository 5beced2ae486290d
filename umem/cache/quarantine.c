/*
 * quarantine.c - delays the reuse of freed chunks
 *
 * A cache that is hardened, or debugged with guards, puts each freed chunk into
 * a random slot here, and the chunk that was in the slot may be reused.  That
 * chunk waits in a slot of its CPU for the next allocation, and the chunk that
 * was there goes back to its slab.  So many allocations need no lock, and get a
 * chunk that is in the caches of the CPU.
 *	The number of frees after which an address is reused cannot be
 * predicted: on average it is the number of random slots, and the address is
 * reused at once with a probability of one in that number.  A write by a stale
 * pointer is detected when the chunk is allocated again, or earlier, when
 * debug_alloc() inspects a quarantined chunk.  Because the inspecting thread
 * takes the chunk out meanwhile, no other thread has it.
 *
 * Locking: none.  A thread exchanges the contents of a slot in one atomic step,
 * so of two threads each gets one of the chunks.  The release of that exchange
 * publishes the chunk's contents; it pairs with the acquire of the exchange
 * that takes the chunk out.  A thread may be stopped or moved to another CPU at
 * any point: then it uses the slot of another CPU, which only costs time.  A
 * fork() while another thread has a chunk in hand, between two slots or to put
 * it back, loses that chunk in the child, and no other.
 */
#include <assert.h>

#include "magazine/cpu.h"
#include "umem/base/random.h"
#include "umem/cache/quarantine.h"
#include "vmem/meta.h"
#include "vmem/panic.h"

/* The limits of the quarantine of one cache, in bytes and chunks. */
#define QUARANTINE_BYTES_MAX (16 * KIB)
#define QUARANTINE_SLOTS_MAX 256
#define QUARANTINE_SLOTS_MIN 2

/* Slots for ready chunks: one for each CPU modulo this, each in its line. */
#define READY_CPUS  16
#define READY_APART (CACHE_LINE / sizeof(void *))

static_assert(QUARANTINE_SLOTS_MIN <= QUARANTINE_SLOTS_MAX &&
		  QUARANTINE_SLOTS_MAX <= UINT32_MAX,
    "a slot is drawn by 32 random bits");

static struct random slot_random;

void
quarantine_init(struct quarantine *q, size_t chunk)
{
	size_t n = size_max(QUARANTINE_BYTES_MAX / chunk, QUARANTINE_SLOTS_MIN);

	random_seed(&slot_random);
	umem_assert(q->slot == NULL);
	q->nrandom = size_min(n, QUARANTINE_SLOTS_MAX);
	n = q->nrandom + READY_CPUS * READY_APART;
	q->slot = meta_alloc(n * sizeof(*q->slot));
	q->nslots = q->slot == NULL ? 0 : n;
}

/* The slot of this CPU for a chunk that has left the random slots. */
static void **
ready_slot(const struct quarantine *q)
{
	return q->slot + q->nrandom + cpu_now() % READY_CPUS * READY_APART;
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

	umem_assert(p != NULL);
	if (q->nslots == 0)
		return p;
	i = (size_t)random_below(&slot_random, q->nrandom);
	store_relaxed(&q->newest, i + 1);
	p = __atomic_exchange_n(&q->slot[i], p, __ATOMIC_ACQ_REL);
	return p == NULL
		   ? NULL
		   : __atomic_exchange_n(ready_slot(q), p, __ATOMIC_ACQ_REL);
}

void *
quarantine_ready(struct quarantine *q)
{
	void **slot = q->nslots == 0 ? NULL : ready_slot(q);

	return slot == NULL || load_relaxed(slot) == NULL
		   ? NULL
		   : __atomic_exchange_n(slot, NULL, __ATOMIC_ACQ_REL);
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
			      q->nrandom;
	umem_assert(*at < q->nrandom);
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
