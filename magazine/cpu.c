/*
 * cpu.c - each CPU's loaded and previous magazine
 *
 * Words
 *	header	one cache's words for one CPU (cpu_layout.h), in a hot part
 *		that the sections work on and a cold part for the slow paths
 *	block	the headers of one CPU.  Blocks lie CPU_BLOCK bytes apart, which
 *		is a shift in the sections.  A used CPU takes the pages that
 *		were written: for malloc's caches three pages of 4 KiB, or one
 *		page of 64 KiB
 *	region	the blocks of all CPUs, for CPU_HEADERS caches.  Address space
 *		that reads as zeros; a block gets memory when its CPU first
 *		needs it.  More caches make more regions
 *	own	to have the only right to change a header, except for what
 *		sections on its CPU do while it is open
 *
 * Which threads run sections
 *	Only the thread for which the kernel holds an rseq area may run
 *	sections on that area.  The kernel restarts a section by the area that it
 *	holds for the running thread; it holds one area for one thread, and
 *	none for a task that was made with CLONE_VM until that task registers
 *	one.  A task that shares the thread-local storage of another sees the
 *	other's area, with a CPU number that is not its own: its sections would
 *	not be restarted, and would write to the headers of a CPU where another
 *	thread runs.
 *	    The sections themselves look at cpu_id of the area alone, so the
 *	rule is kept where tasks are made: vfork() and clone() take the area back
 *	from the kernel before such a task exists (umem/thread.c, which also
 *	says why no other call has to), and rseq_thread_stop() keeps an own
 *	area from being registered by it.  Debug builds ask the kernel at each
 *	cpu_own().
 *
 * How a header changes hands
 *	Sections push and pop on the loaded magazine with no lock; the commit
 *	is the store of top.  All else (exchange magazines, load, drain) needs
 *	ownership: a compare-and-swap of owned from 0 to 1 that is tried once
 *	and never waited for.  A thread that fails goes past the magazines, so
 *	an owner that is preempted delays nobody.
 *
 *	Ownership alone does not stop the sections.
 *	(a) On its own CPU the owner stops them by rseq_claim(), which commits
 *	    CPU_CLAIMED to top.  When that store is done on this CPU, no other
 *	    thread is inside a section here: it would have been preempted to
 *	    let us run, and restarts.  Sections that start later see
 *	    CPU_CLAIMED, until the owner publishes.
 *	(b) For another CPU the owner closes the header, bottom and limit set
 *	    so that every section refuses, then issues membarrier.  After it
 *	    every section that had read the old limits has either committed
 *	    or was restarted, so top stands still.  The header stays closed:
 *	    opening it again from here could meet a section that has read the
 *	    old top and not yet the limits.  Its own CPU opens it in (a).
 *
 *	Publishing: bottom and limit first, then top by a release store.  The
 *	sections load top first (acquire) and then bottom or limit, so one that
 *	sees the new top sees the limits and rounds that belong to it; one
 *	that sees CPU_CLAIMED refuses whatever the limits say.  The owner may
 *	have moved to another CPU meanwhile, which changes nothing in this.
 *	Last, owned := 0 (release, pairs with the compare-and-swap).
 *
 *	If the owner of (a) is preempted, other threads of that CPU are
 *	refused and go past.
 *
 * fork() and owners
 *	A child must find every header free and published.  fork() does not own
 *	the headers for that, because each store would copy a page in the parent
 *	and in the child, for each CPU.  It shuts a gate instead, and reads:
 *
 *		owner				fork()
 *		owned: compare 0, swap 1	fork_gate := 1
 *		load fork_gate			load owned until it is 0
 *
 *	All four are sequentially consistent.  So either the owner sees that the
 *	gate is shut, and lets go of the header without having changed it, or
 *	fork() sees the owner and waits for it.  An owner holds a header for a
 *	bounded time and waits only for lower locks, which fork() takes later.
 *	A thread that is between its two steps may be copied with owned at 1:
 *	the child, where that thread does not exist, frees such a header, which
 *	is as it was published last.
 *
 * fork() and sections in flight
 *	A section that another thread runs while fork() copies memory is not
 *	waited for.  The child sees a prefix of the section's stores: a store
 *	to a page that was copied already faults, and the fault waits until
 *	the copy is done.  The commit is the last store, so the child sees the
 *	whole operation or nothing that counts.
 *
 * Locked mode
 *	The same headers; owning is all there is, and top is an ordinary word.
 *	A thread that finds its CPU's header owned tries the next ones.  Where
 *	address space is limited so much that the blocks of all possible CPU
 *	numbers would take a sixth of it (64 KiB each), this mode is used with
 *	as many blocks as CPUs are allowed.
 */
