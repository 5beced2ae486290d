/*
 * cpu.c - each CPU's loaded and previous magazine
 *
 * Terms
 *	header	the data of one cache for one CPU (cpu_layout.h): a hot part
 *		for the sections and a cold part for the slow paths
 *	block	the headers of one CPU.  Blocks are CPU_BLOCK bytes apart, so
 *		that the sections compute the address by a shift.  A used block
 *		takes the pages that were written: for malloc's caches three
 *		pages of 4 KiB, or one page of 64 KiB
 *	region	the blocks of all CPUs, for CPU_HEADERS caches.  A region is
 *		address space that reads as zeros.  A block gets memory when its
 *		CPU first needs it.  More caches need more regions
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
 *	kernel at each cpu_own().
 *
 * Ownership of headers
 *	Sections push and pop on the loaded magazine without a lock.  Their
 *	commit is the store of top.  All other changes (exchange, load and drain
 *	of magazines) need ownership, which is acquired by a compare-and-swap of
 *	owned from 0 to 1.  Allocations and frees try it once and do not wait.
 *	If it fails, they bypass the magazines, so a preempted owner does not
 *	delay them.
 *
 *	Ownership alone does not stop the sections.
 *	(a) On its own CPU the owner stops them by rseq_claim(), which commits
 *	    CPU_CLAIMED to top.  When that store is done on this CPU, no other
 *	    thread is inside a section here: the kernel has preempted such a
 *	    thread to run the owner, and will restart its section.  Sections
 *	    that start later read CPU_CLAIMED until the owner publishes.
 *	(b) For another CPU the owner closes the header: it sets bottom and
 *	    limit so that every section refuses.  Then it issues membarrier.
 *	    Afterwards every section that had read the old bottom or limit has
 *	    either committed or been restarted, so top does not change any
 *	    more.  The header stays closed, because a section on its CPU may
 *	    have read the old top and not yet bottom and limit.  A thread on
 *	    that CPU opens the header as in (a).
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
 * fork() and owners
 *	A child must find every header published and without an owner.  fork()
 *	does not own the headers for that purpose, because each store would copy
 *	a page in the parent and in the child, for each CPU.  Instead it shuts a
 *	gate and reads:
 *
 *		owner				fork()
 *		owned: compare 0, swap 1	fork_gate := 1
 *		load fork_gate			load owned until it is 0
 *
 *	All four accesses are sequentially consistent.  Therefore either the
 *	owner reads the shut gate and releases the header without having changed
 *	it, or fork() reads the owner and waits for it.  An owner holds a header
 *	for a bounded time and waits only for lower locks, which fork() takes
 *	later.  fork() may copy a thread between its two steps, with owned at 1.
 *	The child, in which that thread does not exist, resets owned.  Such a
 *	header is in the state that was published last.
 *
 * fork() and sections in progress
 *	fork() does not wait for sections that other threads run while it copies
 *	memory.  The child sees a prefix of the stores of such a section: a
 *	store to a page that was copied already causes a page fault, which waits
 *	for the end of the copy.  Because the commit is the last store, the
 *	child sees either the whole operation or no effect of it.
 *
 * Locked mode
 *	Without rseq the library uses the same headers, and every operation
 *	needs ownership of the header.  top is then an ordinary word.  A thread
 *	that finds its CPU's header owned tries those of the next CPUs.
 *
 *	This mode is also used if address space is so limited that the blocks of
 *	all possible CPU numbers (64 KiB each) would take more than 1/ROOM_PART
 *	of it.  There are then only as many blocks as allowed CPUs.
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
 * Attempts of cpu_own() before the thread bypasses the magazines.  An attempt
 * fails if the claim is interrupted or the thread has moved to another CPU.  A
 * single-stepped thread is interrupted every time, any other thread hardly
 * twice in a row.
 */
#define CLAIM_TRIES 8

/* The blocks may take at most 1/ROOM_PART of limited address space. */
#define ROOM_PART 6

/* Headers to try in locked mode before the thread bypasses the magazines. */
#define LOCKED_TRIES 3

/*
 * A region; never freed.  The blocks of all regions but the first start at a
 * multiple of CPU_BLOCK, and the word before them points to the region.
 */
