/*
 * cpu_drain.c - takes the magazines of all CPUs, and looks into them
 *
 * A drain owns the headers of other CPUs and closes them: case (b) of cpu.c.
 */
#include "magazine/cpu_inner.h"

/*
 * Wait for the owner and acquire ownership.  The wait is short, because an
 * owner waits neither for a lock above cpu_regions_lock nor for another header.
 */
static void
owned_await(struct cpu_cold *c)
{
	for (unsigned i = 0; !owned_try(c); i++)
		owned_pause(c, i);
}

/*
 * Ensure that no section that has read the old bottom or limit of a closed
 * header is in progress.  Returns false if the kernel refuses.  A process with
 * a single thread needs no membarrier, because its only thread is here.  A
 * thread that libc does not know of has no area of libc and runs no sections.
 */
static bool
stop_sections(void)
{
	return cpu_layer.rseq.owner == RSEQ_NONE ||
	       (cpu_layer.rseq.owner == RSEQ_LIBC && os_is_single_threaded()) ||
	       os_membarrier_rseq();
}

/*
 * Has the CPU exchanged magazines on this header since the last update?  If it
 * exchanged a few, or has none, its capacity becomes at most twice the rounds
 * that it received.  If it exchanged none, its next refill is small again, so
 * that it receives only the rounds that it needs.  *most becomes at least the
 * capacity.
 */
static bool
is_busy(struct cpu_cold *c, unsigned *most)
{
	uint32_t nmoved = c->nloads + c->nunloads - c->moved_at_update;
	uint32_t nreceived = c->nreceived - c->received_at_update;

	c->moved_at_update += nmoved;
	c->received_at_update += nreceived;
	if (nmoved == 0)
		store_relaxed(&c->refill, 0);
	/* The two are equal only if both are NULL. */
	if ((nmoved != 0 || c->loaded == c->previous) &&
	    nmoved < CPU_BUSY_EXCHANGES && 2 * nreceived < c->rounds)
		c->rounds = 2 * nreceived;
	*most = (unsigned)size_max(*most, c->rounds);
	return nmoved != 0;
}

/*
 * Step one of a drain: own and close the headers that have magazines.  Sets
 * their bits in mine and returns their number.
 */
static unsigned
drain_close(struct cpu_hot *hot, struct cpu_cold *cold, unsigned *most,
    uint64_t *mine, unsigned nused)
{
	struct region *region = region_of(hot);
	unsigned n = 0;

	/*
	 * Wait for the end of a fork(), which holds cpu_regions_lock.
	 * Otherwise the drain could skip headers because the gate is shut.
	 */
	lock_take(&cpu_regions_lock);
	for (unsigned cpu = 0; cpu < nused; cpu++) {
		struct cpu_cold *c = cold_of(cold, cpu);

		if (!load_acquire(&region->committed[cpu]) || !owned_try(c))
			continue;
		if ((most != NULL && is_busy(c, most)) ||
		    (c->loaded == NULL && c->previous == NULL)) {
			owned_end(c);
			continue;
		}
		close_header(hot_of(hot, cpu));
		mine[cpu / 64] |= (uint64_t)1 << (cpu % 64);
		n++;
	}
	lock_release(&cpu_regions_lock);
	return n;
}

static void
chain_add(struct magazine **chain, struct magazine *mag, unsigned nrounds)
{
	if (mag == NULL)
		return;
	umem_assert(nrounds <= mag->capacity);
	umem_assert(mag != *chain);
	rseq_received(mag->round, nrounds);
	mag->nrounds = nrounds;
	mag->next = *chain;
	*chain = mag;
}

/* Step two, after stop_sections(): top is constant; take the magazines. */
static void
drain_take(struct cpu_hot *h, struct cpu_cold *c, struct magazine **chain)
{
	uintptr_t top = load_relaxed(&h->top);
	unsigned nrounds = rounds_below(c, top);

	umem_assert(load_relaxed(&c->owned) != 0);
	umem_assert(top != CPU_CLAIMED);
	chain_add(chain, c->loaded, nrounds);
	if (c->previous != NULL)
		chain_add(chain, c->previous, c->previous->nrounds);
	store_relaxed(&c->loaded, NULL);
	store_relaxed(&c->previous, NULL);
	nprevious_set(c);
}

