/*
 * rseq.h - restartable sequences: contracts of the sections, and registration
 *
 * A section is a restartable sequence.  If its thread is preempted, migrated or
 * interrupted by a signal between the first instruction of the section and its
 * commit, the kernel continues the thread at the abort label.  No other thread
 * runs on that CPU during a section that commits.  Therefore all data of the
 * CPU that the section has read is still valid when its last store executes.
 * Every section here ends with a single 8-byte store, the commit.  Except for a
 * push counter (pushes), its earlier stores go to memory that no thread reads
 * before the commit.
 *
 * CPU number
 *	Sections index the per-CPU data by mm_cid if the kernel supplies it,
 *	otherwise by cpu_id.  No two running threads of a process have the same
 *	mm_cid.  It is less than the number of threads and less than the number
 *	of allowed CPUs.  In all comments of this layer, a CPU is the number by
 *	which the sections index.
 *
 * Contracts, which are equal for all architectures (struct cpu_hot is in
 * cpu_layout.h).  place has the position of the area, and base, which is header
 * 0 in the block of CPU 0.  A header is given by at, its distance from base in
 * bytes.
 *
 * rseq_pop(place, at, &object)
 *	if area.cpu_id < 0 return RSEQ_UNREGISTERED
 *	h = base + CPU number * CPU_BLOCK + at
 *	t = load-acquire h->top
 *	if t <= h->bottom (signed) return RSEQ_MISS
 *	object = load [t - 8]
 *	next = load [t - 16]
 *	commit: store t - 8, h->top
 *	prefetch the cache line at next for writing
 *
 *	The next pop returns next, and the program writes to a block soon after
 *	it has allocated it.  The load is in the section, where no other thread
 *	can take the magazine away.  Below the last round is the magazine's own
 *	address (cpu_release()).  A prefetch has no other effect, so next need
 *	not be an address: an import cache has rounds that are numbers.
 *
 * rseq_push(place, at, object)
 *	if area.cpu_id < 0 return RSEQ_UNREGISTERED
 *	block = base + CPU number * CPU_BLOCK
 *	h = block + at
 *	t = load-acquire h->top
 *	if t >= h->limit (unsigned) return RSEQ_MISS
 *	if [t - 8] or [t - 16] == object return RSEQ_MISS
 *						(freed twice, perhaps)
 *	block->pushes -= 1; if block->pushes < 0 return RSEQ_MISS
 *	store object, [t]
 *	commit: store t + 8, h->top
 *
 *	A restart decrements pushes twice, which is harmless.  The section
 *	decrements pushes after the comparison with limit, because a block
 *	without memory has limit 0 and must not be written.  It may store the
 *	object as soon as it knows that there is room, because no section reads
 *	above top.
 *
 * rseq_push_chunk(place, at, object, x)
 *	rseq_push(), and in addition
 *	if x * h->magic >= h->bound (32 bits) return RSEQ_MISS
 *
 * rseq_pop_many(place, at, objects, n)		1 <= n <= RSEQ_MANY
 *	as rseq_pop() up to the load of top, then
 *	if t <= h->bottom or t - 8n < h->bottom (signed) return RSEQ_MISS
 *	copy the n words below t to objects
 *	commit: store t - 8n, h->top
 *
 *	The first comparison is needed because CPU_CLAIMED - 8n wraps to a
 *	large number.  The copy writes only to the caller's array, so a restart
 *	can repeat it.
 *
 * rseq_push_many(place, at, objects, n)		1 <= n <= RSEQ_MANY
 *	as rseq_push() up to the load of top, then
 *	if t >= h->limit or t + 8n > h->limit (unsigned) return RSEQ_MISS
 *	if [t - 8] or [t - 16] == objects[0] return RSEQ_MISS
 *	block->pushes -= n; if block->pushes < 0 return RSEQ_MISS
 *	copy the n words of objects to t and above
 *	commit: store t + 8n, h->top
 *
 *	Before the commit the copy is above top, where no section reads.
 *
 * rseq_claim(place, h, cpu, &top)
 *	if CPU number != cpu return RSEQ_MISS
 *	top = load h->top
 *	commit: store CPU_CLAIMED, h->top
 *
 * Each operation can also return RSEQ_ABORT: the section was interrupted and
 * had no effect.
 *
 * The only member of the rseq area that the sections write is rseq_cs.
 *
 * Sources: the kernel's include/uapi/linux/rseq.h, rseq(2) of librseq, and
 * glibc's <sys/rseq.h>.
 */
