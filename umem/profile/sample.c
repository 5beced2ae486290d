/*
 * sample.c - heap profiling by samples, one in about N bytes allocated
 *
 * A few of a program's blocks are enough to find out in production which code
 * uses its memory.  If each byte requested has the same small probability of
 * being sampled, the samples represent all blocks: a stack that has a tenth of
 * the samples has a tenth of the memory.
 *
 * Counting
 *	sample_count.c decides which block is a sample.
 *	While sampling is off, nothing is counted: small sizes stay on the fast
 *	path.  While it is on, the smallest sizes stay there, too: marked rounds
 *	decide (magazine/cpu_marks.h), which cost the fast path nothing.  A
 *	block of a marked round becomes a sample, and its chunk is freed.
 *	Marks serve sizes up to 1/CANDIDATE_EVERY of the mean: 512 bytes for a
 *	mean of 1 MiB.  Of larger rounds more would have to be marked than there
 *	are candidates.  alloc_fast.small_end follows this size, so that larger
 *	small sizes take alloc_larger(), which counts their bytes.
 *
 * Memory of a sample
 *	A sample is a large block, even if it is small: a span of whole units,
 *	which the free paths leave to alloc_free_as() without a further test.
 *	The owner in the page map contains the number of its record.  The
 *	records are in a table of PAGE_MAP_SAMPLES, and refer to their stacks
 *	(sample_stack.c).  When the table is full, or there is no memory for a
 *	stack, no sample is taken, and sample_nlost counts it.
 *	    A sample that fits into a unit uses a unit that its record keeps
 *	(sample_unit.c).  The memory of the unit is released when the sample is
 *	freed.  So a sample takes one small page for each page of its size, and
 *	not 64 KiB.  The address space of as many units as there were samples at
 *	one time is not returned.  The hard limit of the heap counts the pages
 *	of a sample, and a sample that would exceed it is not taken.
 *	    One sample in GUARD_EVERY has a guarded record if it fits: it ends
 *	at a guard page, and its own pages become inaccessible when it is freed.
 *	Free guarded records wait in a queue, so that this lasts as long as
 *	possible.  A record keeps both stacks until it is filled again.  If none
 *	is free, the sample is one like the others.
 *	    realloc() counts a block that it copies like a new one.  A large
 *	block that it enlarges in place or by moving pages is counted likewise,
 *	with its whole new size: if it was a sample, this sample ends, and the
 *	block becomes a sample if the countdown says so (sample_grown()).  Hence
 *	a block that grows to a gigabyte is a sample of that size from the call
 *	that enlarged it last, also if it was none when it was small, or was
 *	allocated before sampling began.  A block that shrinks in place, or
 *	grows by less than a unit or within its chunk, is not counted again: a
 *	sample keeps the size with which it was counted, and stands for as many
 *	blocks as before, of its present size.  So each estimate is right on
 *	average.
 *	    An object of a cache may be a sample, too (sample_object.c).
 *	Nothing is sampled when every block is checked: by UMEM_DEBUG,
 *	UMEM_OPTIONS=hardened, or a checker such as valgrind.
 *
 * Too many samples
 *	When SAMPLES_MAX samples are live, the mean is doubled, and about every
 *	second sample ends, until at most half of them are left
 *	(samples_halve()).  The others are a sample with the doubled mean, so
 *	the estimates stay right.  The block of an ended sample cannot move: it
 *	keeps its record, which does not count any more, until it is freed.  A
 *	program that grows by a factor of two needs half as many records as
 *	there are samples for that, so the table is large enough for 2^14 times
 *	the memory at which the first samples ended.
 *	    One thread halves at a time.  Others take samples meanwhile, and may
 *	exceed SAMPLES_MAX.  A reader from outside may find some records halved
 *	and others not; each is right by itself.  umem_sample() may change the
 *	mean meanwhile: then it is not doubled.
 *	    A thread that frees a block and the one that ends its sample both
 *	exchange is_counted for 0, so nlive is decreased once.
 *
 * On and off
 *	mean and counted_end (of sampling), bytes_max (of cpu_marks) and
 *	small_end (of alloc_fast) change one after the other, and a thread may
 *	read any mixture of old and new values:
 *	size < small_end	The block is a sample if its round was marked.
 *				Without marks, none is.
 *	otherwise, if size	The block is counted.  At the end of its
 *		< counted_end	countdown a thread reads mean; 0 means no
 *				sample.  counted_end is at most SIZE_SMALL + 1,
 *				so the small table has the class.
 *	otherwise, if size	If mean and chosen are 0, alloc_larger() runs
 *		> SIZE_SMALL	the section, and the block is no sample.
 *	otherwise		alloc_block() reads mean, and runs the section,
 *				which is correct, but slower.
 *	The thread that takes a sample reads mean again, and ignores a mark of a
 *	round that is too large for this mean.  So every order of stores is
 *	correct.
 *	The others are set only where sections run.  The umem command writes
 *	from outside, while all threads are stopped: mean, a value other than
 *	mean to chosen, and 0 to counted_end and small_end.  The next allocation
 *	then takes the third way, or that of its relatives for zeroed and
 *	aligned blocks, which finds that mean is not the mean chosen last, and
 *	calls alloc_choose_paths().
 *	If a thread was stopped in alloc_choose_paths(), it reads mean again
 *	after its stores.
 *
 * Locking
 *	sample_lock guards the table and the list of free records.  It is a
 *	leaf.  A record belongs to the owner of its block.  Threads change its
 *	state by compare-and-swap, so if two threads free one block, one of them
 *	is told.
 *
 * Reading beside threads that allocate and free (sample_each())
 *	The reader holds sample_lock, reads the state of a record, and reads the
 *	record if it is live.  The record then stays as it is until the reader
 *	releases the lock:
 *	filled before	The state becomes SAMPLE_LIVE by a store with release
 *			order after the last store to the members, and the
 *			reader loads it with acquire order.
 *	filled again	A thread that refills a record has first made it not
 *			live, and has then taken sample_lock: in
 *			record_recycle(), or in record_begin_refill() where the
 *			record is not recycled.  So either it takes the lock
 *			after the reader, and refills the record later, or the
 *			reader finds the record not live.
 *	The block may be freed meanwhile: that changes the state, and members
 *	that the reader does not read.  While a record is live, realloc() may
 *	change the size, by an atomic store, and the addresses of the block,
 *	which the reader does not read.
 *	    The reader releases the lock after VISITED_AT_ONCE records, so no
 *	thread waits long for it.  The blocks that it finds are therefore not of
 *	one moment: each was live at some moment of the visit, and each that was
 *	live all the time is found, unless realloc() enlarged it meanwhile.
 */
