/*
 * cpu_region.c - the memory of per-CPU headers
 *
 * Terms
 *	block	the headers of one CPU.  Blocks are CPU_BLOCK bytes apart, so
 *		that the sections compute the address by a shift.  A used block
 *		takes the pages that were written: for malloc's caches three
 *		pages of 4 KiB, or one page of 64 KiB
 *	region	the blocks of all CPUs, for CPU_HEADERS caches.  A region is
 *		address space that reads as zeros.  A block gets memory when its
 *		CPU first needs it.  More caches need more regions
 *
 * If address space is so limited that the blocks of all possible CPU numbers
 * (64 KiB each) would take more than 1/ROOM_PART of it, there are only as many
 * blocks as allowed CPUs, and the library works in the locked mode.
 *
 * Locking: cpu_regions_lock guards the list of regions and their headers.  A
 * region is complete when a release store links it behind the last one, and no
 * region is ever freed, so the list may be followed without the lock.
 */
#include "magazine/described.h"
#include "magazine/cpu_inner.h"
#include "vmem/account.h"
#include "vmem/describe.h"
#include "vmem/heap.h"
#include "vmem/meta.h"

/* The blocks may take at most 1/ROOM_PART of limited address space. */
#define ROOM_PART 6

struct cpu_layer cpu_layer;
struct region *cpu_regions;
struct lock cpu_regions_lock = LOCK_INITIALIZER(LOCK_REGION);
static struct region *regions_last; /* [lock] */

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
		cpu_regions = region;
	else
		/* Release: pairs with walks of the list without the lock. */
		store_release(&regions_last->next, region);
	regions_last = region;
	return region;
undo:
	if (region->committed != NULL)
		meta_free(region->committed, cpu_layer.nslots);
	meta_free(region, sizeof(*region));
	return NULL;
}

static void
taken_set_locked(struct region *region, unsigned i, uint64_t word)
{
	lock_assert_held(&cpu_regions_lock);
	umem_assert(i < CPU_HEADERS);
	store_relaxed(&region->taken[i / 64], word);
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

	lock_assert_held(&cpu_regions_lock);
	umem_assert(region->nfree > 0);
	while (~region->taken[i] == 0)
		i++;
	return i * 64 + lowbit(~region->taken[i]);
}

/* A region with a header that is not taken; NULL: no memory for a region. */
static struct region *
region_with_header_locked(void)
{
	lock_assert_held(&cpu_regions_lock);
	for (struct region *r = cpu_regions; r != NULL; r = r->next)
		if (r->nfree != 0)
			return r;
	return region_create(/* first */ false);
}

/* Write the constants of the divisibility test to a CPU's header i. */
static void
guard_write(struct region *region, unsigned cpu, unsigned i)
{
	struct cpu_hot *h = hot_of(header_hot(region, i), cpu);

	/* A section reads the constants if the header is open. */
	umem_assert(load_relaxed(&h->limit) == 0);
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
	lock_assert_held(&cpu_regions_lock);
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

	lock_take(&cpu_regions_lock);
	region = region_with_header_locked();
	if (region != NULL) {
		unsigned i = free_header_locked(region);

		header_reserve(region, i);
		guard_set_locked(region, i, guard);
		*hot = header_hot(region, i);
		*cold = header_cold(region, i);
	}
	lock_release(&cpu_regions_lock);
	return region != NULL;
}

void
cpu_header_reserve(unsigned first, unsigned n)
{
	lock_take(&cpu_regions_lock);
	for (unsigned i = 0; i < n; i++)
		header_reserve(cpu_regions, first + i);
	lock_release(&cpu_regions_lock);
}

void
cpu_header_at(unsigned i, struct cpu_guard guard, struct cpu_hot **hot,
    struct cpu_cold **cold)
{
	lock_take(&cpu_regions_lock);
	guard_set_locked(cpu_regions, i, guard);
	lock_release(&cpu_regions_lock);
	*hot = header_hot(cpu_regions, i);
	*cold = header_cold(cpu_regions, i);
}

struct region *
region_of(struct cpu_hot *hot)
{
	uintptr_t at = (uintptr_t)hot;

	if (likely(at - (uintptr_t)cpu_regions->blocks < CPU_BLOCK))
		return cpu_regions;
	return *region_word((char *)align_down(at, CPU_BLOCK));
}