#include "magazine/cpu.h"
#include "magazine/depot.h"
#include "vmem/describe.h"
#include "vmem/heap.h"
#include "vmem/lock.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/syscall.h"

/*
 * Claims that may be interrupted or find us moved before we go past.  A
 * single-stepped thread is interrupted every time; anyone else hardly twice.
 */
#define CLAIM_TRIES 8

/* Of limited address space, the blocks may take this part. */
#define ROOM_PART 6

/* Headers to try in locked mode before going past. */
#define LOCKED_TRIES 3

/*
 * Blocks for CPU_HEADERS caches.  Never freed.  Blocks of all regions but the
 * first start at a multiple of CPU_BLOCK, and the word before them points to
 * the region.
 */
struct region {
	char *blocks;
	uint8_t *committed; /* [a] 1: this CPU's block has memory */
	uint64_t taken[CPU_HEADERS / 64]; /* [regions_lock] looked at without */
	struct cpu_guard guard[CPU_HEADERS]; /* [regions_lock] */
	struct region *next;
	unsigned nfree;           /* [regions_lock] headers not taken */
	struct region *next_free; /* [regions_lock] with a header to take */
};

struct cpu_layer cpu_layer;
static struct region *regions; /* [regions_lock] read without: only grows */
static struct region *regions_last; /* [regions_lock] */
static struct region *regions_free; /* [regions_lock] by next_free */
static struct lock regions_lock = LOCK_INITIALIZER(LOCK_REGION);

static struct cpu_hot *
header_hot(struct region *region, unsigned i)
{
	return (struct cpu_hot *)region->blocks + i;
}

static struct cpu_cold *
header_cold(struct region *region, unsigned i)
{
	return (struct cpu_cold *)(region->blocks + CPU_COLD_AT) + i;
}

static struct region **
region_word(char *blocks)
{
	return (struct region **)(void *)blocks - 1;
}

/* Address space for the blocks; the word before them is written if asked. */
static char *
blocks_reserve(struct region *region, bool word)
{
	size_t page = os_page_size();
	size_t bytes = (size_t)cpu_layer.nslots << CPU_BLOCK_SHIFT;
	size_t front = word ? page + CPU_BLOCK : 0;
	char *at = os_reserve_zeros(front + bytes);
	char *blocks = at;

	if (at == NULL)
		return NULL;
	if (word) {
		blocks = (char *)align_up((uintptr_t)at + page, CPU_BLOCK);
		if (!os_commit(blocks - page, page)) {
			os_unmap(at, front + bytes);
			return NULL;
		}
		*region_word(blocks) = region;
	}
	os_name(at, front + bytes, "umem cpu");
	return blocks;
}

/* One more region, or the first, whose address cpu_layer.blocks has. */
static struct region *
region_create(bool first)
{
	struct region *region = meta_alloc(sizeof(*region));

	if (region == NULL)
		return NULL;
	region->nfree = CPU_HEADERS;
	region->committed = meta_alloc(cpu_layer.nslots);
	if (region->committed != NULL)
		region->blocks = blocks_reserve(region, !first);
	if (region->blocks == NULL)
		goto undo;
	if (first)
		regions = region;
	else
		/* Release: pairs with the walks that take no lock. */
		__atomic_store_n(&regions_last->next, region, __ATOMIC_RELEASE);
	regions_last = region;
	region->next_free = first ? NULL : regions_free;
	regions_free = region;
	return region;
undo:
	if (region->committed != NULL)
		meta_free(region->committed, cpu_layer.nslots);
	meta_free(region, sizeof(*region));
	return NULL;
}

/* The part of a header that belongs to a CPU. */
static inline struct cpu_hot *
hot_of(struct cpu_hot *hot, unsigned cpu)
{
	return (void *)((char *)hot + ((size_t)cpu << CPU_BLOCK_SHIFT));
}

static inline struct cpu_cold *
cold_of(struct cpu_cold *cold, unsigned cpu)
{
	return (void *)((char *)cold + ((size_t)cpu << CPU_BLOCK_SHIFT));
}

static void
taken_set_locked(struct region *region, unsigned i, uint64_t word)
{
	__atomic_store_n(&region->taken[i / 64], word, __ATOMIC_RELAXED);
}

static void
header_reserve(struct region *region, unsigned i)
{
	taken_set_locked(
	    region, i, region->taken[i / 64] | (uint64_t)1 << (i % 64));
	region->nfree--;
}

struct cpu_hot *
cpu_header_none(void)
{
	return header_hot(regions, 0);
}

