/*
 * cpu.c - each CPU's loaded and previous magazine
 *
 * Terms
 *	header	the data of one cache for one CPU (cpu_layout.h): a hot part
 *		for the sections and a cold part for the slow paths.  Headers
 *		lie in the block of their CPU (cpu_region.c)
 *	own	A thread that owns a header has the exclusive right to change
 *		it, except that sections on its CPU push and pop while it is
 *		open
 *	bypass	to allocate from or free to the slabs, without the magazines
 *
 * Which threads run sections
 *	Only the thread for which the kernel holds an rseq area may run
 *	sections on that area.  The kernel restarts a section by the area that
 *	it holds for the running thread.  It holds one area for one thread, and
 *	none for a task created with CLONE_VM until that task registers one.  A
 *	task that shares the thread-local storage of another task sees the area
 *	of the other, with a CPU number that is not its own.  The kernel would
 *	not restart its sections, and they would write to the headers of a CPU
 *	on which another thread runs.
 *
 *	The sections themselves test only cpu_id of the area.  Therefore the
 *	functions that create tasks enforce the rule: vfork() and clone()
 *	unregister the area before such a task exists (umem/malloc/thread.c,
 *	which explains why no other call has to), and rseq_thread_stop()
 *	prevents the task from registering an own area.  Debug builds ask the
 *	kernel at each cpu_acquire().
 *
 * Ownership of headers
 *	Sections push and pop on the loaded magazine without a lock.  Their
 *	commit is the store of top.  All other changes (exchange, load and drain
 *	of magazines) need ownership, which is acquired by a compare-and-swap of
 *	owned from 0 to 1.  Allocations and frees try it once and do not wait.
 *	If it fails, they bypass the magazines, so a preempted owner does not
 *	delay them.  fork() waits until no header is owned (cpu_fork.c).
 *
 *	Ownership alone does not stop the sections.
 *	(a) On its own CPU the owner stops them by rseq_claim(), which commits
 *	    CPU_CLAIMED to top.  When that store is done on this CPU, no other
 *	    thread is inside a section here: the kernel has preempted such a
 *	    thread to run the owner, and will restart its section.  Sections
 *	    that start later read CPU_CLAIMED until the owner publishes.
 *	(b) For another CPU the owner closes the header (cpu_drain.c): it sets
 *	    bottom and limit so that every section refuses.  Then it issues
 *	    membarrier.  Afterwards every section that had read the old bottom
 *	    or limit has either committed or been restarted, so top does not
 *	    change any more.  The header stays closed, because a section on its
 *	    CPU may have read the old top and not yet bottom and limit.  A
 *	    thread on that CPU opens the header as in (a).
 *
 *	To publish, the owner stores bottom and limit first, and then top with
 *	release order.  The sections load top first, with acquire order, and
 *	then bottom or limit.  A section that reads the new top therefore reads
 *	the bottom, the limit and the rounds that belong to it.  A section that
 *	reads CPU_CLAIMED refuses for any bottom and limit.  It does not matter
 *	if the owner has moved to another CPU meanwhile.  Last, the owner stores
 *	owned := 0 with release order, which pairs with the compare-and-swap.
 *
 *	If the owner of (a) is preempted, the sections of other threads on that
 *	CPU are refused, and these threads bypass the magazines.
 *
 * Locked mode
 *	Without rseq the library uses the same headers, and every operation
 *	needs ownership of the header.  top is then an ordinary word.  A thread
 *	that finds its CPU's header owned tries those of the next CPUs.
 */
#include "magazine/cpu_inner.h"

/*
 * Attempts of cpu_acquire() before the thread bypasses the magazines.  An
 * attempt fails if the claim is interrupted or the thread has moved to another
 * CPU.  A single-stepped thread is interrupted every time, any other thread
 * hardly twice in a row.
 */
#define CLAIM_TRIES 8

/* Headers to try in locked mode before the thread bypasses the magazines. */
#define LOCKED_TRIES 3

unsigned
cpu_now(void)
{
	return cpu_layer.rseq.owner == RSEQ_NONE ? os_cpu()
						 : rseq_cpu(&cpu_layer.place);
}

/* cpu_acquire() in locked mode. */
static bool
acquire_in_locked_mode(
    struct cpu_hot *hot, struct cpu_cold *cold, struct cpu_owned *owned)
{
	unsigned cpu = os_cpu();