#include <errno.h>

#include "umem/profile/described.h"
#include "umem/base/page_map.h"
#include "umem/base/checker.h"
#include "umem/debug/debug.h"
#include "umem/base/ready.h"
#include "umem/base/large.h"
#include "umem/base/size_class.h"
#include "umem/cache/cache.h"
#include "umem/cache/misuse.h"
#include "umem/profile/sample.h"
#include "umem/profile/sample_count.h"
#include "umem/profile/sample_unit.h"
#include "umem/debug/report.h"
#include "umem/debug/stack.h"
#include "umem/profile/fault.h"
#include "vmem/account.h"
#include "vmem/describe.h"
#include "vmem/heap.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/probe.h"

/* One sample of so many has a guarded record. */
#define GUARD_EVERY 32

/* The largest mean that is doubled: no program has so much memory. */
#define MEAN_MAX ((size_t)1 << 60)

/* Records that one hold of sample_lock visits: a few us. */
#define VISITED_AT_ONCE 32

struct sampling sampling;
size_t sample_wanted;

uint64_t sample_ntaken, sample_nlost, sample_nhalved; /* [a] */

uint32_t sample_records_most = PAGE_MAP_SAMPLES - 1;

struct lock sample_lock = LOCK_INITIALIZER(LOCK_SAMPLE);
/*
 * [a] The table; number 0 is unused.  A record enters it by a release store
 * when it is complete, and neither is ever freed, so both are read without a
 * lock.
 */