/* The lowest header of the region, which has one, to take. */
static unsigned
free_header_locked(const struct region *region)
{
	unsigned i = 0;

	while (~region->taken[i] == 0)
		i++;
	return i * 64 + lowbit(~region->taken[i]);
}

/* A region with a header to take; NULL: no memory for one. */
static struct region *
region_with_header_locked(void)
{
	while (regions_free != NULL && regions_free->nfree == 0)
		regions_free = regions_free->next_free;
	return regions_free != NULL ? regions_free
				    : region_create(/* first */ false);
}

static void
guard_write(struct region *region, unsigned cpu, unsigned i)
{
	struct cpu_hot *h = hot_of(header_hot(region, i), cpu);

	h->magic = region->guard[i].magic;
	h->bound = region->guard[i].bound;
}

/* The header is closed, so nobody looks at it. */
static void
guard_set_locked(struct region *region, unsigned i, struct cpu_guard guard)
{
	region->guard[i] = guard;
	for (unsigned cpu = 0; cpu < cpu_layer.nused; cpu++)
		if (region->committed[cpu])
			guard_write(region, cpu, i);
}

bool
cpu_header_alloc(
    struct cpu_guard guard, struct cpu_hot **hot, struct cpu_cold **cold)
{
	struct region *region;

	lock_take(&regions_lock);
	region = region_with_header_locked();
	if (region != NULL) {
		unsigned i = free_header_locked(region);

		header_reserve(region, i);
		guard_set_locked(region, i, guard);
		*hot = header_hot(region, i);
		*cold = header_cold(region, i);
	}
	lock_release(&regions_lock);
	return region != NULL;
}

void
cpu_header_reserve(unsigned n)
{
	lock_take(&regions_lock);
	for (unsigned i = 1; i <= n; i++)
		header_reserve(regions, i);
	lock_release(&regions_lock);
}

void
cpu_header_at(unsigned i, struct cpu_guard guard, struct cpu_hot **hot,
    struct cpu_cold **cold)
{
	lock_take(&regions_lock);
	guard_set_locked(regions, i, guard);
	lock_release(&regions_lock);
	*hot = header_hot(regions, i);
	*cold = header_cold(regions, i);
}

static struct region *
region_of(struct cpu_hot *hot)
{
	uintptr_t at = (uintptr_t)hot;

	if (likely(at - (uintptr_t)regions->blocks < CPU_BLOCK))
		return regions;
	return *region_word((char *)align_down(at, CPU_BLOCK));
}

void
cpu_header_free(struct cpu_hot *hot)
{
	struct region *region = region_of(hot);
	unsigned i = (unsigned)(hot - header_hot(region, 0));

	lock_take(&regions_lock);
	taken_set_locked(
	    region, i, region->taken[i / 64] & ~((uint64_t)1 << (i % 64)));
	/* A full one is in the list if it is the first of it. */
	if (region->nfree++ == 0 && region != regions_free) {
		region->next_free = regions_free;
		regions_free = region;
	}
	lock_release(&regions_lock);
}

static uint32_t *
ticks_of(struct cpu_hot *none)
{
	return (uint32_t *)(void *)((char *)none + CPU_TICKS_AT);
}

/* The cold part of header 0, which has no magazines. */
static struct cpu_cold *
cold_of_none(struct cpu_hot *none)
{
	return (void *)((char *)none + CPU_COLD_AT);
}

/* Bottom first: without it, this top would be one to pop from. */
static void
ticks_start(struct cpu_hot *none)
{
	__atomic_store_n(&none->bottom, CPU_NO_BOTTOM, __ATOMIC_RELEASE);
	if (cpu_layer.checks)
		cold_of_none(none)->ticks_left =
		    __atomic_load_n(&cpu_layer.ticks, __ATOMIC_RELAXED);
	__atomic_store_n(ticks_of(none),
	    cpu_layer.checks
		? 0
		: __atomic_load_n(&cpu_layer.ticks, __ATOMIC_RELAXED),
	    __ATOMIC_RELEASE);
}

static bool
block_commit_locked(struct region *region, unsigned cpu)
{
	if (region->committed[cpu])
		return true;
	/* The ticks are in the first region. */
	if (region != regions && !block_commit_locked(regions, cpu))
		return false;
	if (!os_commit(
		region->blocks + ((size_t)cpu << CPU_BLOCK_SHIFT), CPU_BLOCK))
		return false;
	/* The block is zero, and pages of it that stay so cost nothing. */
	for (unsigned i = 1; i < CPU_HEADERS; i++)
		if (region->guard[i].bound != 0)
			guard_write(region, cpu, i);
	if (region == regions)
		ticks_start(hot_of(header_hot(region, 0), cpu));
	/* Release: pairs with the load in block_commit(). */
	__atomic_store_n(&region->committed[cpu], 1, __ATOMIC_RELEASE);
	if (cpu_layer.nused < cpu + 1)
		__atomic_store_n(&cpu_layer.nused, cpu + 1, __ATOMIC_RELEASE);
	return true;
}

