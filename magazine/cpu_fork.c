/*
 * cpu_fork.c - fork() and the per-CPU headers
 *
 * Owners
 *	A child must find every header published and without an owner.  fork()
 *	does not own the headers for that purpose, because each store would copy
 *	a page in the parent and in the child, for each CPU.  Instead it shuts a
 *	gate and reads:
 *
 *		owner				fork()
 *		owned: compare 0, swap 1	cpu_fork_gate := 1
 *		load cpu_fork_gate			load owned until it is 0
 *
 *	All four accesses are sequentially consistent.  Therefore either the
 *	owner reads the shut gate and releases the header without having changed
 *	it, or fork() reads the owner and waits for it.  An owner holds a header
 *	for a bounded time and waits only for lower locks, which fork() takes
 *	later.  fork() may copy a thread between its two steps, with owned at 1.
 *	The child, in which that thread does not exist, resets owned.  Such a
 *	header is in the state that was published last.
 *
 * Sections in progress
 *	fork() does not wait for sections that other threads run while it copies
 *	memory.  The child sees a prefix of the stores of such a section: a
 *	store to a page that was copied already causes a page fault, which waits
 *	for the end of the copy.  Because the commit is the last store, the
 *	child sees either the whole operation or no effect of it.
 */
#include "magazine/cpu_inner.h"

uint32_t cpu_fork_gate;

/* Call f for each header of a CPU's block that is in use. */
static void
block_each_header(struct region *r, unsigned cpu, void (*f)(struct cpu_cold *))
{
	for (unsigned word = 0; word < array_size(r->taken); word++) {
		/* Header 0 is in use, but refuses every operation for ever. */
		uint64_t left = r->taken[word] & (word == 0 ? ~1ull : ~0ull);

		for (; left != 0; left &= left - 1)
			f(cold_of(
			    header_cold(r, word * 64 + lowbit(left)), cpu));
	}
}

/*
 * Call f for each header that is in use, on each CPU with a block.  The caller
 * is a handler of fork().
 */
static void
each_header_for_fork(void (*f)(struct cpu_cold *))
{
	for (struct region *r = cpu_regions; r != NULL; r = r->next)
		for (unsigned cpu = 0; cpu < cpu_layer.nused; cpu++)
			if (r->committed[cpu] == 1)
				block_each_header(r, cpu, f);
}

/* Acquire, as part of seq_cst; pairs with the release in owned_end(). */
static void
await_no_owner(struct cpu_cold *c)
{
	for (unsigned i = 0; __atomic_load_n(&c->owned, __ATOMIC_SEQ_CST) != 0;
	     i++)
		owned_pause(c, i);
}

/* In the child: end the ownership of a thread that does not exist there. */
static void
end_of_no_thread(struct cpu_cold *c)
{
	if (c->owned != 0)
		owned_end(c);
}

/* While cpu_regions_lock is held, no thread can add a block or a header. */
void
cpu_lock_for_fork(void)
{
	lock_take_for_fork(&cpu_regions_lock);
	__atomic_store_n(&cpu_fork_gate, 1, __ATOMIC_SEQ_CST);
	each_header_for_fork(await_no_owner);
}

void
cpu_unlock_for_fork(bool child)
{
	if (child)
		each_header_for_fork(end_of_no_thread);
	/* Release: an owner that reads 0 also reads the headers' state. */
	store_release(&cpu_fork_gate, 0);
	lock_release_for_fork(&cpu_regions_lock);
}
