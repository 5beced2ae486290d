/*
 * shrink.c - realloc() to less than half: keep the block, or move it?
 *
 * A move to a smaller block frees the difference.  This helps a program that
 * trims each buffer to its length once.  A program that shrinks and grows its
 * blocks repeatedly only pays for copies.  The two kinds of program can be told
 * apart only afterwards.
 *
 * Feedback
 *	A block that was moved because it shrank is remembered by its address,
 *	in a slot.  If realloc() makes it grow again, the move was wrong; if
 *	another block takes its slot before that, the move was right.  A wrong
 *	move earns budget ("credit" in identifiers), WORTH times the bytes that
 *	the move had freed, and a right move costs as much.  A block that
 *	shrinks stays in place while the budget covers the bytes that it leaves
 *	unused.
 *
 *	So blocks stay only where more than half of the moves were wrong, and
 *	even then one in WORTH is moved, as a continued sample.  The budget
 *	never exceeds a quarter of the heap, or CREDIT_MOST if that is more,
 *	which bounds the loss of a program that changes its behaviour.
 *
 *	The sample of remembered blocks must not depend on their fate.  So a new
 *	block always overwrites its slot.  Filling only free slots would bias
 *	the sample towards addresses that are reused quickly.  For the same
 *	reason a slot that was never used costs as much as a right move:
 *	evidence against a move arrives early, evidence for it late.
 *
 *	A remembered address may have been freed meanwhile, and belong to
 *	another block that grows.  This counts as a wrong move, because the
 *	smaller block did not live long, so the larger one would not have
 *	either.
 *
 * Locking: none.  Each word is atomic.  If two threads race in a slot, one
 * result is lost or counted for another block.
 */
#include <sys/types.h>

#include "umem/malloc/shrink.h"
#include "umem/base/size_class.h"
#include "vmem/heap.h"

#define SLOTS       4096
#define WORTH       64
#define CREDIT_MOST (1 * MIB) /* or a quarter of the heap */

#define NEVER_USED 0
#define NOTHING    1

/* A block that shrank. */
struct slot {
	uintptr_t block; /* [a] its address, or one of the above */
	uint32_t had;    /* [a] bytes before it shrank */
	uint32_t slack;  /* [a] bytes that the move freed */
};

bool shrink_any;
static struct slot slots[SLOTS] seldom_used;
static ssize_t credit; /* [a] bytes; negative: debt */

static struct slot *
slot_of(const void *block)
{
	/*
	 * Any hash of the address will do; the constant is 2^64 / golden ratio.
	 */
	uint64_t mixed = (uintptr_t)block * 0x9e3779b97f4a7c15;

	return &slots[mixed >> 32 & (SLOTS - 1)];
}

/* Returns the slot of the block, or NULL if it is not remembered. */
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

/*
 * Takes slack bytes from the budget.  Returns false if it does not cover them.
 */
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

/* Counts the move of the block in the slot as right. */
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

	/*
	 * The block shrank again, so the move is neither right nor wrong yet.
	 */
	if (slot != NULL) {
		had = __atomic_load_n(&slot->had, __ATOMIC_RELAXED);
		slack = __atomic_load_n(&slot->slack, __ATOMIC_RELAXED);
		__atomic_store_n(&slot->block, NOTHING, __ATOMIC_RELAXED);
	}
	/*
	 * A block above the largest class would not get its old size back, so
	 * it is not remembered.
	 */
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