/* Memory for a CPU's block, once. */
static bool
block_commit(struct region *region, unsigned cpu)
{
	bool done;

	if (cpu >= cpu_layer.nwanted)
		return false;
	/* Acquire: a block seen committed can be written. */
	if (likely(__atomic_load_n(&region->committed[cpu], __ATOMIC_ACQUIRE)))
		return true;
	lock_take(&regions_lock);
	done = block_commit_locked(region, cpu);
	lock_release(&regions_lock);
	return done;
}

unsigned
cpu_now(void)
{
	return cpu_layer.rseq.owner == RSEQ_NONE ? os_cpu()
						 : rseq_cpu(&cpu_layer.place);
}

/*
 * The first region, for every CPU number that the kernel can have: a section
 * uses the number as it is.  False: that takes too much of the address space.
 */
static bool
regions_start(void)
{
	cpu_layer.nslots = os_cpu_slots();
	return (size_t)cpu_layer.nslots << CPU_BLOCK_SHIFT <=
		   heap_room() / ROOM_PART &&
	       region_create(/* first */ true) != NULL;
}

/* In locked mode CPUs can share blocks, so as many do as can run at once. */
static bool
regions_start_small(void)
{
	cpu_layer.nslots = os_cpus_allowed();
	return region_create(/* first */ true) != NULL;
}

bool
cpu_start(enum rseq_owner wanted, unsigned concurrency)
{
	bool small = !regions_start();

	if (small && !regions_start_small())
		return false;
	cpu_layer.nwanted = cpu_layer.nslots;
	cpu_layer.ticks = INT32_MAX;
	if (concurrency != 0 && concurrency < cpu_layer.nslots)
		cpu_layer.nwanted = concurrency;
	cpu_layer.nrun = os_cpus_allowed();
	if (cpu_layer.nrun > cpu_layer.nwanted)
		cpu_layer.nrun = cpu_layer.nwanted;
	header_reserve(regions, 0);
	header_reserve(regions, CPU_HEADER_CLOSED);
	rseq_start(
	    small ? RSEQ_NONE : wanted, &cpu_layer.rseq, &cpu_layer.place);
	if (small && wanted != RSEQ_NONE)
		cpu_layer.rseq.reason = "the limit of address space is near";
	/* Magazines that only their own CPU can empty are no good. */
	if (cpu_layer.rseq.owner != RSEQ_NONE && !os_membarrier_ready()) {
		cpu_layer.rseq.owner = RSEQ_NONE;
		cpu_layer.rseq.reason = "the kernel refuses membarrier";
	}
	cpu_layer.blocks = regions->blocks;
	return true;
}

void
cpu_warm(void)
{
	block_commit(regions, cpu_now());
}

/* The same of the first region, without a look at its description. */
static inline bool
is_committed(const struct cpu_hot *hot, unsigned cpu)
{
	struct cpu_hot *none = (void *)cpu_layer.blocks;

	/* Acquire; pairs with the release in ticks_start(). */
	return (uintptr_t)hot - (uintptr_t)none < CPU_BLOCK &&
	       __atomic_load_n(&hot_of(none, cpu)->bottom, __ATOMIC_ACQUIRE) !=
		   0;
}

static uint32_t fork_gate; /* [a] 1: a fork() is under way */

static inline void
owned_end(struct cpu_cold *c)
{
	__atomic_store_n(&c->owned, 0, __ATOMIC_RELEASE);
}

