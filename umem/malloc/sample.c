/*
 * sample.c - heap profiling by samples, one in about N bytes allocated
 *
 * A few of a program's blocks are enough to find out in production which code
 * uses its memory.  If each byte requested has the same small probability of
 * being sampled, the samples represent all blocks: a stack that has a tenth of
 * the samples has a tenth of the memory.
 *
 * Counting
 *	The distance from one sample to the next, in bytes requested, is drawn
 *	from an exponential distribution with the mean N.  This distribution has
 *	no memory: from any byte on, the rest of the distance has the
 *	distribution of a whole one.  So a thread need not finish a distance.
 *	It counts down an interval of at most STRETCH bytes.  At the end of the
 *	interval it takes a sample if one is due, and then draws again.
 *	Therefore every thread soon uses a changed N, after one sample at most,
 *	and one sample in a large block does not hide another.
 *	A block of s bytes is sampled with the probability 1 - exp(-s/N), and
 *	represents as many blocks as the inverse of it; the tool computes that.
 *	While sampling is off, nothing is counted: small sizes stay on the fast
 *	path.  While it is on, alloc_fast.small_end is 0; alloc_slow() counts
 *	and then does the work of the fast path.
 *
 * Memory of a sample
 *	A sample is a large block, even if it is small: a span of whole units,
 *	which the free paths leave to free_block() without a further test.  The
 *	owner in the address map contains the number of its record.  The
 *	records are in a table of ADDR_SAMPLES.  When the table is full, no
 *	more samples are taken, and nlost counts them.
 *	    A sample that fits into a unit uses a unit that its record keeps
 *	(sample_unit.c).  The memory of the unit is released when the sample is
 *	freed.  So a sample takes one small page for each page of its size, and
 *	not 64 KiB.  The address space of as many units as there were samples
 *	at one time is not returned.
 *	    One sample in GUARD_EVERY uses a slot (sample_slot.c) if it fits: it
 *	ends at a guard page, and its own pages become inaccessible when it is
 *	freed.  Its record keeps both stacks until the slot is used again.  If
 *	there is no slot, it is a sample like the others.
 *	    Objects of caches are not sampled, because they are constructed and
 *	belong to slabs.  Nothing is sampled when every block is checked: by
 *	UMEM_DEBUG, UMEM_OPTIONS=hardened, or a checker such as valgrind.
 *
 * On and off
 *	mean and counted_end (of sampling) and small_end (of alloc_fast) change
 *	one after the other, and a thread may read any mixture of old and new
 *	values:
 *	small_end set		Nothing is counted, as when sampling is off.
 *	0, counted_end set	Sizes are counted.  At the end of its interval
 *				a thread reads mean; 0 means no sample.
 *	both 0			class_alloc() runs the section, which is
 *				correct, but slower.
 *	So every order of stores is correct.  counted_end is set only where
 *	sections run.  The umem command writes these words from outside while
 *	all threads are stopped.  If it stopped a thread that was about to store
 *	them, alloc_choose_paths() reads mean again after its stores.
 *
 * Locking
 *	sample_lock guards the table and the list of free records.  It is a
 *	leaf.  A record belongs to the owner of its block.  Threads change its
 *	state by compare-and-swap, so if two threads free one block, one of them
 *	is told.
 */
#include <errno.h>

#include "umem/base/addr_map.h"
#include "umem/malloc/alloc.h"
#include "umem/base/checker.h"
#include "umem/debug/debug.h"
#include "umem/base/ready.h"
#include "umem/base/large.h"
#include "umem/cache/misuse.h"
#include "umem/malloc/sample.h"
#include "umem/malloc/sample_slot.h"
#include "umem/malloc/sample_unit.h"
#include "umem/debug/stack.h"
#include "umem/debug/symbol.h"
#include "vmem/describe.h"
#include "vmem/lock.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/* A thread uses a changed mean after at most so many bytes. */
#define STRETCH (256 * KIB)

/* One sample of so many uses a slot. */
#define GUARD_EVERY 32

