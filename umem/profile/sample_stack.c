/*
 * sample_stack.c - the distinct stacks of samples
 *
 * A program has many samples and few call sites, so each distinct stack is
 * stored once, in metadata memory: 64 frames for each of 32768 samples would be
 * 16 MiB.  A stack has the references of the records that have it.  A record
 * keeps its references until it is filled again, so there are at most two
 * referenced stacks for each record.  Without a reference, a stack stays for
 * its sums while the table has at most sample_stacks_kept.  A sample for whose
 * stack there is no memory is not kept, like one without a record.
 *
 * Sums
 *	A sample adds its weight to the sums of its stack, and takes away the
 *	same weight, whatever has happened to its record since.  So the live sum
 *	of a stack is never negative, and the sums stay right when samples are
 *	halved.
 *	    When the sums begin anew, the allocated sum is subtracted from both:
 *	the live sum stays, and the freed sum wraps below 0.
 *
 * Peak
 *	When the live bytes of all stacks exceed their last peak by a twentieth,
 *	this is the next peak, and npeaks is increased.  The live sum of each
 *	stack at this moment must be kept.  It is copied when the stack changes
 *	next: that the stack's npeaks is smaller says that it has not changed
 *	since, and that its live sum is the one to keep.
 *
 * Locking: sample_stack_lock guards the buckets and the sums.  It is a leaf.  A
 * search increases nrefs with the lock held, and a thread decreases it with the
 * lock held, so no search finds a stack that is being freed.
 *
 * Memory of a freed stack stays mapped (meta.c).  A handler of SIGSEGV that
 * reports a record while another thread refills it may therefore print wrong
 * frames, but does not fault.
 */
#include <string.h>

#include "umem/debug/stack.h"
#include "umem/profile/described.h"
#include "umem/profile/sample_stack.h"
#include "vmem/account.h"
#include "vmem/describe.h"
#include "vmem/hash.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/*
 * A program with 10000 call sites has chains of 3.  The pages of buckets that
 * were never used have no memory.
 */
#define SAMPLE_BUCKETS 4096

/* A new peak exceeds the last one by 1/PEAK_PART of it. */
#define PEAK_PART 20

#define MS_NS UINT64_C(1000000)

/* Most programs have fewer; with 64 frames each they take 5 MiB. */
uint32_t sample_stacks_kept = 8192;

/* Keys: [s] sample_stack_lock */
struct lock sample_stack_lock = LOCK_INITIALIZER(LOCK_SAMPLE);
static struct sample_stack *stacks[SAMPLE_BUCKETS] seldom_used; /* [s] */
static uint32_t nstacks;                                        /* [s] */
static uint64_t peak_bytes; /* [s] live bytes at the last peak */
static uint64_t npeaks;     /* [s] peaks so far */
static uint64_t peak_time;  /* [s] of the last, ns, CLOCK_MONOTONIC */

uint64_t sample_sums_reset;

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

/* Returns the stack with a further reference, or NULL. */
static struct sample_stack *
find_locked(uint64_t hash, const uintptr_t *pcs, unsigned depth)
{
	struct sample_stack *stack = stacks[hash % SAMPLE_BUCKETS];

	lock_assert_held(&sample_stack_lock);
	while (stack != NULL && (stack->hash != hash || stack->depth != depth ||
				    !stack_has(stack, pcs)))
		stack = stack->next;
	if (stack != NULL)
		stack->nrefs++;
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
	struct sample_stack **bucket = &stacks[created->hash % SAMPLE_BUCKETS];
	struct sample_stack *stack;

	lock_take(&sample_stack_lock);
	stack = find_locked(created->hash, created->pc, created->depth);
	if (stack == NULL) {
		created->next = *bucket;
		*bucket = created;
		nstacks++;
	}
	lock_release(&sample_stack_lock);
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
	lock_take(&sample_stack_lock);
	stack = find_locked(hash, pcs, depth);
	lock_release(&sample_stack_lock);
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
	link = &stacks[stack->hash % SAMPLE_BUCKETS];
	lock_take(&sample_stack_lock);
	is_last = --stack->nrefs == 0 && nstacks > sample_stacks_kept;
	if (is_last) {
		while (*link != stack)
			link = &(*link)->next;
		*link = stack->next;
		nstacks--;
	}
	lock_release(&sample_stack_lock);
	if (is_last)
		meta_free(stack, stack_bytes(stack->depth));
}