/* The first look only saves a store to a page that fork() may be copying. */
static inline bool
owned_try(struct cpu_cold *c)
{
	uint32_t no = 0;

	/* Acquire; pairs with the release in owned_end(). */
	if (unlikely(__atomic_load_n(&fork_gate, __ATOMIC_RELAXED) != 0) ||
	    !__atomic_compare_exchange_n(
		&c->owned, &no, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return false;
	if (likely(__atomic_load_n(&fork_gate, __ATOMIC_SEQ_CST) == 0))
		return true;
	owned_end(c);
	return false;
}

/* A wait for an owner, which wakes nobody: tries first, then short sleeps. */
static void
owned_pause(struct cpu_cold *c, unsigned nth)
{
	cpu_relax();
	if (nth > 100)
		os_futex_wait(&c->owned, 1, 50000);
}

/*
 * Wait for the owner and own the header.  An owner is about to finish, because
 * it waits for no lock above the regions' and for no other header.
 */
static void
owned_await(struct cpu_cold *c)
{
	for (unsigned i = 0; !owned_try(c); i++)
		owned_pause(c, i);
}

static unsigned
rounds_below(const struct cpu_cold *cold, uintptr_t top)
{
	if (cold->loaded == NULL)
		return 0;
	return (
	    unsigned)((top - (uintptr_t)cold->loaded->round) / sizeof(void *));
}

static bool
own_locked(struct cpu_hot *hot, struct cpu_cold *cold, struct cpu_owned *owned)
{
	struct region *region = region_of(hot);
	unsigned cpu = os_cpu();

	for (int i = 0; i < LOCKED_TRIES; i++, cpu++) {
		cpu %= cpu_layer.nwanted;
		struct cpu_hot *h = hot_of(hot, cpu);
		struct cpu_cold *c = cold_of(cold, cpu);

		if (!block_commit(region, cpu))
			return false;
		if (!owned_try(c))
			continue;
		owned->hot = h;
		owned->cold = c;
		owned->cpu = cpu;
		owned->nrounds = rounds_below(c, h->top);
		return true;
	}
	return false;
}

/*
 * What magazine_put() reads of the newest rounds, of the previous magazine if
 * the loaded one has fewer, and what magazine_get() may share.
 */
#define NEWEST_BYTES (4 * CACHE_LINE)

/* The last so many bytes of a magazine that starts at mag. */
static inline void
bring_in_rounds(uintptr_t mag, size_t bytes, size_t last)
{
	for (size_t at = bytes; at > CACHE_LINE && bytes - at < last;
	     at -= CACHE_LINE)
		__builtin_prefetch((void *)(mag + at - 1));
}

/* cpu_id of a thread that is not registered is negative. */
static inline bool
is_cpu(unsigned cpu)
{
	return cpu < cpu_layer.nslots;
}

/* All is read as it is, perhaps while it changes: it only makes hints. */
void
cpu_bring_in(struct cpu_hot *hot)
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
	top = __atomic_load_n(&hot->top, __ATOMIC_RELAXED);
	bottom = __atomic_load_n(&hot->bottom, __ATOMIC_RELAXED);
	limit = __atomic_load_n(&hot->limit, __ATOMIC_RELAXED);
	previous =
	    (uintptr_t)__atomic_load_n(&cold->previous, __ATOMIC_RELAXED);
	loaded = bottom - sizeof(struct magazine);
	__builtin_prefetch((void *)previous, /* to write */ 1);
	__builtin_prefetch((void *)loaded, 1);
	if (top == limit)
		bring_in_rounds(loaded, limit - loaded, NEWEST_BYTES);
	if (top != limit || limit - bottom < NEWEST_BYTES)
		bring_in_rounds(previous, limit - loaded, NEWEST_BYTES);
}

bool
cpu_own(struct cpu_hot *hot, struct cpu_cold *cold, struct cpu_owned *owned)
{
	if (cpu_layer.rseq.owner == RSEQ_NONE)
		return own_locked(hot, cold, owned);
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
			/* Relaxed: no owner, so two threads may lose one. */
			uint32_t n =
			    __atomic_load_n(&c->nbypassed, __ATOMIC_RELAXED);

			__atomic_store_n(
			    &c->nbypassed, n + 1, __ATOMIC_RELAXED);
			return false;
		}
		enum rseq_result r = rseq_claim(&cpu_layer.place, h, cpu, &top);
		if (likely(r == RSEQ_OK)) {
			umem_assert(rseq_is_held(&cpu_layer.rseq));
			owned->hot = h;
			owned->cold = c;
			owned->cpu = cpu;
			owned->nrounds = rounds_below(c, top);
			return true;
		}
		owned_end(c);
		if (r == RSEQ_UNREGISTERED &&
		    !rseq_thread_start(&cpu_layer.rseq))
			return false;
	}
	return false;
}

static void
close_header(struct cpu_hot *h)
{
	/*
	 * Relaxed stores: in (a) top is CPU_CLAIMED, in (b) the membarrier
	 * orders them.  Single stores, because sections may be reading.
	 */
	__atomic_store_n(&h->bottom, CPU_NO_BOTTOM, __ATOMIC_RELAXED);
	__atomic_store_n(&h->limit, 0, __ATOMIC_RELAXED);
}