struct region {
	char *blocks;
	uint8_t *committed; /* [a] 1: the block of this CPU has memory */
	uint64_t taken[CPU_HEADERS / 64]; /* [regions_lock] read without lock */
	struct cpu_guard guard[CPU_HEADERS]; /* [regions_lock] */
	struct region *next;
	unsigned nfree;           /* [regions_lock] headers not taken */
	struct region *next_free; /* [regions_lock] in regions_free */
};

struct cpu_layer cpu_layer;
static struct region *regions;      /* [regions_lock] list; read without lock */
static struct region *regions_last; /* [regions_lock] */
static struct region *regions_free; /* [regions_lock] with free headers */
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

/* The word before the blocks of a region, which points to the region. */
static struct region **
region_word(char *blocks)
{
	return (struct region **)(void *)blocks - 1;
}

/*
 * Reserve address space for the blocks of a region.  word: also set the word
 * before them.
 */
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

/* Create the first region, or a further one. */
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
		/* Release: pairs with walks of the list without the lock. */
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

/* The hot part of a CPU's header, given that of CPU 0. */
static inline struct cpu_hot *
hot_of(struct cpu_hot *hot, unsigned cpu)
{
	return (void *)((char *)hot + ((size_t)cpu << CPU_BLOCK_SHIFT));
}

/* The cold part of a CPU's header, given that of CPU 0. */
static inline struct cpu_cold *
cold_of(struct cpu_cold *cold, unsigned cpu)
{
	return (void *)((char *)cold + ((size_t)cpu << CPU_BLOCK_SHIFT));
}

static void
taken_set_locked(struct region *region, unsigned i, uint64_t word)
{
	lock_assert_held(&regions_lock);
	umem_assert(i < CPU_HEADERS);
	__atomic_store_n(&region->taken[i / 64], word, __ATOMIC_RELAXED);
}

static void
header_reserve(struct region *region, unsigned i)
{
	umem_assert(region->nfree > 0);
	umem_assert((region->taken[i / 64] >> (i % 64) & 1) == 0);
	taken_set_locked(
	    region, i, region->taken[i / 64] | (uint64_t)1 << (i % 64));
	region->nfree--;
}

/* The lowest header that is not taken; the region has one. */
static unsigned
free_header_locked(const struct region *region)
{
	unsigned i = 0;

	lock_assert_held(&regions_lock);
	umem_assert(region->nfree > 0);
	while (~region->taken[i] == 0)
		i++;
	return i * 64 + lowbit(~region->taken[i]);
}

/* A region with a header that is not taken; NULL: no memory for a region. */
static struct region *
region_with_header_locked(void)
{
	lock_assert_held(&regions_lock);
	while (regions_free != NULL && regions_free->nfree == 0)
		regions_free = regions_free->next_free;
	return regions_free != NULL ? regions_free
				    : region_create(/* first */ false);
}

/* Write the constants of the divisibility test to a CPU's header i. */
static void
guard_write(struct region *region, unsigned cpu, unsigned i)
{
	struct cpu_hot *h = hot_of(header_hot(region, i), cpu);

	/* A section reads the constants if the header is open. */
	umem_assert(__atomic_load_n(&h->limit, __ATOMIC_RELAXED) == 0);
	h->magic = region->guard[i].magic;
	h->bound = region->guard[i].bound;
}

/*
 * Set the constants of the divisibility test for header i of every CPU.  The
 * headers are closed, so no section uses the constants.
 */
static void
guard_set_locked(struct region *region, unsigned i, struct cpu_guard guard)
{
	lock_assert_held(&regions_lock);
	umem_assert((region->taken[i / 64] >> (i % 64) & 1) != 0);
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
	umem_assert(i < CPU_HEADERS);
	umem_assert((region->taken[i / 64] >> (i % 64) & 1) != 0);
	umem_assert(region->nfree < CPU_HEADERS);
	taken_set_locked(
	    region, i, region->taken[i / 64] & ~((uint64_t)1 << (i % 64)));
	/* A region without free headers is in the list only as its first. */
	if (region->nfree++ == 0 && region != regions_free) {
		region->next_free = regions_free;
		regions_free = region;
	}
	lock_release(&regions_lock);
}

