/*
 * shrink.c - realloc() to less than half: keep the block, or move it?
 *
 * A move to a smaller block frees the difference.  This helps a program that
 * trims each buffer to its length once.  A program that shrinks and grows its
 * blocks repeatedly only pays for copies.  The two kinds of program can be told
 * apart only afterwards.
 *
 * Feedback
 *	A block that was moved because it shrank has a record, which is found by
 *	a hash of its address.  If realloc() makes the block grow again, the
 *	move was wrong; if another block takes the record before that, the move
 *	was right.  A wrong move adds FEEDBACK_FACTOR times the bytes that it
 *	had freed to a budget, and a right move subtracts as much.  A block that
 *	shrinks stays in place while the budget covers the bytes that it leaves
 *	unused.
 *
 *	So blocks stay only where more than half of the moves were wrong, and
 *	even then one in FEEDBACK_FACTOR is moved, as a continued sample.  The
 *	budget never exceeds the target of idle memory (vmem/target.h),
 *	which bounds the loss of a program that changes its behaviour.
 *
 *	The sample of recorded blocks must not depend on their fate.  So a new
 *	block always overwrites a record.  Filling only free records would bias
 *	the sample towards addresses that are reused quickly.  For the same
 *	reason a record that was never used costs as much as a right move:
 *	evidence against a move arrives early, evidence for it late.
 *
 *	A recorded address may have been freed meanwhile, and belong to another
 *	block that grows.  This counts as a wrong move, because the smaller
 *	block did not live long, so the larger one would not have either.
 *
 * Locking: none.  Each word is atomic.  If two threads race for a record, one
 * result is lost or counted for another block.
 */
#include <sys/types.h>

#include "umem/malloc/shrink.h"
#include "umem/base/size_class.h"
#include "vmem/hash.h"
#include "vmem/heap.h"
#include "vmem/panic.h"
#include "vmem/target.h"

/* Records, 16 bytes each, untouched in a program that never shrinks. */
#define NRECORDS 4096

/* Weight of one observed move; see the top.  Not measured by itself. */
#define FEEDBACK_FACTOR 64

/* Not addresses of blocks: in record.block. */
#define BLOCK_NEVER 0 /* the record was never used */
#define BLOCK_NONE  1 /* the move was counted already */

/* A block that shrank and was moved. */
struct record {
	uintptr_t block;      /* [a] its address, or one of the above */
	uint32_t old_bytes;   /* [a] bytes before it shrank */
	uint32_t freed_bytes; /* [a] bytes that the move freed */
};

_Static_assert(
    (NRECORDS & (NRECORDS - 1)) == 0, "record_of() masks a hash with it");
_Static_assert(SIZE_CLASS_MAX <= UINT32_MAX, "a record has 32 bits for a size");

bool shrink_has_records;
static struct record records[NRECORDS] seldom_used;
static ssize_t budget; /* [a] bytes; negative: debt */

static struct record *
record_of(const void *block)
{
	return &records[hash_multiply((uintptr_t)block) >> 32 & (NRECORDS - 1)];
}

/* Returns the record of the block, or NULL if it has none. */
static struct record *
record_find(const void *block)
{
	struct record *record = record_of(block);
	uintptr_t recorded = __atomic_load_n(&record->block, __ATOMIC_RELAXED);

	return unlikely(recorded == (uintptr_t)block) ? record : NULL;
}

static void
budget_add(ssize_t bytes)
{
	ssize_t limit = (ssize_t)idle_target(heap_committed());
	ssize_t now = __atomic_add_fetch(&budget, bytes, __ATOMIC_RELAXED);

	if (now > limit)
		__atomic_store_n(&budget, limit, __ATOMIC_RELAXED);
	else if (now < -limit)
		__atomic_store_n(&budget, -limit, __ATOMIC_RELAXED);
}

/* Takes bytes from the budget.  Returns false if it does not cover them. */
static bool
budget_spend(size_t bytes)
{
	if (__atomic_load_n(&budget, __ATOMIC_RELAXED) < (ssize_t)bytes)
		return false;
	__atomic_sub_fetch(&budget, bytes, __ATOMIC_RELAXED);
	return true;
}

bool
shrink_keeps_in_place(size_t bytes, size_t size)
{
	umem_assert(size <= bytes);
	return budget_spend(bytes - size);
}

/*
 * Counts the recorded move as right, because its record is needed for a move
 * that freed freed_bytes.
 */
static void
record_count_right(const struct record *record, size_t freed_bytes)
{
	uintptr_t block = __atomic_load_n(&record->block, __ATOMIC_RELAXED);

	if (block == BLOCK_NONE)
		return;
	if (block != BLOCK_NEVER)
		freed_bytes =
		    __atomic_load_n(&record->freed_bytes, __ATOMIC_RELAXED);
	budget_add(-(ssize_t)(FEEDBACK_FACTOR * freed_bytes));
}

void
shrink_moved(
    const void *from, size_t old_bytes, const void *to, size_t freed_bytes)
{
	struct record *record = record_find(from);

	umem_assert(freed_bytes <= old_bytes);
	/*
	 * The block shrank again, so the move is neither right nor wrong yet.
	 */
	if (record != NULL) {
		old_bytes =
		    __atomic_load_n(&record->old_bytes, __ATOMIC_RELAXED);
		freed_bytes =
		    __atomic_load_n(&record->freed_bytes, __ATOMIC_RELAXED);
		__atomic_store_n(&record->block, BLOCK_NONE, __ATOMIC_RELAXED);
	}
	/*
	 * A block above the largest class would not get its old size back, so
	 * it is not recorded.
	 */
	if (old_bytes > SIZE_CLASS_MAX)
		return;
	record = record_of(to);
	record_count_right(record, freed_bytes);
	__atomic_store_n(
	    &record->old_bytes, (uint32_t)old_bytes, __ATOMIC_RELAXED);
	__atomic_store_n(
	    &record->freed_bytes, (uint32_t)freed_bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&record->block, (uintptr_t)to, __ATOMIC_RELAXED);
	if (!__atomic_load_n(&shrink_has_records, __ATOMIC_RELAXED))
		__atomic_store_n(&shrink_has_records, true, __ATOMIC_RELAXED);
}

size_t
shrink_grow_recorded(const void *block, size_t size)
{
	struct record *record = record_find(block);
	size_t old_bytes, freed_bytes;

	if (likely(record == NULL))
		return size;
	__atomic_store_n(&record->block, BLOCK_NONE, __ATOMIC_RELAXED);
	old_bytes = __atomic_load_n(&record->old_bytes, __ATOMIC_RELAXED);
	freed_bytes = __atomic_load_n(&record->freed_bytes, __ATOMIC_RELAXED);
	budget_add((ssize_t)(FEEDBACK_FACTOR * freed_bytes));
	return old_bytes > size && budget_spend(old_bytes - size) ? old_bytes
								  : size;
}