/*
 * Take the rounds of a closed header, or, if sections were only refused and not
 * stopped, open it again: top is still valid.  A mark is then lost, so one
 * sample is not taken.  Release ownership.
 */
static void
drain_end(struct cpu_hot *h, struct cpu_cold *c, bool stopped,
    struct magazine **chain)
{
	if (stopped)
		drain_take(h, c, chain);
	else if (c->loaded != NULL)
		open_header(h, c->loaded, /* nmarked */ 0);
	owned_end(c);
}

bool
cpu_drain(struct cpu_hot *hot, struct cpu_cold *cold, unsigned *most,
    bool unused, struct magazine **chain)
{
	unsigned nused = load_acquire(&cpu_layer.nused);
	uint64_t mine[128] = {0};
	bool stopped;

	if (nused > 64 * array_size(mine))
		return false;
	if (drain_close(hot, cold, most, mine, nused) == 0)
		return true;
	stopped = stop_sections() || unused;
	for (unsigned cpu = 0; cpu < nused; cpu++)
		if ((mine[cpu / 64] >> (cpu % 64) & 1) != 0)
			drain_end(hot_of(hot, cpu), cold_of(cold, cpu), stopped,
			    chain);
	return stopped;
}

/*
 * cpu_regions_lock is held during the whole drain.  Otherwise another thread
 * could commit the block of another CPU and load a magazine from the depot
 * there.
 */
bool
cpu_drain_all(struct cpu_hot *hot, struct cpu_cold *cold,
    void (*take)(void *arg, struct magazine **chain), void *arg,
    struct magazine **chain)
{
	struct region *region = region_of(hot);
	bool stopped;

	/* This thread is in a handler of fork(), so the gate is shut. */
	if (lock_is_forking())
		return false;
	lock_take(&cpu_regions_lock);
	for (unsigned cpu = 0; cpu < cpu_layer.nused; cpu++)
		if (region->committed[cpu]) {
			owned_await(cold_of(cold, cpu));
			close_header(hot_of(hot, cpu));
		}
	stopped = stop_sections();
	take(arg, chain);
	for (unsigned cpu = 0; cpu < cpu_layer.nused; cpu++)
		if (region->committed[cpu])
			drain_end(hot_of(hot, cpu), cold_of(cold, cpu), stopped,
			    chain);
	lock_release(&cpu_regions_lock);
	return stopped;
}

size_t
cpu_rounds(struct cpu_hot *hot, struct cpu_cold *cold)
{
	unsigned nused = load_acquire(&cpu_layer.nused);
	struct region *region = region_of(hot);
	size_t n = 0;

	for (unsigned cpu = 0; cpu < nused; cpu++) {
		struct cpu_cold *c = cold_of(cold, cpu);

		if (!load_acquire(&region->committed[cpu]) || !owned_try(c))
			continue;
		n += rounds_below(c, load_relaxed(&hot_of(hot, cpu)->top));
		if (c->previous != NULL)
			n += c->previous->nrounds;
		owned_end(c);
	}
	return n;
}

bool
cpu_is_open(struct cpu_hot *hot, struct cpu_cold *cold)
{
	unsigned nused = load_acquire(&cpu_layer.nused);
	struct region *region = region_of(hot);

	for (unsigned cpu = 0; cpu < nused; cpu++) {
		struct cpu_hot *h = hot_of(hot, cpu);
		struct cpu_cold *c = cold_of(cold, cpu);

		if (!load_acquire(&region->committed[cpu]))
			continue;
		/* Acquire; pairs with the release in owned_end(). */
		if (load_acquire(&c->owned) != 0 ||
		    load_relaxed(&h->limit) != 0)
			return true;
	}
	return false;
}