/*
 * Step of the offsets of samples in their pages, in bytes.  Without it, samples
 * would compete for the same sets of each hardware cache.
 */
#define COLOUR 64

struct sampling sampling;
size_t sample_wanted;
__thread struct sample_count sample_count
    __attribute__((tls_model("initial-exec")));

static struct lock sample_lock = LOCK_INITIALIZER(LOCK_SAMPLE);
static struct sample **samples; /* [a] the table; number 0 is unused */
static uint32_t nsamples;       /* [sample_lock] records created */
static uint32_t free_sample;    /* [sample_lock] chain by next; 0: none */
static uint64_t ntaken;         /* [a] samples, cumulative */
static uint64_t nlost;          /* [a] samples not taken: no record or memory */
static size_t slack;            /* [a] bytes: see sample_slack() */
static size_t nguarded, guarded_bytes;       /* [a] live in slots */
static struct sample *of_slot[SAMPLE_SLOTS]; /* each slot's record; permanent */

static uint64_t draws; /* [a] state of the generator; 0: no seed yet */

static uint64_t
draw_bits(void)
{
	if (unlikely(__atomic_load_n(&draws, __ATOMIC_RELAXED) == 0))
		__atomic_store_n(&draws, os_random() | 1, __ATOMIC_RELAXED);
	return mix64(__atomic_add_fetch(&draws, MIX64_STEP, __ATOMIC_RELAXED));
}

/*
 * Returns -ln(u) of a number u that is uniform over (0, 1] and given by random
 * bits: u is 2^-k * m with 1 <= m < 2, and ln m is 2 atanh((m - 1) / (m + 1)).
 */
static double
minus_log(uint64_t bits)
{
	unsigned k = bits == 0 ? 64 : 63 - highbit(bits);
	uint64_t fraction = bits == 0 ? 0 : bits << k & INT64_MAX;
	double m = 1 + (double)fraction / 0x1p63;
	double z = (m - 1) / (m + 1), zz = z * z;
	double series =
	    1 + zz * (1. / 3 + zz * (1. / 5 + zz * (1. / 7 + zz * (1. / 9))));

	return (k + 1) * 0.69314718055994531 - 2 * z * series;
}

/*
 * Draws the distance in bytes to the next sample, that byte included.  A mean
 * of 1 samples every block.
 */
static uint64_t
draw_distance(uint64_t mean)
{
	double d = minus_log(draw_bits()) * (double)mean;

	if (mean == 1)
		return 1;
	return d < 0x1p60 ? (uint64_t)d + 1 : (uint64_t)1 << 60;
}

static void
stretch_begin(uint64_t distance)
{
	sample_count.due = distance <= STRETCH;
	sample_count.left =
	    (int32_t)(sample_count.due ? distance : (uint64_t)STRETCH);
}

/*
 * Decides whether a block of size bytes is a sample.  The first before - 1
 * bytes of it belong to the old interval.
 */
static bool
pass(uint64_t before, uint64_t size)
{
	size_t mean = __atomic_load_n(&sampling.mean, __ATOMIC_RELAXED);
	uint64_t distance;

	if (mean == 0) {
		stretch_begin(STRETCH + 1);
		return false;
	}
	if (size < before) {
		sample_count.left = (int32_t)(before - size);
		return false;
	}
	/* A new thread has before 0, and no sample is due. */
	if (!sample_count.due) {
		distance = draw_distance(mean);
		size -= before;
		if (distance > size) {
			stretch_begin(distance - size);
			return false;
		}
	}
	stretch_begin(draw_distance(mean));
	return true;
}

bool
sample_ran_out(size_t size)
{
	return pass(
	    (uint64_t)((int64_t)sample_count.left + (int64_t)size), size);
}

bool
sample_is_due(size_t size)
{
	return pass((uint64_t)sample_count.left, size);
}