static struct sample **samples;
static uint32_t nsamples;     /* [sample_lock] records created */
static uint32_t free_records; /* [sample_lock] chain by next; 0: none */
static uint32_t nlive;        /* [a] records that are counted */
static size_t nguarded;       /* [a] live guarded records */

/* The guarded records, which are permanent; those that are free are queued. */
static struct sample *guarded[SAMPLES_GUARDED] seldom_used; /* [a] */
static uint32_t nguarded_records;       /* [a] changed with sample_lock */
static uint32_t queue_head, queue_tail; /* [sample_lock] ends; 0: none */

_Static_assert(PAGE_MAP_SAMPLES <= UINT32_MAX, "a record has 32 bits for one");
_Static_assert(SAMPLE_NONE == 0, "the state of a new record");

/*
 * Is the table consistent?  Each record knows its number, and the free list
 * has no cycle and only records that are free and not guarded.
 */
static inline bool
sample_check_locked(void)
{
	uint32_t nfree = 0;

	lock_assert_held(&sample_lock);
	for (uint32_t i = 1; i <= nsamples; i++)
		if (samples[i] == NULL || samples[i]->index != i)
			return false;
	for (uint32_t i = free_records; i != 0; i = samples[i]->next)
		if (i > nsamples || ++nfree > nsamples ||
		    samples[i]->is_guarded ||
		    load_relaxed(&samples[i]->state) != SAMPLE_NONE)
			return false;
	return nsamples < PAGE_MAP_SAMPLES;
}

/* Checks the table once in as many calls as it has records. */
static inline bool
sample_check_sometimes_locked(void)
{
	static uint32_t ncalls; /* [sample_lock] */

	if (nsamples > 64 && ++ncalls < nsamples)
		return true;
	ncalls = 0;
	return sample_check_locked();
}

static struct sample **
sample_table(void)
{
	struct sample **table = load_acquire(&samples);
	struct sample **created;
	size_t bytes = PAGE_MAP_SAMPLES * sizeof(*table);

	if (likely(table != NULL))
		return table;
	created = meta_alloc_best_effort(bytes);
	if (created == NULL)
		return NULL;
	table = publish_once(&samples, created);
	if (table != created)
		meta_free(created, bytes);
	return table;
}

static struct sample *
record_at(uint32_t index)
{
	struct sample *s = load_acquire(&samples)[index];

	umem_assert(s != NULL && s->index == index);
	return s;
}

/* Takes a record from the free list; NULL: the list is empty. */
static struct sample *
record_reuse(void)
{
	struct sample *s = NULL;

	lock_take(&sample_lock);
	if (free_records != 0) {
		s = samples[free_records];
		free_records = s->next;
	}
	umem_assert(sample_check_sometimes_locked());
	lock_release(&sample_lock);
	return s;
}

static struct sample *
record_create(void)
{
	struct sample **table = sample_table();
	struct sample *s =
	    table == NULL ? NULL : meta_alloc_best_effort(sizeof(*s));

	if (s == NULL)
		return NULL;
	lock_take(&sample_lock);
	if (nsamples < sample_records_most)
		s->index = ++nsamples;
	if (s->index != 0)
		store_release(&table[s->index], s);
	umem_assert(sample_check_sometimes_locked());
	lock_release(&sample_lock);
	if (s->index != 0)
		return s;
	meta_free(s, sizeof(*s));
	return NULL;
}

static void
record_recycle(struct sample *s)
{
	umem_assert(!s->is_guarded);
	umem_assert(load_relaxed(&s->state) == SAMPLE_NONE);
	lock_take(&sample_lock);
	s->next = free_records;
	free_records = s->index;
	umem_assert(sample_check_sometimes_locked());
	lock_release(&sample_lock);
}

/* Creates a guarded record; NULL: there is no memory, or there are enough. */
static struct sample *
guarded_create(void)
{
	struct sample *s = record_create();

	if (s == NULL)
		return NULL;
	lock_take(&sample_lock);
	s->is_guarded = nguarded_records < SAMPLES_GUARDED;
	if (s->is_guarded) {
		store_release(&guarded[nguarded_records], s);
		store_relaxed(&nguarded_records, nguarded_records + 1);
	}
	lock_release(&sample_lock);
	if (s->is_guarded)
		return s;
	record_recycle(s);
	return NULL;
}