#ifndef MAGAZINE_RSEQ_H
#define MAGAZINE_RSEQ_H

#include "vmem/base.h"

struct cpu_hot;

/*
 * Layout of the kernel's struct rseq.  The headers of the build system may be
 * older than these members.
 */
#define RSEQ_AREA_BYTES 32
#define RSEQ_CPU_ID     4
#define RSEQ_CS         8
#define RSEQ_NODE_ID    20
#define RSEQ_MM_CID     24

/*
 * Most rounds that one section moves; 64 rounds take about 30 ns.  A longer
 * section is aborted more often, and its work is lost.
 */
#define RSEQ_MANY 64u

enum rseq_result {
	RSEQ_OK,
	RSEQ_MISS,        /* the header refuses the operation */
	RSEQ_ABORT,       /* the section was interrupted; no effect */
	RSEQ_UNREGISTERED /* this thread has no rseq area */
};

/* The component that registers the rseq areas of threads. */
enum rseq_owner {
	RSEQ_NONE, /* no rseq: the locked mode */
	RSEQ_LIBC, /* libc registers an area for every thread */
	RSEQ_OWN   /* the library registers an area on a thread's first miss */
};

/*
 * The words that the sections read: the position of a thread's rseq area, in
 * bytes from the thread pointer, and the headers.
 */
struct rseq_place {
	intptr_t cs;          /* offset of rseq_cs */
	intptr_t index;       /* offset of mm_cid or cpu_id */
	struct cpu_hot *base; /* header 0 in the block of CPU 0 */
};

struct rseq_state {
	enum rseq_owner owner;
	bool by_mm_cid;     /* sections index by mm_cid, not by cpu_id */
	const char *reason; /* why not RSEQ_LIBC, static text, or "" */
};

/*
 * Choose the owner and set the offsets in place, once at start.  wanted
 * RSEQ_LIBC leaves the choice to the function; another value forces this owner.
 * If the kernel refuses, the owner becomes RSEQ_NONE.
 */
void rseq_start(
    enum rseq_owner wanted, struct rseq_state *state, struct rseq_place *place);

/*
 * Called after RSEQ_UNREGISTERED: register the calling thread if the owner is
 * RSEQ_OWN.  Returns false if this thread cannot run sections.
 */
bool rseq_thread_start(const struct rseq_state *state);

/*
 * Would libc succeed in registering a thread that is created now?  True without
 * a system call if the owner is not RSEQ_LIBC or the process is confined.
 */
bool rseq_is_allowed(const struct rseq_state *state);

/*
 * Returns false if the calling thread has no registered area.  For assertions:
 * makes a system call, except in a confined process, where the result is true.
 */
bool rseq_is_held(void);

/* Results of rseq_thread_stop(). */
enum rseq_stopped {
	RSEQ_NOT_RUNNING, /* the thread runs no sections anyway */
	RSEQ_STOPPED,     /* until rseq_thread_resume() */
	RSEQ_NOT_STOPPED  /* the kernel refuses: the thread runs sections */
};

/*
 * Prevent the calling thread from running sections until rseq_thread_resume(),
 * and with it every task that shares its thread-local storage.  The kernel
 * refuses if a filter forbids the system call, or if libc has registered its
 * area with a length that the library does not know.
 */
enum rseq_stopped rseq_thread_stop(const struct rseq_state *state);
void rseq_thread_resume(const struct rseq_state *state);

#endif