static struct sample **
the_table(void)
{
	struct sample **made = __atomic_load_n(&samples, __ATOMIC_ACQUIRE);
	struct sample **none = NULL;
	size_t bytes = ADDR_SAMPLES * sizeof(*made);

	if (likely(made != NULL))
		return made;
	made = meta_alloc_spare(bytes);
	if (made == NULL || __atomic_compare_exchange_n(&samples, &none, made,
				false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return made;
	meta_free(made, bytes);
	return none;
}

static struct sample *
sample_at(uint32_t index)
{
	return __atomic_load_n(&samples, __ATOMIC_ACQUIRE)[index];
}

/* Takes a record from the free list; NULL: the list is empty. */
static struct sample *
record_again(void)
{
	struct sample *s = NULL;

	lock_take(&sample_lock);
	if (free_sample != 0) {
		s = samples[free_sample];
		free_sample = s->next;
	}
	lock_release(&sample_lock);
	return s;
}

static struct sample *
record_new(bool guarded)
{
	uint32_t n = debug.nframes;
	size_t bytes =
	    sizeof(struct sample) + (guarded ? 2 : 1) * n * sizeof(uintptr_t);
	struct sample **table = the_table();
	struct sample *s = table == NULL ? NULL : meta_alloc_spare(bytes);

	if (s == NULL)
		return NULL;
	s->nframes = n;
	s->guarded = guarded;
	lock_take(&sample_lock);
	if (nsamples < ADDR_SAMPLES - 1)
		s->index = ++nsamples;
	if (s->index != 0)
		__atomic_store_n(&table[s->index], s, __ATOMIC_RELEASE);
	lock_release(&sample_lock);
	if (s->index != 0)
		return s;
	meta_free(s, bytes);
	return NULL;
}

static void
record_put(struct sample *s)
{
	lock_take(&sample_lock);
	s->next = free_sample;
	free_sample = s->index;
	lock_release(&sample_lock);
}

static void
record_fill(struct sample *s, void *at, void *span, size_t size)
{
	s->at = at;
	s->span = span;
	s->size = size;
	s->mean = __atomic_load_n(&sampling.mean, __ATOMIC_RELAXED);
	s->time = os_exact_ns();
	s->thread = stack_thread();
	s->depth = (uint16_t)stack_trace(s->stack, s->nframes);
	s->freed_depth = 0;
}

/* Returns how many bytes the pages of a sample are fewer than its span. */
static size_t
slack_of(const struct sample *s)
{
	size_t bytes = addr_map_large_bytes(addr_map_owner(s->span));
	size_t used = (size_t)((char *)s->at - s->span) + s->size;

	return bytes - align_up(used, os_page_size());
}

/* Makes the block a sample, for the library and for the umem command. */
static void *
publish(struct sample *s, size_t bytes)
{
	__atomic_store_n(&s->state, SAMPLE_LIVE, __ATOMIC_RELEASE);
	addr_map_sample(s->span, bytes, s->at, s->index);
	__atomic_add_fetch(&ntaken, 1, __ATOMIC_RELAXED);
	return s->at;
}

/*
 * Returns the alignment that malloc() guarantees for this size.  The end of a
 * slot is a multiple of it.
 */
static size_t
least_align(size_t size)
{
	return size >= 16 ? 16 : 8;
}

static void *
take_guarded(size_t size, size_t align)
{
	struct sample *s;
	char *at, *end;
	int slot;

	if (align < least_align(size))
		align = least_align(size);
	if (size > sample_slot_most() || align > os_page_size())
		return NULL;
	slot = sample_slot_take(align_up(size, align));
	if (slot < 0)
		return NULL;
	s = of_slot[slot];
	if (s == NULL)
		s = of_slot[slot] = record_new(/* guarded */ true);
	if (s == NULL) {
		sample_slot_put(slot);
		return NULL;
	}
	__atomic_store_n(&s->state, SAMPLE_NONE, __ATOMIC_RELEASE);
	s->next = (uint32_t)slot;
	end = sample_slot_end(slot);
	at = end - align_up(size, align);
	record_fill(s, at, end - sample_slot_most(), size);
	__atomic_add_fetch(&nguarded, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&guarded_bytes, size, __ATOMIC_RELAXED);
	return publish(s, sample_slot_bytes());
}

static size_t
colour_of(size_t size, size_t align)
{
	size_t page = os_page_size();

	if (align > COLOUR || size > page / 2)
		return 0;
	return align_down(draw_bits() % (page - size + 1), COLOUR);
}

/* Registers the record's unit as a large block. */
static char *
take_unit(struct sample *s)
{
	if (s->unit == NULL)
		s->unit = sample_unit_take(HEAP_UNIT);
	if (s->unit != NULL)
		large_adopt(s->unit, HEAP_UNIT);
	return s->unit;
}

/*
 * Purges the span behind the used bytes, because a span from the heap may have
 * resident pages; a sample shall have only its own.
 */
static void
purge_tail(char *span, size_t used)
{
	size_t pages = align_up(used, os_page_size());
	size_t bytes = align_up(used, HEAP_UNIT);

	if (span != NULL && bytes > pages)
		os_purge(span + pages, bytes - pages);
}

static void *
take_plain(size_t size, size_t align, bool *zeroed)
{
	size_t colour = colour_of(size, align);
	struct sample *s = record_again();
	char *span = NULL;

	if (s == NULL)
		s = record_new(/* guarded */ false);
	if (s == NULL)
		return NULL;
	if (size + colour <= HEAP_UNIT && align <= HEAP_UNIT)
		span = take_unit(s);
	if (span == NULL) {
		span = large_alloc(size + colour,
		    align < HEAP_UNIT ? HEAP_UNIT : align, zeroed);
		purge_tail(span, size + colour);
	}
	if (span == NULL) {
		record_put(s);
		return NULL;
	}
	record_fill(s, span + colour, span, size);
	__atomic_add_fetch(&slack, slack_of(s), __ATOMIC_RELAXED);
	return publish(s, addr_map_large_bytes(addr_map_owner(span)));
}

void *
sample_take(size_t size, size_t align, bool *zeroed)
{
	void *p = NULL;

	*zeroed = false;
	if (size > PTRDIFF_MAX / 2)
		return NULL;
	if (draw_bits() % GUARD_EVERY == 0)
		p = take_guarded(size, align);
	if (p == NULL)
		p = take_plain(size, align, zeroed);
	if (p == NULL)
		__atomic_add_fetch(&nlost, 1, __ATOMIC_RELAXED);
	return p;
}

static void
say_stack(const char *what, uint64_t thread, uint64_t ago,
    const uintptr_t *stack, unsigned depth)
{
	say("%s by thread %lu, %lu.%lu s ago:", what, thread, ago / 1000000000,
	    ago / 100000000 % 10);
	for (unsigned i = 0; i < depth; i++) {
		struct message m;

		m.n = 0;
		message_text(&m, "umem:     ");
		symbol_text(&m, stack[i]);
		message_text(&m, "\n");
		message_send(&m);
		if (message_sink != NULL)
			message_sink(m.text, m.n);
	}
}

static uint32_t
state_of(const struct sample *s)
{
	return __atomic_load_n(&s->state, __ATOMIC_ACQUIRE);
}

/* Reports the misuse like misuse.c, with the stacks and threads known. */
static _Noreturn void
report_freed(const struct sample *s, const char *who)
{
	uint64_t now = os_exact_ns();

	say("%s(%p): block freed twice%s", who, s->at,
	    state_of(s) == SAMPLE_WAITING ? MISUSE_WAITS : "");
	say_stack("allocated", s->thread, now - s->time, s->stack, s->depth);
	say_stack("freed", s->freed_thread, now - s->freed_time,
	    s->stack + s->nframes, s->freed_depth);
	os_abort();
}

/* Returns the record of a live block; aborts if the block was freed. */
static struct sample *
sample_live(uint32_t index, const char *who)
{
	struct sample *s = sample_at(index);
	uint32_t state = state_of(s);

	if (unlikely(state == SAMPLE_FREED || state == SAMPLE_WAITING))
		report_freed(s, who);
	return s;
}

size_t
sample_size(uint32_t index)
{
	return sample_at(index)->size;
}

/*
 * Returns no more than an ordinary block of this size would have, so that
 * realloc() moves a sample as often.
 */
size_t
sample_usable(uint32_t index, const char *who)
{
	struct sample *s = sample_live(index, who);
	size_t bytes = addr_map_large_bytes(addr_map_owner(s->span));
	size_t room = (size_t)(s->span + bytes - (char *)s->at);
	unsigned class = size_class_of(s->size);

	if (s->guarded)
		room -= os_page_size();
	if (class != 0 && size_classes.bytes[class] < room)
		return size_classes.bytes[class];
	return room;
}

/*
 * Updates the slack together with the size, so that the free subtracts the
 * amount that was added.
 */
void
sample_stays(uint32_t index, size_t size)
{
	struct sample *s = sample_at(index);

	if (s->guarded) {
		__atomic_add_fetch(
		    &guarded_bytes, size - s->size, __ATOMIC_RELAXED);
		s->size = size;
		return;
	}
	__atomic_sub_fetch(&slack, slack_of(s), __ATOMIC_RELAXED);
	s->size = size;
	__atomic_add_fetch(&slack, slack_of(s), __ATOMIC_RELAXED);
}

void *
sample_resize(uint32_t index, size_t size)
{
	struct sample *s = sample_at(index);
	size_t bytes = addr_map_large_bytes(addr_map_owner(s->span));
	void *span;

	__atomic_sub_fetch(&slack, slack_of(s), __ATOMIC_RELAXED);
	/*
	 * Make it an ordinary large block meanwhile.  Both start where their
	 * span starts.
	 */
	addr_map_large(s->span, bytes);
	span = large_resize(s->span, bytes, size);
	if (span != NULL) {
		record_fill(s, span, span, size);
		bytes = addr_map_large_bytes(addr_map_owner(span));
	}
	addr_map_sample(s->span, bytes, s->at, index);
	__atomic_add_fetch(&slack, slack_of(s), __ATOMIC_RELAXED);
	return span;
}

/*
 * Records the freeing thread, and its stack if the sample is guarded; other
 * records have no capacity for a second stack.
 */
static void
note_free(struct sample *s)
{
	s->freed_time = os_exact_ns();
	s->freed_thread = stack_thread();
	if (s->guarded)
		s->freed_depth =
		    (uint16_t)stack_trace(s->stack + s->nframes, s->nframes);
}

static void
free_guarded(struct sample *s)
{
	int slot = (int)s->next;

	__atomic_sub_fetch(&nguarded, 1, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&guarded_bytes, s->size, __ATOMIC_RELAXED);
	sample_slot_close(slot);
	sample_slot_put(slot);
}

static void
free_plain(struct sample *s)
{
	size_t bytes = addr_map_large_bytes(addr_map_owner(s->span));
	char *span = s->span;

	__atomic_sub_fetch(&slack, slack_of(s), __ATOMIC_RELAXED);
	if (span == s->unit) {
		large_forget(span, bytes);
		os_purge(span, HEAP_UNIT);
	} else {
		large_free(span, bytes);
	}
	record_put(s);
}

/* Moves a live sample to another state; aborts if it is not live. */
static struct sample *
sample_claim(uint32_t index, const char *who, bool waits)
{
	struct sample *s = sample_live(index, who);
	uint32_t live = SAMPLE_LIVE;

	if (!__atomic_compare_exchange_n(&s->state, &live,
		waits        ? SAMPLE_WAITING
		: s->guarded ? SAMPLE_FREED
			     : SAMPLE_NONE,
		false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		misuse(who, s->at, "block freed twice");
	return s;
}

static void
sample_end(struct sample *s)
{
	if (s->guarded)
		free_guarded(s);
	else
		free_plain(s);
}

void
sample_free(uint32_t index, const char *who)
{
	struct sample *s = sample_claim(index, who, /* waits */ false);

	if (s->guarded)
		note_free(s);
	sample_end(s);
}

void
sample_defer(uint32_t index, const char *who)
{
	note_free(sample_claim(index, who, /* waits */ true));
}

void
sample_free_deferred(uint32_t index)
{
	struct sample *s = sample_at(index);

	__atomic_store_n(&s->state, s->guarded ? SAMPLE_FREED : SAMPLE_NONE,
	    __ATOMIC_RELEASE);
	sample_end(s);
}

void
sample_defer_undo(uint32_t index)
{
	struct sample *s = sample_at(index);

	s->freed_depth = 0;
	/* Release: the caller may pass the block to another thread. */
	__atomic_store_n(&s->state, SAMPLE_LIVE, __ATOMIC_RELEASE);
}

bool
sample_waits(uint32_t index)
{
	return state_of(sample_at(index)) == SAMPLE_WAITING;
}

size_t
sample_slack(void)
{
	return __atomic_load_n(&slack, __ATOMIC_RELAXED);
}

size_t
sample_guarded(size_t *bytes)
{
	*bytes = __atomic_load_n(&guarded_bytes, __ATOMIC_RELAXED);
	return __atomic_load_n(&nguarded, __ATOMIC_RELAXED);
}

static void
set_mean(size_t bytes)
{
	__atomic_store_n(&sampling.mean, bytes, __ATOMIC_SEQ_CST);
	alloc_choose_paths();
}

void
sample_start(void)
{
	sampling.able = !debug.on && !checker_on;
	if (sampling.able && sample_wanted != 0)
		set_mean(sample_wanted);
	else if (sample_wanted != 0)
		say("sample: off, since every block is checked");
}

public int
umem_sample(size_t bytes)
{
	if (!umem_ready()) {
		errno = EAGAIN;
		return -1;
	}
	if (!sampling.able) {
		errno = ENOTSUP;
		return -1;
	}
	set_mean(bytes);
	return 0;
}

void
sample_lock_for_fork(void)
{
	sample_slot_lock_for_fork();
	lock_take_for_fork(&sample_lock);
	sample_unit_lock_for_fork();
}

void
sample_unlock_for_fork(void)
{
	sample_unit_unlock_for_fork();
	lock_release_for_fork(&sample_lock);
	sample_slot_unlock_for_fork();
}

void
sample_after_fork(void)
{
	draws ^= (uint64_t)os_process_id() << 32;
}

#define MEMBER(member) DESCRIBE_MEMBER("sample", struct sample, member)

DESCRIBE_TABLE(described) = {
    DESCRIBE_VARIABLE(alloc_fast),
    DESCRIBE_MEMBER("alloc_fast", struct alloc_fast, small_end),
    DESCRIBE_MEMBER("alloc_fast", struct alloc_fast, units),
    DESCRIBE_CONSTANT(SIZE_SMALL),
    DESCRIBE_VARIABLE(sampling),
    DESCRIBE_VARIABLE(samples),
    DESCRIBE_VARIABLE(nsamples),
    DESCRIBE_VARIABLE(ntaken),
    DESCRIBE_VARIABLE(nlost),
    DESCRIBE_CONSTANT(SAMPLE_LIVE),
    DESCRIBE_CONSTANT(SAMPLE_FREED),
    DESCRIBE_CONSTANT(SAMPLE_WAITING),
    DESCRIBE_BYTES("sample", struct sample),
    DESCRIBE_MEMBER("sampling", struct sampling, mean),
    DESCRIBE_MEMBER("sampling", struct sampling, able),
    DESCRIBE_MEMBER("sampling", struct sampling, counted_end),
    MEMBER(at),
    MEMBER(span),
    MEMBER(size),
    MEMBER(mean),
    MEMBER(time),
    MEMBER(thread),
    MEMBER(freed_time),
    MEMBER(freed_thread),
    MEMBER(state),
    MEMBER(depth),
    MEMBER(freed_depth),
    MEMBER(guarded),
    MEMBER(nframes),
    MEMBER(stack[0]),
};