/* The push counter in a CPU's header 0. */
static uint32_t *
ticks_of(struct cpu_hot *none)
{
	return (uint32_t *)(void *)((char *)none + CPU_TICKS_AT);
}

/* The cold part of a CPU's header 0, which has no magazines. */
static struct cpu_cold *
cold_of_none(struct cpu_hot *none)
{
	return (void *)((char *)none + CPU_COLD_AT);
}

/*
 * Start the push counter of a CPU.  bottom is stored first, because a pop would
 * otherwise treat the counter as the top of a magazine.
 */
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
	lock_assert_held(&regions_lock);
	umem_assert(cpu < cpu_layer.nslots);
	if (region->committed[cpu])
		return true;
	/* The push counter is in the first region. */
	if (region != regions && !block_commit_locked(regions, cpu))
		return false;
	if (!os_commit(
		region->blocks + ((size_t)cpu << CPU_BLOCK_SHIFT), CPU_BLOCK))
		return false;
	/* The block is zero.  Pages that are not written cost no memory. */
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

/* Commit a CPU's block if it has no memory; false if there is none. */
static bool
block_commit(struct region *region, unsigned cpu)
{
	bool done;

	if (cpu >= cpu_layer.nwanted)
		return false;
	/* Acquire: a thread that reads 1 can write to the block. */
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
 * Create the first region with a block for every CPU number of the kernel,
 * because a section uses the number without a check.  Returns false if that
 * takes too much of the address space.
 */
static bool
regions_start(void)
{
	cpu_layer.nslots = os_cpu_slots();
	return (size_t)cpu_layer.nslots << CPU_BLOCK_SHIFT <=
		   heap_address_space() / ROOM_PART &&
	       region_create(/* first */ true) != NULL;
}

/*
 * Create the first region with a block for each allowed CPU.  This is enough in
 * locked mode, in which CPU numbers can share blocks.
 */
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
	lock_take(&regions_lock);
	header_reserve(regions, 0);
	header_reserve(regions, CPU_HEADER_CLOSED);
	lock_release(&regions_lock);
	rseq_start(
	    small ? RSEQ_NONE : wanted, &cpu_layer.rseq, &cpu_layer.place);
	if (small && wanted != RSEQ_NONE)
		cpu_layer.rseq.reason = "the limit of address space is near";
	/* Without membarrier no thread could drain another CPU's magazines. */
	if (cpu_layer.rseq.owner != RSEQ_NONE && !os_membarrier_ready()) {
		cpu_layer.rseq.owner = RSEQ_NONE;
		cpu_layer.rseq.reason = "the kernel refuses membarrier";
	}
	cpu_layer.blocks = regions->blocks;
	cpu_layer.place.base = cpu_header_none();
	return true;
}

void
cpu_warm(void)
{
	block_commit(regions, cpu_now());
}

/*
 * Is the header in the first region, and the block of this CPU committed?
 * Reads the block itself, which avoids a cache miss on the struct region.
 */
static inline bool
is_committed(const struct cpu_hot *hot, unsigned cpu)
{
	struct cpu_hot *none = (void *)cpu_layer.blocks;

	/* Acquire; pairs with the release in ticks_start(). */
	return (uintptr_t)hot - (uintptr_t)none < CPU_BLOCK &&
	       __atomic_load_n(&hot_of(none, cpu)->bottom, __ATOMIC_ACQUIRE) !=
		   0;
}

static uint32_t fork_gate; /* [a] 1: a fork() is in progress */

/* Release ownership. */
static inline void
owned_end(struct cpu_cold *c)
{
	__atomic_store_n(&c->owned, 0, __ATOMIC_RELEASE);
}

/*
 * Try to acquire ownership.  The first test of the gate only avoids a store to
 * a page that fork() may be copying.
 */
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

/*
 * Wait for an owner: the first 100 times by spinning, then by sleeping for 50
 * us each, because an owner wakes no waiter.
 */
static void
owned_pause(struct cpu_cold *c, unsigned nth)
{
	cpu_relax();
	if (nth > 100)
		os_futex_wait(&c->owned, 1, 50000);
}

/*
 * Wait for the owner and acquire ownership.  The wait is short, because an
 * owner waits neither for a lock above regions_lock nor for another header.
 */
static void
owned_await(struct cpu_cold *c)
{
	for (unsigned i = 0; !owned_try(c); i++)
		owned_pause(c, i);
}