static void
open_header(struct cpu_hot *h, struct magazine *loaded)
{
	__atomic_store_n(
	    &h->bottom, (uintptr_t)loaded->round, __ATOMIC_RELAXED);
	__atomic_store_n(&h->limit,
	    (uintptr_t)(loaded->round + loaded->capacity), __ATOMIC_RELAXED);
}

void
cpu_disown(struct cpu_owned *owned)
{
	struct cpu_hot *h = owned->hot;
	struct magazine *loaded = owned->cold->loaded;
	uintptr_t top = 0;

	if (loaded == NULL) {
		close_header(h);
	} else {
		umem_assert(owned->nrounds <= loaded->capacity);
		open_header(h, loaded);
		top = (uintptr_t)(loaded->round + owned->nrounds);
	}
	/* Release; pairs with the sections' load of top. */
	__atomic_store_n(&h->top, top, __ATOMIC_RELEASE);
	owned_end(owned->cold);
}

/*
 * A section that is counting on another CPU may overwrite one of the stores:
 * its next slow push there takes the number over.
 */
void
cpu_set_ticks(uint32_t n)
{
	/* So that no block starts meanwhile with what there was before. */
	lock_take(&regions_lock);
	__atomic_store_n(&cpu_layer.ticks, n, __ATOMIC_RELAXED);
	for (unsigned cpu = 0; cpu < cpu_layer.nused; cpu++) {
		uint32_t *ticks = ticks_of(hot_of(header_hot(regions, 0), cpu));

		if (regions->committed[cpu] &&
		    __atomic_load_n(ticks, __ATOMIC_RELAXED) > n)
			__atomic_store_n(ticks, n, __ATOMIC_RELAXED);
	}
	lock_release(&regions_lock);
}

/*
 * The first CHECKS_ALL pushes of a CPU are refused to be checked, and then each
 * after a longer distance: CHECKS_STEP more.  So of n pushes about
 * sqrt(2 * n / CHECKS_STEP) are checked, 700 of a million.
 */
#define CHECKS_ALL  128
#define CHECKS_STEP 4

/* Sets the word of ticks, which has run out; flags as for cpu_ticked(). */
static unsigned
ticks_again(struct cpu_cold *cold, uint32_t *ticks, uint32_t reload)
{
	/*
	 * Relaxed: owners of two headers of one CPU may be here at once, and
	 * one store of theirs may be lost.
	 */
	uint32_t left = __atomic_load_n(&cold->ticks_left, __ATOMIC_RELAXED);
	uint32_t n = __atomic_load_n(&cold->nchecks, __ATOMIC_RELAXED);
	uint32_t distance = 0;
	unsigned flags = CPU_CHECK;

	if (left == 0) {
		flags |= CPU_TICKED;
		left = reload;
	}
	if (left > reload)
		left = reload;
	if (n >= CHECKS_ALL)
		distance = (n - CHECKS_ALL + 1) * CHECKS_STEP;
	if (distance > left || n == UINT32_MAX / CHECKS_STEP)
		distance = left;
	else
		__atomic_store_n(&cold->nchecks, n + 1, __ATOMIC_RELAXED);
	left -= distance;
	__atomic_store_n(
	    &cold->ticks_left, left == 0 ? 0 : left - 1, __ATOMIC_RELAXED);
	__atomic_store_n(ticks, distance, __ATOMIC_RELAXED);
	return flags;
}

unsigned
cpu_ticked(const struct cpu_owned *owned, uint32_t npushes)
{
	uint32_t reload = __atomic_load_n(&cpu_layer.ticks, __ATOMIC_RELAXED);
	struct cpu_hot *none = hot_of(header_hot(regions, 0), owned->cpu);
	uint32_t left;
	uint32_t *ticks;

	ticks = ticks_of(none);
	/* Relaxed: sections of this CPU go on counting; no count matters. */
	left = __atomic_load_n(ticks, __ATOMIC_RELAXED);
	if (npushes != 0) {
		left -= npushes;
		__atomic_store_n(ticks, left, __ATOMIC_RELAXED);
	}
	if (left <= reload)
		return 0;
	if (cpu_layer.checks && (int32_t)left < 0)
		return ticks_again(cold_of_none(none), ticks, reload);
	__atomic_store_n(ticks, reload, __ATOMIC_RELAXED);
	return (int32_t)left < 0 ? CPU_TICKED : 0;
}

/*
 * Behind this, no section that has read the old limits of a header is in flight.
 * In a process with one thread there is none but in that thread, which is here;
 * a thread that libc does not know has no area of libc's.
 */
static bool
stop_sections(void)
{
	return cpu_layer.rseq.owner == RSEQ_NONE ||
	       (cpu_layer.rseq.owner == RSEQ_LIBC && os_is_single_threaded()) ||
	       os_membarrier_rseq();
}