/* Keeps the live sum of the last peak, before the sums change. */
static void
keep_peak_locked(struct sample_sums *sums)
{
	lock_assert_held(&sample_stack_lock);
	if (sums->npeaks == npeaks)
		return;
	sums->peak = sample_sums_live(sums);
	sums->npeaks = npeaks;
}

/* Begins the sums and the peak anew if sample_sums_reset is set. */
static void
reset_sums_locked(void)
{
	lock_assert_held(&sample_stack_lock);
	if (likely(load_relaxed(&sample_sums_reset) == 0))
		return;
	for (size_t i = 0; i < SAMPLE_BUCKETS; i++)
		for (struct sample_stack *s = stacks[i]; s != NULL;
		     s = s->next) {
			struct sample_sum live = sample_sums_live(&s->sums);

			s->sums = (struct sample_sums){
			    .freed = {-live.blocks, -live.bytes}};
		}
	peak_bytes = npeaks = 0;
	store_relaxed(&sample_sums_reset, 0);
}

static void
note_peak_locked(void)
{
	uint64_t live_bytes =
	    account_get(&account.allocated) - account_get(&account.freed);

	lock_assert_held(&sample_stack_lock);
	if (live_bytes <= peak_bytes + peak_bytes / PEAK_PART)
		return;
	peak_bytes = live_bytes;
	peak_time = os_exact_ns();
	npeaks++;
}

/* Returns the sum for which a sample of so many bytes stands. */
static struct sample_sum
sum_of(uint64_t bytes, uint64_t weight)
{
	double blocks = bytes == 0 ? 1 : (double)weight / (double)bytes;

	return (struct sample_sum){
	    (uint64_t)(blocks * SAMPLE_BLOCK_PARTS), weight};
}

void
sample_stack_allocated(
    struct sample_stack *stack, uint64_t bytes, uint64_t weight)
{
	struct sample_sum sum = sum_of(bytes, weight);

	lock_take(&sample_stack_lock);
	reset_sums_locked();
	keep_peak_locked(&stack->sums);
	sample_sum_add(&stack->sums.allocated, sum);
	account_add(&account.allocated, sum.bytes);
	account_add(&account.nallocated, sum.blocks);
	note_peak_locked();
	lock_release(&sample_stack_lock);
}

void
sample_stack_freed(
    struct sample_stack *stack, uint64_t bytes, uint64_t weight, uint64_t ns)
{
	struct sample_sums *sums = &stack->sums;
	struct sample_sum sum = sum_of(bytes, weight);

	lock_take(&sample_stack_lock);
	keep_peak_locked(sums);
	sample_sum_add(&sums->freed, sum);
	if (ns < MS_NS)
		sample_sum_add(&sums->lived_ms, sum);
	if (ns < 1000 * MS_NS)
		sample_sum_add(&sums->lived_s, sum);
	account_add(&account.freed, sum.bytes);
	account_add(&account.nfreed, sum.blocks);
	lock_release(&sample_stack_lock);
}

void
sample_stack_each(
    void (*visit)(const struct sample_stack *, void *arg), void *arg)
{
	for (size_t i = 0; i < SAMPLE_BUCKETS; i++) {
		lock_take(&sample_stack_lock);
		reset_sums_locked();
		for (struct sample_stack *s = stacks[i]; s != NULL; s = s->next)
			visit(s, arg);
		lock_release(&sample_stack_lock);
	}
}

DESCRIBE(DESCRIBED_STACKS);