	for (int i = 0; i < LOCKED_TRIES; i++, cpu++) {
		cpu %= cpu_layer.nwanted;
		struct cpu_hot *h = hot_of(hot, cpu);
		struct cpu_cold *c = cold_of(cold, cpu);

		if (unlikely(!is_committed(hot, cpu)) &&
		    !block_commit(region_of(hot), cpu))
			return false;
		if (!owned_try(c))
			continue;
		owned->hot = h;
		owned->cold = c;
		owned->cpu = cpu;
		owned->nrounds = rounds_below(c, h->top);
		owned->nmarked = 0;
		owned->is_marked = false;
		return true;
	}
	return false;
}

/*
 * Bytes of the newest rounds that magazine_put() compares, in the previous
 * magazine if the loaded one has fewer, and that magazine_get() may move
 * between the two magazines.
 */
#define NEWEST_BYTES ((size_t)4 * CACHE_LINE)

/* Prefetch the last part of a magazine of the given size, starting at mag. */
static inline void
prefetch_rounds(uintptr_t mag, size_t bytes, size_t last)
{
	for (size_t at = bytes; at > CACHE_LINE && bytes - at < last;
	     at -= CACHE_LINE)
		__builtin_prefetch((void *)(mag + at - 1));
}

/*
 * Unsynchronised reads are correct here: the values are used only as prefetch
 * addresses.
 */
void
cpu_prefetch(struct cpu_hot *hot)
{
	size_t at = (size_t)((uintptr_t)hot - (uintptr_t)cpu_layer.blocks);
	uintptr_t top, bottom, limit, loaded, previous;
	struct cpu_cold *cold;
	unsigned cpu;

	if (cpu_layer.rseq.owner == RSEQ_NONE || at >= CPU_BLOCK)
		return;
	cpu = rseq_cpu(&cpu_layer.place);
	if (unlikely(!is_cpu(cpu)))
		return;
	hot = hot_of(hot, cpu);
	cold = (struct cpu_cold *)((char *)hot - at + CPU_COLD_AT) +
	       at / sizeof(*hot);
	top = load_relaxed(&hot->top);
	bottom = load_relaxed(&hot->bottom);
	limit = load_relaxed(&hot->limit);
	previous = (uintptr_t)load_relaxed(&cold->previous);
	loaded = bottom - sizeof(struct magazine);
	__builtin_prefetch((void *)previous, /* to write */ 1);
	__builtin_prefetch((void *)loaded, 1);
	if (top == limit)
		prefetch_rounds(loaded, limit - loaded, NEWEST_BYTES);
	if (top != limit || limit - bottom < NEWEST_BYTES)
		prefetch_rounds(previous, limit - loaded, NEWEST_BYTES);
}

/* Racy estimate: has the loaded magazine no rounds? */
static bool
seems_at_bottom(const struct cpu_hot *h, const struct cpu_cold *c)
{
	intptr_t top = (intptr_t)load_relaxed(&h->top);
	uintptr_t loaded;

	if (top > (intptr_t)load_relaxed(&h->bottom))
		return false;
	/* The section may have been refused because of a mark. */
	loaded = (uintptr_t)load_relaxed(&c->loaded);
	return loaded == 0 ||
	       top <= (intptr_t)(loaded + offsetof(struct magazine, round));
}

/*
 * Estimates
 *	A thread whose section has missed looks at the header before it acquires
 *	ownership.  The words that it reads may be of different moments and, if
 *	the thread has moved, of a CPU on which other threads run.  That is
 *	correct, because the result only chooses between two ways that are both
 *	correct on every header:
 *	- "empty" although there are rounds: the caller fills a magazine from
 *	  the slabs.  magazine_install(), which owns the header, finds the
 *	  rounds and puts the magazine into the depot;
 *	- not "empty" although there are none: the caller owns the header, finds
 *	  no rounds, and fills a magazine then.
 *	Only words of the block are read, never a magazine (its address serves
 *	to tell a mark from the end of the rounds): another thread may
 *	free that meanwhile.  nprevious stands for previous->nrounds.  It can
 *	differ from it only while a thread owns the header: each change of
 *	previous, or of its rounds, is made by an owner, and cpu_release() or
 *	the drain that took the magazine stores the new number before it ends
 *	the ownership.  A header of zeros, in a block without memory, is not
 *	read: the read would cause a page fault in addition to that of the first
 *	write.
 */