/* Step one of a drain: own and close what can be had. */
static unsigned
drain_close(struct cpu_hot *hot, struct cpu_cold *cold,
    bool (*keep)(struct cpu_cold *), uint64_t *mine, unsigned nused)
{
	struct region *region = region_of(hot);
	unsigned n = 0;

	/* Not while the gate is shut: no header may be passed over for that. */
	lock_take(&regions_lock);
	for (unsigned cpu = 0; cpu < nused; cpu++) {
		struct cpu_hot *h = hot_of(hot, cpu);
		struct cpu_cold *c = cold_of(cold, cpu);

		if (!__atomic_load_n(
			&region->committed[cpu], __ATOMIC_ACQUIRE) ||
		    !owned_try(c))
			continue;
		if ((c->loaded == NULL && c->previous == NULL) ||
		    (keep != NULL && keep(c))) {
			owned_end(c);
			continue;
		}
		close_header(h);
		mine[cpu / 64] |= (uint64_t)1 << (cpu % 64);
		n++;
	}
	lock_release(&regions_lock);
	return n;
}

static void
chain_add(struct magazine **chain, struct magazine *mag, unsigned nrounds)
{
	if (mag == NULL)
		return;
	mag->nrounds = nrounds;
	mag->next = *chain;
	*chain = mag;
}

/* Step two, behind the fence: top stands still, take the magazines. */
static void
drain_take(struct cpu_hot *h, struct cpu_cold *c, struct magazine **chain)
{
	uintptr_t top = __atomic_load_n(&h->top, __ATOMIC_RELAXED);
	unsigned nrounds = rounds_below(c, top);

	chain_add(chain, c->loaded, nrounds);
	if (c->previous != NULL)
		chain_add(chain, c->previous, c->previous->nrounds);
	c->loaded = NULL;
	c->previous = NULL;
}

bool
cpu_drain(struct cpu_hot *hot, struct cpu_cold *cold,
    bool (*keep)(struct cpu_cold *), struct magazine **chain)
{
	unsigned nused = __atomic_load_n(&cpu_layer.nused, __ATOMIC_ACQUIRE);
	uint64_t mine[128] = {0};
	bool stopped;

	if (nused > 64 * array_size(mine))
		return false;
	if (drain_close(hot, cold, keep, mine, nused) == 0)
		return true;
	stopped = stop_sections();
	for (unsigned cpu = 0; cpu < nused; cpu++) {
		struct cpu_hot *h = hot_of(hot, cpu);
		struct cpu_cold *c = cold_of(cold, cpu);

		if ((mine[cpu / 64] >> (cpu % 64) & 1) == 0)
			continue;
		if (stopped)
			drain_take(h, c, chain);
		else if (c->loaded != NULL)
			/* Only refusals happened: what it was, it is. */
			open_header(h, c->loaded);
		owned_end(c);
	}
	return stopped;
}

/*
 * regions_lock is held throughout.  Otherwise another thread could commit the
 * block of one more CPU and load a magazine of the depot there.
 */
bool
cpu_drain_all(struct cpu_hot *hot, struct cpu_cold *cold,
    void (*take)(void *arg, struct magazine **chain), void *arg,
    struct magazine **chain)
{
	struct region *region = region_of(hot);
	bool stopped;

	/* The gate is shut, and this thread is in a handler of fork(). */
	if (lock_is_forking())
		return false;
	lock_take(&regions_lock);
	for (unsigned cpu = 0; cpu < cpu_layer.nused; cpu++)
		if (region->committed[cpu]) {
			owned_await(cold_of(cold, cpu));
			close_header(hot_of(hot, cpu));
		}
	stopped = stop_sections();
	take(arg, chain);
	for (unsigned cpu = 0; cpu < cpu_layer.nused; cpu++) {
		struct cpu_hot *h = hot_of(hot, cpu);
		struct cpu_cold *c = cold_of(cold, cpu);

		if (!region->committed[cpu])
			continue;
		if (stopped)
			drain_take(h, c, chain);
		else if (c->loaded != NULL)
			/* As in cpu_drain(). */
			open_header(h, c->loaded);
		owned_end(c);
	}
	lock_release(&regions_lock);
	return stopped;
}