/* Returns a new record, or the one that has waited longest, or NULL. */
static struct sample *
guarded_take(void)
{
	struct sample *s = NULL;

	if (load_relaxed(&nguarded_records) < SAMPLES_GUARDED)
		return guarded_create();
	lock_take(&sample_lock);
	if (queue_head != 0) {
		s = samples[queue_head];
		queue_head = s->next;
	}
	lock_release(&sample_lock);
	return s;
}

/* Appends a free record to the queue. */
static void
guarded_put(struct sample *s)
{
	umem_assert(s->is_guarded);
	lock_take(&sample_lock);
	s->next = 0;
	if (queue_head == 0)
		queue_head = s->index;
	else
		samples[queue_tail]->next = s->index;
	queue_tail = s->index;
	lock_release(&sample_lock);
}

/*
 * Begins to refill a record that was not recycled since it was live: waits for
 * a reader that may have found it live.
 */
static void
record_begin_refill(struct sample *s)
{
	lock_take(&sample_lock);
	store_release(&s->state, SAMPLE_NONE);
	lock_release(&sample_lock);
}

/* Sets one of the stacks of a record, with the reference that it has. */
static void
stack_set(struct sample_stack **stack, struct sample_stack *to)
{
	struct sample_stack *old = *stack;

	*stack = to;
	sample_stack_drop(old);
}

/*
 * Gives the stack of the caller to a record that is about to be filled again.
 * Returns false if there is no memory.
 */
static bool
record_trace(struct sample *s)
{
	umem_assert(load_relaxed(&s->state) == SAMPLE_NONE);
	stack_set(&s->stack, sample_stack_take());
	stack_set(&s->freed_stack, NULL);
	return s->stack != NULL;
}

static void
record_fill(struct sample *s, void *block, void *span, size_t size,
    struct umem_cache *cache)
{
	umem_assert(load_relaxed(&s->state) == SAMPLE_NONE);
	s->block = block;
	s->cache = cache;
	s->span = span;
	s->size = s->counted = size;
	s->mean = load_relaxed(&sampling.mean);
	s->weight = sample_weight(size, s->mean);
	s->time = os_exact_ns();
	s->thread = stack_thread();
	umem_assert((char *)block >= (char *)span && s->stack != NULL);
}

/* The bytes of the pages that the block of an unguarded sample needs. */
static size_t
page_bytes_needed(const struct sample *s)
{
	size_t used = (size_t)((char *)s->block - s->span) + s->size;

	umem_assert(!s->is_guarded);
	return align_up(used, os_page_size());
}

/*
 * Counts the span of an unguarded sample, and so many bytes of its pages.  They
 * stay counted when the block shrinks in place, because they stay resident.
 */
static void
record_count(struct sample *s, size_t page_bytes)
{
	size_t bytes = page_map_large_bytes(page_map_owner(s->span));

	umem_assert(page_bytes_needed(s) <= page_bytes && page_bytes <= bytes);
	s->page_bytes = page_bytes;
	account_add(&account.sample_spans, bytes);
	account_add(&account.sample_pages, page_bytes);
}

/* The opposite of record_count(), before the span changes. */
static void
record_uncount(const struct sample *s)
{
	size_t bytes = page_map_large_bytes(page_map_owner(s->span));

	account_sub(&account.sample_spans, bytes);
	account_sub(&account.sample_pages, s->page_bytes);
}

/* The record is no sample any more; if it was one, it leaves nlive. */
static void
record_discount(struct sample *s)
{
	if (__atomic_exchange_n(&s->is_counted, 0, __ATOMIC_RELAXED) != 0)
		sub_relaxed(&nlive, 1);
}

/* The block of the record is freed, or another block from now on. */
static void
record_count_free(struct sample *s)
{
	sample_stack_freed(
	    s->stack, s->counted, s->weight, os_exact_ns() - s->time);
}