bool
cpu_seems_empty(struct cpu_hot *hot, struct cpu_cold *cold, uint32_t *refill)
{
	unsigned cpu;
	const struct cpu_hot *h;
	const struct cpu_cold *c;

	if (cpu_layer.rseq.owner == RSEQ_NONE)
		return false;
	cpu = rseq_cpu(&cpu_layer.place);
	if (unlikely(!is_cpu(cpu)) || unlikely(!is_committed(hot, cpu)))
		return false;
	h = hot_of(hot, cpu);
	c = cold_of(cold, cpu);
	*refill = load_relaxed(&c->refill);
	return load_relaxed(&c->nprevious) == 0 &&
	       load_relaxed(&c->owned) == 0 && seems_at_bottom(h, c);
}

bool
cpu_seems_closed(struct cpu_hot *hot)
{
	unsigned cpu = cpu_now();

	if (cpu_layer.rseq.owner == RSEQ_NONE)
		cpu %= cpu_layer.nwanted;
	/* The CPU at a thread's first free, which is the one that matters. */
	if (unlikely(!is_cpu(cpu)) && rseq_thread_start(&cpu_layer.rseq))
		cpu = cpu_now();
	if (unlikely(!is_cpu(cpu)))
		return false;
	/* Acquire; pairs with the release in block_commit_locked(). */
	if (unlikely(!is_committed(hot, cpu)) &&
	    !load_acquire(&region_of(hot)->committed[cpu]))
		return true;
	return load_relaxed(&hot_of(hot, cpu)->limit) == 0;
}

bool
cpu_acquire(struct cpu_hot *hot, struct cpu_cold *cold, struct cpu_owned *owned)
{
	if (cpu_layer.rseq.owner == RSEQ_NONE)
		return acquire_in_locked_mode(hot, cold, owned);
	for (int i = 0; i < CLAIM_TRIES; i++) {
		unsigned cpu = rseq_cpu(&cpu_layer.place);
		struct cpu_hot *h = hot_of(hot, cpu);
		struct cpu_cold *c = cold_of(cold, cpu);
		uintptr_t top;

		if (unlikely(!is_cpu(cpu))) {
			if (!rseq_thread_start(&cpu_layer.rseq))
				return false;
			continue;
		}
		if (unlikely(!is_committed(hot, cpu)) &&
		    !block_commit(region_of(hot), cpu))
			return false;
		if (!owned_try(c)) {
			/*
			 * Relaxed: this thread is not the owner, so two
			 * threads together may count only one.
			 */
			uint32_t n = load_relaxed(&c->nbypassed);

			store_relaxed(&c->nbypassed, n + 1);
			return false;
		}
		enum rseq_result r = rseq_claim(&cpu_layer.place, h, cpu, &top);
		if (likely(r == RSEQ_OK)) {
			umem_assert(rseq_is_held());
			/* The argument of cpu_seems_empty() relies on it. */
			umem_assert(
			    c->nprevious ==
			    (c->previous == NULL ? 0 : c->previous->nrounds));
			owned->hot = h;
			owned->cold = c;
			owned->cpu = cpu;
			owned->nrounds = rounds_below(c, top);
			owned->nmarked = 0;
			owned->is_marked =
			    owned->nrounds != 0 && top <= h->bottom;
			return true;
		}
		owned_end(c);
		if (r == RSEQ_UNREGISTERED &&
		    !rseq_thread_start(&cpu_layer.rseq))
			return false;
	}
	return false;
}

void
cpu_release(struct cpu_owned *owned)
{
	struct cpu_hot *h = owned->hot;
	struct magazine *loaded = owned->cold->loaded;
	uintptr_t top = 0;

	umem_assert(load_relaxed(&owned->cold->owned) != 0);
	umem_assert(loaded == NULL || loaded != owned->cold->previous);
	nprevious_set(owned->cold);
	if (loaded == NULL) {
		umem_assert(owned->nrounds == 0);
		close_header(h);
	} else {
		umem_assert(owned->nrounds <= loaded->capacity);
		umem_assert(owned->nmarked <= owned->nrounds);
		open_header(h, loaded, owned->nmarked);
		top = (uintptr_t)(loaded->round + owned->nrounds);
		rseq_handed_over(loaded->round, owned->nrounds);
	}
	/* Release: pairs with the load of top in the sections. */
	store_release(&h->top, top);
	owned_end(owned->cold);
}