size_t
cpu_rounds(struct cpu_hot *hot, struct cpu_cold *cold)
{
	unsigned nused = __atomic_load_n(&cpu_layer.nused, __ATOMIC_ACQUIRE);
	struct region *region = region_of(hot);
	size_t n = 0;

	for (unsigned cpu = 0; cpu < nused; cpu++) {
		struct cpu_hot *h = hot_of(hot, cpu);
		struct cpu_cold *c = cold_of(cold, cpu);

		if (!__atomic_load_n(
			&region->committed[cpu], __ATOMIC_ACQUIRE) ||
		    !owned_try(c))
			continue;
		if (c->loaded != NULL)
			n += rounds_below(
			    c, __atomic_load_n(&h->top, __ATOMIC_RELAXED));
		if (c->previous != NULL)
			n += c->previous->nrounds;
		owned_end(c);
	}
	return n;
}

bool
cpu_is_open(struct cpu_hot *hot, struct cpu_cold *cold)
{
	unsigned nused = __atomic_load_n(&cpu_layer.nused, __ATOMIC_ACQUIRE);
	struct region *region = region_of(hot);

	for (unsigned cpu = 0; cpu < nused; cpu++) {
		struct cpu_hot *h = hot_of(hot, cpu);
		struct cpu_cold *c = cold_of(cold, cpu);

		if (!__atomic_load_n(&region->committed[cpu], __ATOMIC_ACQUIRE))
			continue;
		/* Acquire; pairs with the release in owned_end(). */
		if (__atomic_load_n(&c->owned, __ATOMIC_ACQUIRE) != 0 ||
		    __atomic_load_n(&h->limit, __ATOMIC_RELAXED) != 0)
			return true;
	}
	return false;
}

/* Not of one moment: a nonsense answer is possible and harmless. */
static size_t
glance(const struct cpu_hot *h)
{
	intptr_t top = (intptr_t)__atomic_load_n(&h->top, __ATOMIC_RELAXED);
	intptr_t bottom =
	    (intptr_t)__atomic_load_n(&h->bottom, __ATOMIC_RELAXED);

	return top > bottom ? (size_t)(top - bottom) / sizeof(void *) % 256 : 0;
}

size_t
cpu_glance(struct cpu_hot *hot)
{
	unsigned cpu = cpu_now();

	return cpu < cpu_layer.nslots ? glance(hot_of(hot, cpu)) : 0;
}

size_t
cpu_glance_all(unsigned *cpu)
{
	size_t n = 0;

	*cpu = cpu_now();
	if (*cpu >= cpu_layer.nslots ||
	    !__atomic_load_n(&regions->committed[*cpu], __ATOMIC_ACQUIRE))
		return 0;
	for (unsigned i = 0; i < CPU_HEADERS; i += 64) {
		uint64_t taken =
		    __atomic_load_n(&regions->taken[i / 64], __ATOMIC_RELAXED);

		if (i == 0)
			taken &= ~(uint64_t)1;
		for (; taken != 0; taken &= taken - 1)
			n += glance(hot_of(
			    header_hot(regions, i + lowbit(taken)), *cpu));
	}
	return n;
}

static void
each_header_locked(void (*f)(struct cpu_cold *))
{
	for (struct region *r = regions; r != NULL; r = r->next)
		for (unsigned cpu = 0; cpu < cpu_layer.nused; cpu++)
			for (unsigned i = 1;
			     r->committed[cpu] == 1 && i < CPU_HEADERS; i++)
				if ((r->taken[i / 64] >> (i % 64) & 1) != 0)
					f(cold_of(header_cold(r, i), cpu));
}

/* Acquire, as part of seq_cst; pairs with the release in owned_end(). */
static void
await_no_owner(struct cpu_cold *c)
{
	for (unsigned i = 0; __atomic_load_n(&c->owned, __ATOMIC_SEQ_CST) != 0;
	     i++)
		owned_pause(c, i);
}

static void
end_of_no_thread(struct cpu_cold *c)
{
	if (c->owned != 0)
		owned_end(c);
}

/* With regions_lock held no block and no header can be added meanwhile. */
void
cpu_lock_for_fork(void)
{
	lock_take_for_fork(&regions_lock);
	__atomic_store_n(&fork_gate, 1, __ATOMIC_SEQ_CST);
	each_header_locked(await_no_owner);
}

void
cpu_unlock_for_fork(bool child)
{
	if (child)
		each_header_locked(end_of_no_thread);
	/* Release: an owner that sees it open sees the headers as they are. */
	__atomic_store_n(&fork_gate, 0, __ATOMIC_RELEASE);
	lock_release_for_fork(&regions_lock);
}

DESCRIBE_TABLE(described) = {
    DESCRIBE_VARIABLE(regions),
    DESCRIBE_MEMBER("region", struct region, blocks),
    DESCRIBE_MEMBER("region", struct region, committed),
    DESCRIBE_MEMBER("region", struct region, next),
};