/* Number of rounds in the loaded magazine, given its top. */
static unsigned
rounds_below(const struct cpu_cold *cold, uintptr_t top)
{
	if (cold->loaded == NULL)
		return 0;
	return (
	    unsigned)((top - (uintptr_t)cold->loaded->round) / sizeof(void *));
}

/* cpu_own() in locked mode. */
static bool
own_in_locked_mode(
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
		return true;
	}
	return false;
}

/*
 * Bytes of the newest rounds that magazine_put() compares, in the previous
 * magazine if the loaded one has fewer, and that magazine_get() may move
 * between the two magazines.
 */
#define NEWEST_BYTES (4 * CACHE_LINE)

/* Prefetch the last part of a magazine of the given size, starting at mag. */
static inline void
bring_in_rounds(uintptr_t mag, size_t bytes, size_t last)
{
	for (size_t at = bytes; at > CACHE_LINE && bytes - at < last;
	     at -= CACHE_LINE)
		__builtin_prefetch((void *)(mag + at - 1));
}

/* False for the negative cpu_id of a thread that is not registered. */
static inline bool
is_cpu(unsigned cpu)
{
	return cpu < cpu_layer.nslots;
}

/*
 * Unsynchronised reads are correct here: the values are used only as prefetch
 * addresses.
 */
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
 *	Only words of the block are read, never a magazine: another thread may
 *	free that meanwhile.  nprevious stands for previous->nrounds.  It can
 *	differ from it only while a thread owns the header: each change of
 *	previous, or of its rounds, is made by an owner, and cpu_disown() or the
 *	drain that took the magazine stores the new number before owned := 0.
 *	A header of zeros, in a block without memory, is not read: the read
 *	would cause a page fault in addition to that of the first write.
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
	*refill = __atomic_load_n(&c->refill, __ATOMIC_RELAXED);
	return __atomic_load_n(&c->nprevious, __ATOMIC_RELAXED) == 0 &&
	       __atomic_load_n(&c->owned, __ATOMIC_RELAXED) == 0 &&
	       (intptr_t)__atomic_load_n(&h->top, __ATOMIC_RELAXED) <=
		   (intptr_t)__atomic_load_n(&h->bottom, __ATOMIC_RELAXED);
}

bool
cpu_seems_closed(struct cpu_hot *hot)
{
	unsigned cpu = cpu_now();

	if (cpu_layer.rseq.owner == RSEQ_NONE)
		cpu %= cpu_layer.nwanted;
	return is_cpu(cpu) && is_committed(hot, cpu) &&
	       __atomic_load_n(&hot_of(hot, cpu)->limit, __ATOMIC_RELAXED) == 0;
}

