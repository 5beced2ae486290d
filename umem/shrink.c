/*
 * shrink.c - realloc() to less than half: keep the block, or move it?
 *
 * A smaller block somewhere else sets memory free, which is what a program
 * wants that cuts its buffers to their length once.  One whose blocks go up
 * and down gets nothing but copies from it.  Who is who shows afterwards.
 *
 * Regret
 *	A block that was moved because it shrank is remembered by its address.
 *	If realloc() makes it grow again, the move is regretted; if another
 *	takes its slot before that, it is not.  A regret earns credit, WORTH
 *	times the bytes that had been set free, and its contrary costs as much.
 *	A block that shrinks stays while there is credit for what it leaves
 *	unused.
 *
 *	So blocks stay only where more than half of the moves turned out to be
 *	in vain, and even then one in WORTH is moved, to go on asking.  The
 *	credit never exceeds a fourth of the heap: a program that changes its
 *	ways has lost no more.
 *
 *	What is remembered must not depend on what becomes of the block.  So a
 *	slot is taken whether it is free or not: free ones would go to addresses
 *	that come back soon.  For the same reason a slot that was never used
 *	costs as if it had been: regrets are early, and their contrary is late.
 *
 *	An address may have been freed meanwhile, and be another block's that
 *	grows.  Then the smaller one did not live long, nor would the larger.
 *
 * Locking: none.  Words are atomic each; when two threads meet in a slot, an
 * answer is lost or counted for another block.
 */
#include <sys/types.h>

#include "umem/shrink.h"
#include "umem/size_class.h"
#include "vmem/heap.h"

#define SLOTS       4096
#define WORTH       64
#define CREDIT_MOST (1 * MIB) /* or a fourth of the heap */

#define NEVER_USED 0
#define NOTHING    1

/* A block that shrank. */
struct slot {
	uintptr_t block; /* [a] or one of the above */
	uint32_t had;    /* [a] bytes, before it shrank */
	uint32_t slack;  /* [a] bytes set free */
};

bool shrink_any;
static struct slot slots[SLOTS] seldom_used;
static ssize_t credit; /* [a] bytes; below 0: owed */

static struct slot *
slot_of(const void *block)
{
	/* Any mixing of bits will do; the constant is 2^64 / golden ratio. */
	uint64_t mixed = (uintptr_t)block * 0x9e3779b97f4a7c15;

	return &slots[mixed >> 32 & (SLOTS - 1)];
}

/* The slot that has the block, or NULL. */
static struct slot *
slot_find(const void *block)
{
	struct slot *slot = slot_of(block);
	uintptr_t has = __atomic_load_n(&slot->block, __ATOMIC_RELAXED);

	return unlikely(has == (uintptr_t)block) ? slot : NULL;
}

static void
credit_add(ssize_t bytes)
{
	ssize_t most = (ssize_t)(heap_committed() / 4);
	ssize_t now = __atomic_add_fetch(&credit, bytes, __ATOMIC_RELAXED);

	if (most < (ssize_t)CREDIT_MOST)
		most = CREDIT_MOST;
	if (now > most)
		__atomic_store_n(&credit, most, __ATOMIC_RELAXED);
	else if (now < -most)
		__atomic_store_n(&credit, -most, __ATOMIC_RELAXED);
}

/* May so much be left unused? */
static bool
trust(size_t slack)
{
	if (__atomic_load_n(&credit, __ATOMIC_RELAXED) < (ssize_t)slack)
		return false;
	__atomic_sub_fetch(&credit, slack, __ATOMIC_RELAXED);
	return true;
}

bool
shrink_stays(size_t bytes, size_t size)
{
	return trust(bytes - size);
}

/* Whatever has the slot is not regretted. */
static void
slot_evict(const struct slot *slot, size_t slack)
{
	uintptr_t has = __atomic_load_n(&slot->block, __ATOMIC_RELAXED);

	if (has == NOTHING)
		return;
	if (has != NEVER_USED)
		slack = __atomic_load_n(&slot->slack, __ATOMIC_RELAXED);
	credit_add(-(ssize_t)(WORTH * slack));
}

void
shrink_moved(const void *from, size_t had, const void *to, size_t slack)
{
	struct slot *slot = slot_find(from);

	/* Smaller still: no answer yet. */
	if (slot != NULL) {
		had = __atomic_load_n(&slot->had, __ATOMIC_RELAXED);
		slack = __atomic_load_n(&slot->slack, __ATOMIC_RELAXED);
		__atomic_store_n(&slot->block, NOTHING, __ATOMIC_RELAXED);
	}
	/* A large block would not be given back all that it had. */
	if (had > SIZE_CLASS_MAX)
		return;
	slot = slot_of(to);
	slot_evict(slot, slack);
	__atomic_store_n(&slot->had, (uint32_t)had, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->slack, (uint32_t)slack, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->block, (uintptr_t)to, __ATOMIC_RELAXED);
	if (!__atomic_load_n(&shrink_any, __ATOMIC_RELAXED))
		__atomic_store_n(&shrink_any, true, __ATOMIC_RELAXED);
}

size_t
shrink_regrows(const void *block, size_t size)
{
	struct slot *slot = slot_find(block);
	size_t had, slack;

	if (likely(slot == NULL))
		return size;
	__atomic_store_n(&slot->block, NOTHING, __ATOMIC_RELAXED);
	had = __atomic_load_n(&slot->had, __ATOMIC_RELAXED);
	slack = __atomic_load_n(&slot->slack, __ATOMIC_RELAXED);
	credit_add((ssize_t)(WORTH * slack));
	return had > size && trust(had - size) ? had : size;
}

size_t
shrink_credit(void)
{
	ssize_t now = __atomic_load_n(&credit, __ATOMIC_RELAXED);

	return now < 0 ? 0 : (size_t)now;
}
