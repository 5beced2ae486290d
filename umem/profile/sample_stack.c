/*
 * sample_stack.c - the distinct stacks of samples
 *
 * A program has many samples and few call sites, so each distinct stack is
 * stored once, in metadata memory: 64 frames for each of 32768 samples would be
 * 16 MiB.  A stack has the references of the records that have it, and is freed
 * with the last one.  A record keeps its references until it is filled again,
 * so there are at most two stacks for each record, and the table needs no limit
 * of its own.  A sample for whose stack there is no memory is not kept, like
 * one without a record.
 *
 * Locking: table_lock guards the buckets.  It is a leaf.  A search increases
 * nrefs with the lock held, and a thread decreases it with the lock held, so no
 * search finds a stack that is being freed.
 *
 * Memory of a freed stack stays mapped (meta.c).  A handler of SIGSEGV that
 * reports a record while another thread refills it may therefore print wrong
 * frames, but does not fault.
 */
#include <string.h>

#include "umem/debug/stack.h"
#include "umem/profile/sample_stack.h"
#include "vmem/hash.h"
#include "vmem/lock.h"
#include "vmem/meta.h"
#include "vmem/panic.h"

/*
 * A program with 10000 call sites has chains of 3.  The pages of buckets that
 * were never used have no memory.
 */
#define BUCKETS 4096

static struct lock table_lock = LOCK_INITIALIZER(LOCK_SAMPLE);
static struct sample_stack *buckets[BUCKETS] seldom_used; /* [table_lock] */
static uint32_t nstacks;                                  /* [table_lock] */

static size_t
stack_bytes(unsigned depth)
{
	return sizeof(struct sample_stack) + depth * sizeof(uintptr_t);
}

static uint64_t
stack_hash(const uintptr_t *pcs, unsigned depth)
{
	uint64_t hash = depth;

	for (unsigned i = 0; i < depth; i++)
		hash = hash_mix(hash + pcs[i]);
	return hash;
}

/* A call of memcmp() would be one more relocation in each process. */
static bool
stack_has(const struct sample_stack *stack, const uintptr_t *pcs)
{
	unsigned i = 0;

	while (i < stack->depth && stack->pc[i] == pcs[i])
		i++;
	return i == stack->depth;
}

static struct sample_stack **
bucket_of(uint64_t hash)
{
	return &buckets[hash % BUCKETS];
}

/* Returns the stack with a further reference, or NULL. */
static struct sample_stack *
find_locked(uint64_t hash, const uintptr_t *pcs, unsigned depth)
{
	struct sample_stack *stack = *bucket_of(hash);

	lock_assert_held(&table_lock);
	while (stack != NULL && (stack->hash != hash || stack->depth != depth ||
				    !stack_has(stack, pcs)))
		stack = stack->next;
	if (stack != NULL)
		add_relaxed(&stack->nrefs, 1);
	return stack;
}

/* Returns a stack that is in no bucket, or NULL. */
static struct sample_stack *
stack_create(uint64_t hash, const uintptr_t *pcs, unsigned depth)
{
	struct sample_stack *stack = meta_alloc_best_effort(stack_bytes(depth));

	if (stack == NULL)
		return NULL;
	stack->hash = hash;
	stack->nrefs = 1;
	stack->depth = depth;
	memcpy(stack->pc, pcs, depth * sizeof(*pcs));
	return stack;
}

/*
 * Enters a new stack.  If another thread has entered an equal one meanwhile,
 * returns that and frees the new one.
 */
static struct sample_stack *
stack_enter(struct sample_stack *created)
{
	struct sample_stack **bucket = bucket_of(created->hash), *stack;

	lock_take(&table_lock);
	stack = find_locked(created->hash, created->pc, created->depth);
	if (stack == NULL) {
		created->next = *bucket;
		*bucket = created;
		nstacks++;
	}
	lock_release(&table_lock);
	if (stack == NULL)
		return created;
	meta_free(created, stack_bytes(created->depth));
	return stack;
}

struct sample_stack *
sample_stack_take(void)
{
	uintptr_t pcs[SAMPLE_FRAMES];
	unsigned depth = stack_trace(pcs, SAMPLE_FRAMES);
	uint64_t hash = stack_hash(pcs, depth);
	struct sample_stack *stack;

	umem_assert(depth <= SAMPLE_FRAMES);
	lock_take(&table_lock);
	stack = find_locked(hash, pcs, depth);
	lock_release(&table_lock);
	if (stack != NULL)
		return stack;
	stack = stack_create(hash, pcs, depth);
	return stack == NULL ? NULL : stack_enter(stack);
}

void
sample_stack_drop(struct sample_stack *stack)
{
	struct sample_stack **link;
	bool is_last;

	if (stack == NULL)
		return;
	link = bucket_of(stack->hash);
	lock_take(&table_lock);
	is_last = sub_relaxed(&stack->nrefs, 1) == 0;
	if (is_last) {
		while (*link != stack)
			link = &(*link)->next;
		*link = stack->next;
		nstacks--;
	}
	lock_release(&table_lock);
	if (is_last)
		meta_free(stack, stack_bytes(stack->depth));
}

uint32_t
sample_stack_count(void)
{
	uint32_t n;

	lock_take(&table_lock);
	n = nstacks;
	lock_release(&table_lock);
	return n;
}

void
sample_stack_lock_for_fork(void)
{
	lock_take_for_fork(&table_lock);
}

void
sample_stack_unlock_for_fork(void)
{
	lock_release_for_fork(&table_lock);
}