bool
cpu_own(struct cpu_hot *hot, struct cpu_cold *cold, struct cpu_owned *owned)
{
	if (cpu_layer.rseq.owner == RSEQ_NONE)
		return own_in_locked_mode(hot, cold, owned);
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
			uint32_t n =
			    __atomic_load_n(&c->nbypassed, __ATOMIC_RELAXED);

			__atomic_store_n(
			    &c->nbypassed, n + 1, __ATOMIC_RELAXED);
			return false;
		}
		enum rseq_result r = rseq_claim(&cpu_layer.place, h, cpu, &top);
		if (likely(r == RSEQ_OK)) {
			umem_assert(rseq_is_held(&cpu_layer.rseq));
			/* The argument of cpu_seems_empty() relies on it. */
			umem_assert(
			    c->nprevious ==
			    (c->previous == NULL ? 0 : c->previous->nrounds));
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

/* Make the header refuse every operation. */
static void
close_header(struct cpu_hot *h)
{
	/*
	 * Relaxed stores: in case (a) top is CPU_CLAIMED, and in case (b) the
	 * membarrier orders them.  They are atomic because sections may read
	 * the words at the same time.
	 */
	__atomic_store_n(&h->bottom, CPU_NO_BOTTOM, __ATOMIC_RELAXED);
	__atomic_store_n(&h->limit, 0, __ATOMIC_RELAXED);
}

/* Set bottom and limit to those of a magazine. */
static void
open_header(struct cpu_hot *h, struct magazine *loaded)
{
	__atomic_store_n(
	    &h->bottom, (uintptr_t)loaded->round, __ATOMIC_RELAXED);
	__atomic_store_n(&h->limit,
	    (uintptr_t)(loaded->round + loaded->capacity), __ATOMIC_RELAXED);
	loaded->next = loaded;
}

/* Store the hint of cpu_seems_empty(). */
static void
nprevious_set(struct cpu_cold *c)
{
	uint32_t n = c->previous == NULL ? 0 : c->previous->nrounds;

	umem_assert(c->previous == NULL || n <= c->previous->capacity);
	__atomic_store_n(&c->nprevious, n, __ATOMIC_RELAXED);
}

void
cpu_disown(struct cpu_owned *owned)
{
	struct cpu_hot *h = owned->hot;
	struct magazine *loaded = owned->cold->loaded;
	uintptr_t top = 0;

	umem_assert(
	    __atomic_load_n(&owned->cold->owned, __ATOMIC_RELAXED) != 0);
	umem_assert(loaded == NULL || loaded != owned->cold->previous);
	nprevious_set(owned->cold);
	if (loaded == NULL) {
		umem_assert(owned->nrounds == 0);
		close_header(h);
	} else {
		umem_assert(owned->nrounds <= loaded->capacity);
		open_header(h, loaded);
		top = (uintptr_t)(loaded->round + owned->nrounds);
	}
	/* Release: pairs with the load of top in the sections. */
	__atomic_store_n(&h->top, top, __ATOMIC_RELEASE);
	owned_end(owned->cold);
}

/*
 * A section on another CPU may overwrite a store to its counter.  The next slow
 * push on that CPU then sets the counter.
 */
void
cpu_set_ticks(uint32_t n)
{
	/* Otherwise a new block could start with the old number meanwhile. */
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
 * The first CHECKS_ALL pushes of a CPU are forced into the slow path and
 * checked.  Afterwards the distance between two checked pushes grows by
 * CHECKS_STEP each time.  Of n pushes about sqrt(2 * n / CHECKS_STEP) are
 * checked: 700 of a million.
 */
#define CHECKS_ALL  128
#define CHECKS_STEP 4

/*
 * Restart a push counter that has run out, if pushes are checked.  Returns the
 * flags of cpu_ticked().
 */
static unsigned
ticks_again(struct cpu_cold *cold, uint32_t *ticks, uint32_t reload)
{
	/*
	 * Relaxed: the owners of two headers of one CPU may run this at the
	 * same time, and a store of one of them may be lost.
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
	/*
	 * Relaxed: sections of this CPU continue to count meanwhile, and the
	 * exact count does not matter.
	 */
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
 * Ensure that no section that has read the old bottom or limit of a closed
 * header is in progress.  Returns false if the kernel refuses.  A process with
 * a single thread needs no membarrier, because its only thread is here.  A
 * thread that libc does not know of has no area of libc and runs no sections.
 */
static bool
stop_sections(void)
{
	return cpu_layer.rseq.owner == RSEQ_NONE ||
	       (cpu_layer.rseq.owner == RSEQ_LIBC && os_is_single_threaded()) ||
	       os_membarrier_rseq();
}

/*
 * Step one of a drain: own and close the headers that have magazines.  Sets
 * their bits in mine and returns their number.
 */
static unsigned
drain_close(struct cpu_hot *hot, struct cpu_cold *cold,
    bool (*keep)(struct cpu_cold *), uint64_t *mine, unsigned nused)
{
	struct region *region = region_of(hot);
	unsigned n = 0;

	/*
	 * Wait for the end of a fork(), which holds regions_lock.  Otherwise
	 * the drain could skip headers because the gate is shut.
	 */
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
	umem_assert(nrounds <= mag->capacity);
	umem_assert(mag != *chain);
	mag->nrounds = nrounds;
	mag->next = *chain;
	*chain = mag;
}

/* Step two, after stop_sections(): top is constant; take the magazines. */
static void
drain_take(struct cpu_hot *h, struct cpu_cold *c, struct magazine **chain)
{
	uintptr_t top = __atomic_load_n(&h->top, __ATOMIC_RELAXED);
	unsigned nrounds = rounds_below(c, top);

	umem_assert(__atomic_load_n(&c->owned, __ATOMIC_RELAXED) != 0);
	umem_assert(top != CPU_CLAIMED);
	chain_add(chain, c->loaded, nrounds);
	if (c->previous != NULL)
		chain_add(chain, c->previous, c->previous->nrounds);
	c->loaded = NULL;
	c->previous = NULL;
	nprevious_set(c);
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
			/* Sections were only refused, so top is still valid. */
			open_header(h, c->loaded);
		owned_end(c);
	}
	return stopped;
}

/*
 * regions_lock is held during the whole drain.  Otherwise another thread could
 * commit the block of another CPU and load a magazine from the depot there.
 */
bool
cpu_drain_all(struct cpu_hot *hot, struct cpu_cold *cold,
    void (*take)(void *arg, struct magazine **chain), void *arg,
    struct magazine **chain)
{
	struct region *region = region_of(hot);
	bool stopped;

	/* This thread is in a handler of fork(), so the gate is shut. */
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
			/* Sections were only refused, so top is still valid. */
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

static bool
has_round(const struct cpu_cold *cold, unsigned n, const void *object)
{
	for (unsigned i = 0; i < n; i++)
		if (cold->loaded->round[i] == object)
			return true;
	return false;
}

bool
cpu_has(struct cpu_hot *hot, struct cpu_cold *cold, const void *object)
{
	unsigned nused = __atomic_load_n(&cpu_layer.nused, __ATOMIC_ACQUIRE);
	struct region *region = region_of(hot);
	bool has = false;

	for (unsigned cpu = 0; cpu < nused && !has; cpu++) {
		struct cpu_hot *h = hot_of(hot, cpu);
		struct cpu_cold *c = cold_of(cold, cpu);

		if (!__atomic_load_n(
			&region->committed[cpu], __ATOMIC_ACQUIRE) ||
		    !owned_try(c))
			continue;
		has = has_round(c,
		    rounds_below(c, __atomic_load_n(&h->top, __ATOMIC_RELAXED)),
		    object);
		owned_end(c);
	}
	return has;
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

/*
 * Racy estimate of the rounds in the loaded magazine.  Because top and bottom
 * may be of different moments, a wrong result is possible; it is harmless.  A
 * difference that no magazine can have counts as 0.
 */
static size_t
header_rounds_estimate(const struct cpu_hot *h)
{
	intptr_t top = (intptr_t)__atomic_load_n(&h->top, __ATOMIC_RELAXED);
	intptr_t bottom =
	    (intptr_t)__atomic_load_n(&h->bottom, __ATOMIC_RELAXED);
	size_t n = top > bottom ? (size_t)(top - bottom) / sizeof(void *) : 0;

	return n <= MAGAZINE_ROUNDS_MOST ? n : 0;
}

size_t
cpu_rounds_estimate(struct cpu_hot *hot)
{
	unsigned cpu = cpu_now();

	return cpu < cpu_layer.nslots ? header_rounds_estimate(hot_of(hot, cpu))
				      : 0;
}

size_t
cpu_rounds_estimate_all(unsigned *cpu)
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
			n += header_rounds_estimate(hot_of(
			    header_hot(regions, i + lowbit(taken)), *cpu));
	}
	return n;
}

/*
 * Call f for each header that is in use, on each CPU with a block.  The caller
 * is a handler of fork().
 */
static void
each_header_for_fork(void (*f)(struct cpu_cold *))
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

/* In the child: end the ownership of a thread that does not exist there. */
static void
end_of_no_thread(struct cpu_cold *c)
{
	if (c->owned != 0)
		owned_end(c);
}

/* While regions_lock is held, no thread can add a block or a header. */
void
cpu_lock_for_fork(void)
{
	lock_take_for_fork(&regions_lock);
	__atomic_store_n(&fork_gate, 1, __ATOMIC_SEQ_CST);
	each_header_for_fork(await_no_owner);
}

void
cpu_unlock_for_fork(bool child)
{
	if (child)
		each_header_for_fork(end_of_no_thread);
	/* Release: an owner that reads 0 also reads the headers' state. */
	__atomic_store_n(&fork_gate, 0, __ATOMIC_RELEASE);
	lock_release_for_fork(&regions_lock);
}

DESCRIBE(DESCRIBED_CPU_REGIONS);