/* Makes the block a sample, for the library and for the umem command. */
static void *
sample_publish(struct sample *s, size_t bytes)
{
	umem_assert((uintptr_t)s->span % HEAP_UNIT == 0);
	umem_assert(s->index != 0 && bytes % HEAP_UNIT == 0);
	store_relaxed(&s->is_counted, 1);
	add_relaxed(&nlive, 1);
	sample_stack_allocated(s->stack, s->counted, s->weight);
	store_release(&s->state, SAMPLE_LIVE);
	page_map_enter_sample(s->span, bytes, s->block, s->index);
	add_relaxed(&sample_ntaken, 1);
	/* Tells tracers; see man/umem.1, "PROBES". */
	probe_fire(otel_memory, alloc, s->block, s->size, s->weight);
	return s->block;
}

/*
 * Returns the alignment that malloc() guarantees for this size.  A guard page
 * begins at a multiple of it.
 */
static size_t
min_align_of_size(size_t size)
{
	return size >= 16 ? 16 : 8;
}

static void *
sample_take_guarded(size_t size, size_t align, struct umem_cache *cache)
{
	struct sample *s;
	char *block, *end;

	align = size_max(align, min_align_of_size(size));
	if (align_up(size, align) > sample_guarded_max() ||
	    align > os_page_size())
		return NULL;
	s = guarded_take();
	if (s == NULL)
		return NULL;
	fault_explain_guards();
	end = sample_guarded_open(s, align_up(size, align));
	if (end == NULL) {
		guarded_put(s);
		return NULL;
	}
	record_begin_refill(s);
	if (!record_trace(s)) {
		sample_guarded_close(s);
		guarded_put(s);
		return NULL;
	}
	block = end - align_up(size, align);
	umem_assert((uintptr_t)block % align == 0);
	record_fill(s, block, s->own_unit, size, cache);
	add_relaxed(&nguarded, 1);
	return sample_publish(s, sample_guarded_bytes());
}

/*
 * Returns an offset of a sample in its pages, a multiple of a cache line.
 * Without it, samples would compete for the same sets of each hardware cache.
 */
static size_t
sample_colour(size_t size, size_t align)
{
	size_t page = os_page_size();

	if (align > CACHE_LINE || size > page / 2)
		return 0;
	return align_down(
	    sample_count_random() % (page - size + 1), CACHE_LINE);
}

/*
 * Purges the span behind the used bytes, because a span from the heap may have
 * resident pages; a sample shall have only its own.
 */
static void
span_purge_tail(char *span, size_t used)
{
	size_t pages = align_up(used, os_page_size());
	size_t bytes = align_up(used, HEAP_UNIT);

	if (span != NULL && bytes > pages)
		os_purge(span + pages, bytes - pages);
}

/* Takes a record with the stack of the caller; NULL: there is none. */
static struct sample *
record_take(void)
{
	struct sample *s = record_reuse();

	if (s == NULL)
		s = record_create();
	if (s == NULL || record_trace(s))
		return s;
	record_recycle(s);
	return NULL;
}

static uint32_t
sample_state(const struct sample *s)
{
	return load_acquire(&s->state);
}

static void
sample_release_unguarded(struct sample *s)
{
	size_t bytes = page_map_large_bytes(page_map_owner(s->span));

	umem_assert(sample_state(s) == SAMPLE_NONE);
	record_discount(s);
	record_uncount(s);
	if (s->span == s->own_unit)
		sample_unit_close(s);
	else
		large_free(s->span, bytes);
	record_recycle(s);
}

static void *
sample_take_unguarded(
    size_t size, size_t align, struct umem_cache *cache, bool *zeroed)
{
	size_t colour = sample_colour(size, align);
	struct sample *s = record_take();
	char *span = NULL;

	if (s == NULL)
		return NULL;
	umem_assert(!s->is_guarded);
	if (size + colour <= HEAP_UNIT && align <= HEAP_UNIT)
		span = sample_unit_open(s);
	if (span == NULL) {
		span = large_alloc(
		    size + colour, size_max(align, HEAP_UNIT), zeroed);
		span_purge_tail(span, size + colour);
	}
	if (span == NULL) {
		record_recycle(s);
		return NULL;
	}
	record_fill(s, span + colour, span, size, cache);
	record_count(s, page_bytes_needed(s));
	/* Only its pages count against the hard limit, and only now. */
	if (unlikely(!heap_limit_keep())) {
		sample_release_unguarded(s);
		return NULL;
	}
	return sample_publish(s, page_map_large_bytes(page_map_owner(span)));
}

