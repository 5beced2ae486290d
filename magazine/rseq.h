/*
 * rseq.h - restartable sequences: what they promise, and who registered them
 *
 * The kernel restarts a thread at the abort label of a section when the
 * thread was preempted, moved, or given a signal between the section's first
 * instruction and its commit.  So what a section read of its CPU's data is
 * still true when its last store is done: nothing else ran on that CPU in
 * between.  A section here ends in one 8-byte store, the commit; whatever it
 * stored before lies where nobody looks until the commit.
 *
 * CPU number
 *	Sections index by mm_cid where the kernel has it (a number that no two
 *	running threads of the process share, below the number of threads and
 *	of allowed CPUs), else by cpu_id.  Everything said of a CPU below is
 *	meant of that number.
 *
 * Contracts (the same for every architecture; struct cpu_hot is in
 * cpu_layout.h).  A header is named by header 0 of CPU 0's block, base, and
 * its distance from there in bytes, at.
 *
 * rseq_pop(base, at, &object)
 *	if area.cpu_id < 0 return RSEQ_UNREGISTERED
 *	h = base + CPU number * CPU_BLOCK + at
 *	t = load-acquire h->top
 *	if t <= h->bottom (signed) return RSEQ_MISS
 *	object = load [t - 8]
 *	commit: store t - 8, h->top
 *
 * rseq_push(base, at, object)
 *	if area.cpu_id < 0 return RSEQ_UNREGISTERED
 *	block = base + CPU number * CPU_BLOCK
 *	h = block + at
 *	t = load-acquire h->top
 *	if t >= h->limit (unsigned) return RSEQ_MISS
 *	if [t - 8] or [t - 16] == object return RSEQ_MISS
 *						(freed twice, perhaps)
 *	block->ticks -= 1; if block->ticks < 0 return RSEQ_MISS
 *	store object, [t]
 *	commit: store t + 8, h->top
 *
 *	A restart counts a tick twice, which is of no importance.  The ticks
 *	come after the limit: a block without memory has limit 0.  The object
 *	may be stored before them: above top nobody looks.
 *
 * rseq_push_chunk(base, at, object, x)
 *	the same, and
 *	if x * h->magic >= h->bound (32 bits) return RSEQ_MISS
 *
 * rseq_pop_many(base, at, objects, n)		1 <= n <= RSEQ_MANY
 *	as rseq_pop() up to the load of top, then
 *	if t <= h->bottom or t - 8n < h->bottom (signed) return RSEQ_MISS
 *	copy the n words below t to objects
 *	commit: store t - 8n, h->top
 *
 *	The first comparison is needed because CPU_CLAIMED - 8n wraps to a
 *	large number.  The copy writes to the caller's array only, so a restart
 *	writes it again.
 *
 * rseq_push_many(base, at, objects, n)		1 <= n <= RSEQ_MANY
 *	as rseq_push() up to the load of top, then
 *	if t >= h->limit or t + 8n > h->limit (unsigned) return RSEQ_MISS
 *	if [t - 8] or [t - 16] == objects[0] return RSEQ_MISS
 *	block->ticks -= n; if block->ticks < 0 return RSEQ_MISS
 *	copy the n words of objects to t and above
 *	commit: store t + 8n, h->top
 *
 *	The copy lies above top until the commit, where no section reads.
 *
 * rseq_claim(h, cpu, &top)
 *	if CPU number != cpu return RSEQ_MISS
 *	top = load h->top
 *	commit: store CPU_CLAIMED, h->top
 *
 * Each also returns RSEQ_ABORT: interrupted, nothing done.
 *
 * Of the area only rseq_cs is written.  Sources: the kernel's
 * include/uapi/linux/rseq.h, rseq(2) of librseq, and glibc's <sys/rseq.h>.
 */
#ifndef MAGAZINE_RSEQ_H
#define MAGAZINE_RSEQ_H

#include "vmem/base.h"

/* Layout of the kernel's struct rseq; the build's headers may be older. */
#define RSEQ_AREA_BYTES 32
#define RSEQ_CPU_ID     4
#define RSEQ_CS         8
#define RSEQ_MM_CID     24

/*
 * Most rounds that one section moves.  A section that takes longer is aborted
 * more often, and its work is lost: 64 rounds take about 30 ns.
 */
#define RSEQ_MANY 64u

enum rseq_result {
	RSEQ_OK,
	RSEQ_MISS,
	RSEQ_ABORT,
	RSEQ_UNREGISTERED
};

enum rseq_owner {
	RSEQ_NONE, /* no rseq: the locked mode */
	RSEQ_LIBC, /* libc registers every thread */
	RSEQ_OWN   /* we register each thread on its first miss */
};

/* Where the fast paths find the area of a thread, from the thread pointer. */
struct rseq_place {
	intptr_t cs;    /* offset of rseq_cs */
	intptr_t index; /* offset of mm_cid or cpu_id */
};

struct rseq_state {
	enum rseq_owner owner;
	bool by_mm_cid;
	const char *reason; /* why not RSEQ_LIBC, static text, or "" */
};

/*
 * Decide once, at start.  wanted is RSEQ_LIBC to choose freely, or another
 * owner to force it, which fails over to RSEQ_NONE.
 */
void rseq_start(
    enum rseq_owner wanted, struct rseq_state *state, struct rseq_place *place);

/*
 * Called on a RSEQ_UNREGISTERED miss: registers the calling thread where that
 * is our task.  False: this thread has to do without sections.
 */
bool rseq_thread_start(const struct rseq_state *state);

/*
 * False: a thread created now would not be registered by libc.  A confined
 * process does not ask, and answers as the program's last thread did.
 */
bool rseq_is_allowed(const struct rseq_state *state);

/*
 * Does the kernel hold the area that the calling thread's sections use for this
 * thread?  A system call, for assertions; true in a confined process.
 */
bool rseq_is_held(const struct rseq_state *state);

/*
 * The calling thread does without sections until rseq_thread_resume(), and so
 * does every task that shares its thread-local storage.  False: nothing was
 * changed.
 */
bool rseq_thread_stop(const struct rseq_state *state);
void rseq_thread_resume(const struct rseq_state *state);

#endif