void
cpu_header_free(struct cpu_hot *hot)
{
	struct region *region = region_of(hot);
	unsigned i = (unsigned)(hot - header_hot(region, 0));

	lock_take(&cpu_regions_lock);
	umem_assert(i < CPU_HEADERS);
	umem_assert((region->taken[i / 64] >> (i % 64) & 1) != 0);
	umem_assert(region->nfree < CPU_HEADERS);
	for (unsigned cpu = 0; cpu < cpu_layer.nused; cpu++) {
		struct cpu_cold *c = cold_of(header_cold(region, i), cpu);

		/* A read first: a write would give memory to an unused page. */
		if (region->committed[cpu] &&
		    (c->refill | c->nloads | c->nunloads | c->nbypassed) != 0)
			*c = (struct cpu_cold){0};
	}
	taken_set_locked(
	    region, i, region->taken[i / 64] & ~((uint64_t)1 << (i % 64)));
	region->nfree++;
	lock_release(&cpu_regions_lock);
}

static bool
block_commit_locked(struct region *region, unsigned cpu)
{
	lock_assert_held(&cpu_regions_lock);
	umem_assert(cpu < cpu_layer.nslots);
	if (region->committed[cpu])
		return true;
	/* The push counter is in the first region. */
	if (region != cpu_regions && !block_commit_locked(cpu_regions, cpu))
		return false;
	if (!os_commit(
		region->blocks + ((size_t)cpu << CPU_BLOCK_SHIFT), CPU_BLOCK))
		return false;
	/* The block is zero.  Pages that are not written cost no memory. */
	for (unsigned i = 1; i < CPU_HEADERS; i++)
		if (region->guard[i].bound != 0)
			guard_write(region, cpu, i);
	if (region == cpu_regions)
		cpu_pushes_start(hot_of(header_hot(region, 0), cpu));
	/* Release: pairs with the load in block_commit(). */
	store_release(&region->committed[cpu], 1);
	account_add(&account.tables, CPU_BLOCK);
	if (cpu_layer.nused < cpu + 1)
		store_release(&cpu_layer.nused, cpu + 1);
	return true;
}

bool
block_commit(struct region *region, unsigned cpu)
{
	bool done;

	if (cpu >= cpu_layer.nwanted)
		return false;
	/* Acquire: a thread that reads 1 can write to the block. */
	if (likely(load_acquire(&region->committed[cpu])))
		return true;
	lock_take(&cpu_regions_lock);
	done = block_commit_locked(region, cpu);
	lock_release(&cpu_regions_lock);
	return done;
}

/*
 * Create the first region with a block for every CPU number of the kernel,
 * because a section uses the number without a check.  Returns false if that
 * takes too much of the address space.  A small one has a block for each
 * allowed CPU.  This is enough in locked mode, in which CPU numbers can share
 * blocks.
 */
static bool
regions_start(bool small)
{
	cpu_layer.nslots = small ? os_cpus_allowed() : os_cpu_slots();
	return (small || (size_t)cpu_layer.nslots << CPU_BLOCK_SHIFT <=
			     heap_address_space / ROOM_PART) &&
	       region_create(/* first */ true) != NULL;
}

bool
cpu_start(enum rseq_owner wanted, unsigned concurrency)
{
	bool small = !regions_start(/* small */ false);

	if (small && !regions_start(/* small */ true))
		return false;
	cpu_layer.nwanted = cpu_layer.nslots;
	cpu_layer.tick_pushes = INT32_MAX;
	if (concurrency != 0 && concurrency < cpu_layer.nslots)
		cpu_layer.nwanted = concurrency;
	cpu_layer.nrun = os_cpus_allowed();
	if (cpu_layer.nrun > cpu_layer.nwanted)
		cpu_layer.nrun = cpu_layer.nwanted;
	cpu_layer.nquota = cpu_layer.nrun;
	lock_take(&cpu_regions_lock);
	header_reserve(cpu_regions, 0);
	header_reserve(cpu_regions, CPU_HEADER_CLOSED);
	lock_release(&cpu_regions_lock);
	rseq_start(
	    small ? RSEQ_NONE : wanted, &cpu_layer.rseq, &cpu_layer.place);
	if (small && wanted != RSEQ_NONE)
		cpu_layer.rseq.reason = "the limit of address space is near";
	/* Without membarrier no thread could drain another CPU's magazines. */
	if (cpu_layer.rseq.owner != RSEQ_NONE && !os_membarrier_ready()) {
		cpu_layer.rseq.owner = RSEQ_NONE;
		cpu_layer.rseq.reason = "the kernel refuses membarrier";
	}
	cpu_layer.blocks = cpu_regions->blocks;
	cpu_layer.place.base = cpu_header_none();
	return true;
}

void
cpu_warm(void)
{
	block_commit(cpu_regions, cpu_now());
}

DESCRIBE(DESCRIBED_MAGAZINES);