void
sample_each(void (*visit)(struct sample *, void *arg), void *arg)
{
	bool is_last = false;

	for (uint32_t i = 1; !is_last;) {
		uint32_t left = VISITED_AT_ONCE;

		lock_take(&sample_lock);
		for (; i <= nsamples && left != 0; i++, left--)
			if (sample_state(samples[i]) == SAMPLE_LIVE &&
			    load_relaxed(&samples[i]->is_counted) != 0)
				visit(samples[i], arg);
		is_last = i > nsamples;
		lock_release(&sample_lock);
	}
}

static void
record_halve(struct sample *s, void *unused)
{
	(void)unused;
	if (sample_count_keeps(s->counted, s->mean))
		s->mean *= 2;
	else
		record_discount(s);
}

/*
 * Doubles the mean, and halves the samples accordingly.  Because large blocks
 * stay samples, this may take several steps.
 */
static cold_path void
samples_halve(void)
{
	if (__atomic_exchange_n(&sampling.is_halving, 1, __ATOMIC_ACQUIRE))
		return;
	while (load_relaxed(&nlive) > SAMPLES_MAX / 2) {
		size_t mean = load_relaxed(&sampling.mean);

		if (mean == 0 || mean > MEAN_MAX)
			break;
		__atomic_compare_exchange_n(&sampling.mean, &mean, 2 * mean,
		    false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
		sample_engine.choose_paths();
		add_relaxed(&sample_nhalved, 1);
		sample_each(record_halve, NULL);
	}
	store_release(&sampling.is_halving, 0);
}

void *
sample_take(size_t size, size_t align, struct umem_cache *cache, bool *zeroed)
{
	void *p = NULL;

	umem_assert(is_pow2(align));
	*zeroed = false;
	if (unlikely(load_relaxed(&nlive) >= SAMPLES_MAX))
		samples_halve();
	if (size <= PTRDIFF_MAX / 2 &&
	    heap_limit_has_room(size + os_page_size())) {
		if (sample_count_random() % GUARD_EVERY == 0)
			p = sample_take_guarded(size, align, cache);
		if (p == NULL)
			p = sample_take_unguarded(size, align, cache, zeroed);
	}
	*zeroed = *zeroed && p != NULL;
	if (p == NULL)
		add_relaxed(&sample_nlost, 1);
	return p;
}

void
sample_grown(void *block, size_t size)
{
	size_t bytes = page_map_large_bytes(page_map_owner(block));
	struct sample *s;

	umem_assert(page_map_sample_index(page_map_owner(block)) == 0);
	if (!sample_count_block(size))
		return;
	s = record_take();
	if (s == NULL) {
		add_relaxed(&sample_nlost, 1);
		return;
	}
	record_fill(s, block, block, size, /* cache */ NULL);
	record_count(s, bytes);
	sample_publish(s, bytes);
}

bool
sample_is_freed(const struct sample *s)
{
	return sample_state(s) != SAMPLE_LIVE;
}

static void
report_stack_of(const char *what, uint64_t thread, uint64_t ago,
    const struct sample_stack *stack)
{
	report_caller(what, thread, ago, stack == NULL ? NULL : stack->pc,
	    stack == NULL ? 0 : stack->depth);
}

void
sample_report_callers(const struct sample *s)
{
	uint64_t now = os_exact_ns();

	report_stack_of("allocated", s->thread, now - s->time, s->stack);
	if (sample_is_freed(s))
		report_stack_of("freed", s->freed_thread, now - s->freed_time,
		    s->freed_stack);
}

const struct sample *
sample_guarded_near(const void *p)
{
	for (int i = 0; i < SAMPLES_GUARDED; i++) {
		const struct sample *s = load_acquire(&guarded[i]);

		if (s != NULL && sample_state(s) != SAMPLE_NONE &&
		    (uintptr_t)p - (uintptr_t)s->span < sample_guarded_bytes())
			return s;
	}
	return NULL;
}

const struct sample *
sample_near(const void *p)
{
	const void *span = large_containing(p);
	uint32_t index =
	    span == NULL ? 0 : page_map_sample_index(page_map_owner(span));

	return index != 0 ? record_at(index) : sample_guarded_near(p);
}

/* Returns the record of a live block; aborts if the block was freed. */
static struct sample *
record_of_live(uint32_t index, const char *api)
{
	struct sample *s = record_at(index);
	uint32_t state = sample_state(s);

	if (unlikely(state == SAMPLE_FREED || state == SAMPLE_WAITING))
		misuse(api, s->block,
		    state == SAMPLE_WAITING ? "block freed twice" MISUSE_WAITING
					    : "block freed twice");
	return s;
}

bool
sample_is_live(uint32_t index)
{
	return sample_state(record_at(index)) == SAMPLE_LIVE;
}

struct umem_cache *
sample_cache(uint32_t index)
{
	return record_at(index)->cache;
}

size_t
sample_size(uint32_t index)
{
	return record_at(index)->size;
}

/*
 * Returns no more than an ordinary block of this size would have, so that
 * realloc() moves a sample as often.
 */
size_t
sample_usable(uint32_t index, const char *api)
{
	struct sample *s = record_of_live(index, api);
	size_t bytes = page_map_large_bytes(page_map_owner(s->span));
	size_t usable = (size_t)(s->span + bytes - (char *)s->block);
	unsigned class = size_class_of(s->size);

	if (s->is_guarded)
		usable -= os_page_size();
	return size_min(usable, class != 0 ? size_classes.bytes[class]
					   : align_up(s->size, HEAP_UNIT));
}

void
sample_resize_in_place(uint32_t index, size_t size)
{
	struct sample *s = record_at(index);

	store_relaxed(&s->size, size);
	/* A guarded sample keeps its pages. */
	if (s->is_guarded || page_bytes_needed(s) <= s->page_bytes)
		return;
	record_uncount(s);
	record_count(s, page_bytes_needed(s));
}

/*
 * Ends a sample whose block stays, as an ordinary large block.  If the block
 * has moved, s->span is already the memory of another owner.
 */
static void
sample_end(struct sample *s)
{
	store_release(&s->state, SAMPLE_NONE);
	probe_fire(otel_memory, free, s->block);
	record_count_free(s);
	record_discount(s);
	record_recycle(s);
}

bool
sample_resizes(uint32_t index, size_t size)
{
	const struct sample *s = record_at(index);

	return size >= LARGE_GROWN && !s->is_guarded &&
	       s->span != s->own_unit && s->span == s->block;
}

void *
sample_resize_large(uint32_t index, size_t size)
{
	struct sample *s = record_at(index);
	size_t oldbytes = page_map_large_bytes(page_map_owner(s->span)), bytes;
	void *span;

	umem_assert(sample_resizes(index, size));
	umem_assert(sample_state(s) == SAMPLE_LIVE);
	record_uncount(s);
	span = large_resize(s->span, oldbytes, size);
	if (span == NULL) {
		record_count(s, s->page_bytes);
		return NULL;
	}
	bytes = page_map_large_bytes(page_map_owner(span));
	/*
	 * The umem command may read between any two stores.  For it, the block
	 * is a sample of its old size before sample_end(), then an ordinary
	 * large block, and a sample again after sample_publish().  So it finds
	 * no record that is half old and half new.
	 */
	if (bytes > oldbytes && sample_is_on()) {
		sample_end(s);
		sample_grown(span, size);
		return span;
	}
	s->block = s->span = span;
	store_relaxed(&s->size, size);
	page_map_enter_sample(span, bytes, span, index);
	record_count(
	    s, size_min(bytes, size_max(s->page_bytes, page_bytes_needed(s))));
	return span;
}

/*
 * Records the freeing thread, and its stack if the sample is guarded: reports
 * show only guarded samples after the free.
 */
static void
record_note_free(struct sample *s)
{
	umem_assert(sample_state(s) != SAMPLE_LIVE);
	s->freed_time = os_exact_ns();
	s->freed_thread = stack_thread();
	if (s->is_guarded)
		stack_set(&s->freed_stack, sample_stack_take());
}

static void
sample_release_guarded(struct sample *s)
{
	umem_assert(s->is_guarded && sample_state(s) == SAMPLE_FREED);
	record_discount(s);
	sub_relaxed(&nguarded, 1);
	sample_guarded_close(s);
	guarded_put(s);
}

/*
 * Moves a live sample to another state, and records who has freed it where that
 * may be reported; aborts if it is not live.
 */
static struct sample *
sample_end_life(uint32_t index, const char *api, bool defers)
{
	struct sample *s = record_of_live(index, api);
	uint32_t live = SAMPLE_LIVE;

	if (!__atomic_compare_exchange_n(&s->state, &live,
		defers          ? SAMPLE_WAITING
		: s->is_guarded ? SAMPLE_FREED
				: SAMPLE_NONE,
		false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		misuse(api, s->block, "block freed twice");
	probe_fire(otel_memory, free, s->block);
	if (defers || s->is_guarded)
		record_note_free(s);
	return s;
}

static void
sample_release(struct sample *s)
{
	record_count_free(s);
	if (s->is_guarded)
		sample_release_guarded(s);
	else
		sample_release_unguarded(s);
}

void
sample_free(uint32_t index, const char *api)
{
	sample_release(sample_end_life(index, api, /* defers */ false));
}

void
sample_drop(void *block)
{
	sample_free(page_map_sample_index(page_map_owner(block)), "");
}

void
sample_free_object(uint32_t index, void *object, const char *api)
{
	struct sample *s = record_at(index);
	struct umem_cache *cache = s->cache;

	if (unlikely(object != s->block))
		misuse_slab(api, cache, object, SLAB_INTERIOR);
	s = sample_end_life(index, api, /* defers */ false);
	if (cache->destruct != NULL && !load_relaxed(&cache->destroyed))
		cache->destruct(s->block, cache->priv);
	sample_release(s);
}

void
sample_defer(uint32_t index, const char *api)
{
	sample_end_life(index, api, /* defers */ true);
}

void
sample_free_deferred(uint32_t index)
{
	struct sample *s = record_at(index);

	umem_assert(sample_state(s) == SAMPLE_WAITING);
	store_release(&s->state, s->is_guarded ? SAMPLE_FREED : SAMPLE_NONE);
	sample_release(s);
}

void
sample_defer_undo(uint32_t index)
{
	struct sample *s = record_at(index);

	umem_assert(sample_state(s) == SAMPLE_WAITING);
	stack_set(&s->freed_stack, NULL);
	/* Release: the caller may pass the block to another thread. */
	store_release(&s->state, SAMPLE_LIVE);
}

bool
sample_is_deferred(uint32_t index)
{
	return sample_state(record_at(index)) == SAMPLE_WAITING;
}

size_t
sample_guarded_count(void)
{
	return load_relaxed(&nguarded);
}

static void
sampling_set_mean(size_t bytes)
{
	__atomic_store_n(&sampling.mean, bytes, __ATOMIC_SEQ_CST);
	sample_engine.choose_paths();
}

bool
sample_start(void)
{
	sampling.is_allowed = !debug.on && !checker_on;
	sample_count_start();
	if (sampling.is_allowed && sample_wanted != 0)
		sampling_set_mean(sample_wanted);
	else if (sample_wanted != 0)
		message_line("sample: off, since every block is checked");
	return true;
}

/* umem_sample() and the command umem change the mean alone. */
void
sample_refresh_option(void)
{
	store_relaxed(&sample_wanted, load_relaxed(&sampling.mean));
}

public int
umem_sample(size_t bytes)
{
	if (!umem_ready())
		return fail_int(EAGAIN);
	if (!sampling.is_allowed)
		return fail_int(ENOTSUP);
	if (bytes != 0)
		store_relaxed(&sample_sums_reset, 1);
	sampling_set_mean(bytes);
	return 0;
}

DESCRIBE(DESCRIBED_SAMPLES);
