/*
 * heap_purge.c - the states of the heap's units, and purges of free units
 *
 * One byte for each unit describes a free unit:
 *	STATE_CLEAN	clean: reads as zeros, has no memory
 *	1 .. 125	dirty; the number is the epoch at which it was freed
 *	STATE_AWAY	clean, and not committed
 *	STATE_PURGING	a thread is purging the unit
 *	STATE_WHOLE |	the first unit of a group: the whole group is dirty
 *	    epoch	since that epoch, and its other states are STATE_CLEAN
 * An allocated unit has STATE_CLEAN, too: heap_free() stores the epoch before
 * it frees the unit to the arena, and heap_alloc() clears the state after it
 * has allocated the unit from the arena.  A thread that reads an epoch may
 * therefore set STATE_PURGING and purge the unit.  The unit is either free, or
 * allocated by a heap_alloc() that has not cleared the state yet.  In the
 * second case heap_alloc() waits for the end of the purge before it returns the
 * unit to a caller that could write to it.  This needs no lock, and the only
 * thread that waits for a purge is the thread that has allocated the unit.
 *
 * A purge calls madvise() of libc, which the program may have replaced (os.c)
 * by a function that allocates, or waits for a thread that does.  Therefore the
 * wait has a limit, the purging thread itself does not wait, and both then
 * allocate units that were never dirty, which no thread purges.
 *
 * The states of units from nmarked on are not read, because most processes end
 * before they free a unit, and then have no page of the table.  A thread raises
 * nmarked before it stores the states of a block and frees it to the arena, and
 * the lock of the arena orders this before the next allocation of the units.
 *
 * A large block has many units, so the free of a whole group of GROUP_UNITS
 * units stores one state.  A thread that purges the group, or has allocated a
 * part of it, first splits it: it stores the epoch in every unit.  A thread
 * that has allocated the whole group clears the one state.  Both hold
 * heap_lock, so a group is split or cleared once, and no group is half split
 * when the process forks.  The splitting thread stores the first state last: a
 * thread that reads another value there finds the states of its own units.
 *
 * If the kernel charges all writable memory, a window of WINDOW_UNITS units is
 * decommitted when the last of them has been purged, and the free end of the
 * heap is released.  The purging thread first allocates the window from the
 * arena, so no other thread has a block there.  heap_states_clear() commits the
 * units of a block that are STATE_AWAY.
 *
 * The search order of the arena is enough to prefer dirty units to clean ones:
 * instant fit examines the latest freed segments first.  The clean rest of the
 * window is the largest segment and is therefore used last.
 *
 * Locking: the states are atomic; heap_lock guards the end of their committed
 * table, and a STATE_WHOLE once it is stored.
 */
#include <errno.h>

#include "vmem/describe.h"
#include "vmem/described.h"
#include "vmem/account.h"
#include "vmem/heap_inner.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/probe.h"

/*
 * An epoch is 2^27 ns, 134 ms.  A byte counts 17 s of them, and the oldest age
 * that a purge can ask for is half of that; the ages in update.c are at most
 * 1 s, or the time since the last activity, for which 8 s are as good as more.
 */
#define EPOCH_SHIFT   27
#define EPOCHS        125
#define STATE_CLEAN   0 /* or allocated */
#define STATE_AWAY    126
#define STATE_PURGING 127
#define STATE_WHOLE   128
#define GROUP_UNITS   ((size_t)64)
#define PURGE_UNITS   64 /* most units for one call of os_purge() */
#define WINDOW_UNITS  ((size_t)32)

static uint8_t *states;      /* [atomic] state of each unit */
static size_t nmarked;       /* [atomic] units from here on were never dirty */
static uintptr_t states_end; /* [heap_lock] end of committed states */
static size_t ndirty;        /* [atomic] units with an epoch */
static size_t nallocated;    /* [atomic] units allocated, cumulative */
static size_t
    nallocated_clean;       /* [atomic] units of nallocated that were clean */
static uint32_t purge_word; /* [atomic] counts purges; futex word */
static bool purge_is_stuck; /* [atomic] no thread waits for purges */

bool
heap_states_start(void)
{
	if (states == NULL)
		states = os_reserve_zeros(
		    align_up(heap_window.units, os_page_size()));
	return states != NULL;
}

bool
heap_states_commit_locked(uintptr_t end)
{
	lock_assert_held(&heap_lock);

	size_t page = os_page_size();
	uintptr_t want = align_up(
	    (uintptr_t)states + ((end - heap_window.base) >> HEAP_UNIT_SHIFT),
	    page);
	uintptr_t from = states_end == 0 ? (uintptr_t)states : states_end;

	if (want <= from)
		return true;
	if (!os_commit((void *)from, want - from) ||
	    (heap_node_of != NULL &&
		!os_commit(
		    heap_node_of + (from - (uintptr_t)states), want - from)))
		return false;
	account_add(&account.tables, want - from);
	states_end = want;
	return true;
}

static size_t
unit_index(const void *at)
{
	return ((uintptr_t)at - heap_window.base) >> HEAP_UNIT_SHIFT;
}

static inline char *
unit_address(size_t i)
{
	return (char *)heap_window.base + (i << HEAP_UNIT_SHIFT);
}

#define ALL_BYTES(x) ((x) * (uint64_t)0x0101010101010101)

static inline uint64_t *
word_of(size_t i)
{
	umem_assert(i % 8 == 0);
	return (uint64_t *)(void *)(states + i);
}

/* Do the states from i on, up to end, begin with a whole word? */
static inline bool
is_word(size_t i, size_t end)
{
	return i % 8 == 0 && end - i >= 8;
}

static inline bool
is_clean(uint8_t state)
{
	return state == STATE_CLEAN || state == STATE_AWAY;
}

/* Do the states from i on, up to end, begin with a word that is all clean? */
static inline bool
is_clean_word(size_t i, size_t end)
{
	uint64_t word;

	if (!is_word(i, end))
		return false;
	word = load_acquire(word_of(i));
	return word == 0 || word == ALL_BYTES(STATE_AWAY);
}

/* The bits of the bytes from from on, up to to, of a word in memory. */
static inline uint64_t
byte_mask(size_t from, size_t to)
{
	uint64_t all = ~(uint64_t)0;
	size_t others = 64 - 8 * (to - from);

	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
		   ? all >> others << 8 * from
		   : all << others >> 8 * from;
}

/*
 * Clear the states of allocated units from i on, up to end, that are in one
 * word, if all of them are clean or dirty.  Adds the number of those that were
 * dirty.  Returns the first unit behind them, or i if a state is another one.
 *
 * A purge may mark one of these units meanwhile, and other threads may change
 * the states of their own units in the word.  The compare-and-swap then fails,
 * and the word is examined again.  If it succeeds, it writes to the other bytes
 * what it has read, so no store is lost, and no unit of ours is being purged.
 */
static inline size_t
word_clear(size_t i, size_t end, size_t *nwere)
{
	size_t from = i % 8, to = size_min(end - (i - from), 8);
	uint64_t *word = word_of(i - from), was = load_acquire(word);
	uint64_t ours = byte_mask(from, to), dirty;

	do {
		dirty = was & ours;
		/* The high bit of each byte from STATE_AWAY on. */
		if (unlikely(((dirty | (dirty + ALL_BYTES(128 - STATE_AWAY))) &
				 ALL_BYTES(128)) != 0))
			return i;
	} while (
	    dirty != 0 && !__atomic_compare_exchange_n(word, &was, was & ~ours,
			      true, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE));
	/* 1 for each byte that is not 0. */
	dirty = ((dirty + ALL_BYTES(127)) & ALL_BYTES(128)) >> 7;
	*nwere += ALL_BYTES(dirty) >> 56;
	return i - from + to;
}

/*
 * Wait until a unit is not being purged, and return its state then.  Returns
 * STATE_PURGING if it still is.
 */
static uint8_t
purge_await(const uint8_t *state)
{
	uint64_t from = os_now_ns();

	for (;;) {
		uint32_t word = load_acquire(&purge_word);
		uint8_t is = load_acquire(state);

		if (is != STATE_PURGING || os_is_taking() ||
		    load_relaxed(&purge_is_stuck))
			return is;
		os_futex_wait(&purge_word, word, POLL_NS);
		/* A function of the program that the purge calls waits. */
		if (os_now_ns() - from >= PROGRAM_WAIT_NS)
			store_relaxed(&purge_is_stuck, true);
	}
}

/* The first unit up to end whose state, and all above, need not be read. */
static size_t
first_unmarked(size_t end)
{
	return size_min(end, load_relaxed(&nmarked));
}

uintptr_t
heap_states_end(void)
{
	return heap_window.base + (load_relaxed(&nmarked) << HEAP_UNIT_SHIFT);
}

/* The state of the first unit of the group that contains unit i. */
static inline uint8_t *
group_state(size_t i)
{
	return &states[align_down(i, GROUP_UNITS)];
}

/* Is the group that contains unit i dirty as a whole? */
static inline bool
group_is_whole(size_t i)
{
	return (load_acquire(group_state(i)) & STATE_WHOLE) != 0;
}

/* Do the units from i on, up to end, begin with a whole group? */
static inline bool
is_group(size_t i, size_t end)
{
	return i % GROUP_UNITS == 0 && end - i >= GROUP_UNITS;
}

/* Store the epoch of the group that contains unit i in each of its units. */
static void
group_split(size_t i)
{
	uint8_t *first = group_state(i);
	uint64_t *words = (uint64_t *)(void *)first;

	lock_take(&heap_lock);
	if (group_is_whole(i)) {
		uint64_t epochs = ALL_BYTES(load_relaxed(first) % STATE_WHOLE);

		for (size_t j = GROUP_UNITS / 8; j-- > 0;)
			store_release(&words[j], epochs);
	}
	lock_release(&heap_lock);
}

/*
 * Clear the states of the groups from unit i on, up to end, that are dirty as a
 * whole.  Returns the first unit behind them.
 */
static size_t
groups_clear(size_t i, size_t end)
{
	lock_take(&heap_lock);
	for (; is_group(i, end) && group_is_whole(i); i += GROUP_UNITS)
		store_relaxed(group_state(i), STATE_CLEAN);
	lock_release(&heap_lock);
	return i;
}

/*
 * Commit the units from i on, up to end, that are STATE_AWAY.  Returns their
 * number, or 0 if there are none or the kernel refuses.
 */
static size_t
units_commit(size_t i, size_t end)
{
	size_t n = 0;

	while (i + n < end && load_acquire(&states[i + n]) == STATE_AWAY)
		n++;
	if (likely(n == 0) || !os_commit(unit_address(i), n << HEAP_UNIT_SHIFT))
		return 0;
	for (size_t j = i; j < i + n; j++)
		store_relaxed(&states[j], STATE_CLEAN);
	return n;
}

/*
 * Clear the states of allocated units from i on, at least up to the end of
 * their group, and add the number of those that were dirty.  Returns the unit
 * behind the last state that is clear, which is i if its purge does not end or
 * it cannot be committed.
 */
static size_t
units_clear(size_t i, size_t end, size_t *nwere)
{
	if (unlikely(group_is_whole(i))) {
		size_t behind = groups_clear(i, end);

		if (behind != i) {
			*nwere += behind - i;
			return behind;
		}
		group_split(i);
	}
	end = size_min(end, align_down(i, GROUP_UNITS) + GROUP_UNITS);
	while (i < end) {
		size_t behind = word_clear(i, end, nwere), n;

		if (unlikely(behind == i))
			behind = word_clear(i, i + 1, nwere);
		if (likely(behind != i)) {
			i = behind;
			continue;
		}
		n = units_commit(i, end);
		if (n == 0 && purge_await(&states[i]) >= STATE_AWAY)
			break;
		i += n;
	}
	return i;
}

bool
heap_states_clear(void *at, size_t bytes, bool *zeroed)
{
	size_t first = unit_index(at);
	size_t n = bytes >> HEAP_UNIT_SHIFT;
	size_t end = first_unmarked(first + n);
	size_t nwere = 0, i = first, next;

	for (; i < end; i = next) {
		next = units_clear(i, end, &nwere);
		if (unlikely(next == i))
			break;
	}
	if (nwere != 0)
		sub_relaxed(&ndirty, nwere);
	if (unlikely(i < end)) {
		heap_states_mark(at, (i - first) << HEAP_UNIT_SHIFT);
		return false;
	}
	add_relaxed(&nallocated, n);
	if (nwere != n)
		add_relaxed(&nallocated_clean, n - nwere);
	*zeroed = nwere == 0;
	return true;
}

static uint8_t
epoch_now(void)
{
	return (uint8_t)((os_now_ns() >> EPOCH_SHIFT) % EPOCHS + 1);
}

bool
heap_states_are_clean(uintptr_t from, uintptr_t to)
{
	size_t end = first_unmarked(unit_index((void *)to));
	size_t i = unit_index((void *)from);

	if (i < end && group_is_whole(i))
		return false;
	while (i < end)
		if (is_clean_word(i, end))
			i += 8;
		else if (!is_clean(load_acquire(&states[i++])))
			return false;
	return true;
}

static void
marked_raise(size_t end)
{
	size_t n = load_relaxed(&nmarked);

	while (n < end && !__atomic_compare_exchange_n(&nmarked, &n, end, true,
			      __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		continue;
}

void
heap_states_mark(void *at, size_t bytes)
{
	size_t first = unit_index(at);
	size_t n = bytes >> HEAP_UNIT_SHIFT;
	uint8_t epoch = epoch_now();

	umem_assert((((uintptr_t)at | bytes) & (HEAP_UNIT - 1)) == 0);
	umem_assert((uintptr_t)at >= heap_window.base);
	umem_assert(
	    (uintptr_t)at + bytes <= heap_window.base + heap_committed());
	umem_assert(
	    heap_states_are_clean((uintptr_t)at, (uintptr_t)at + bytes));
	add_relaxed(&ndirty, n);
	marked_raise(first + n);
	for (size_t i = first; i < first + n;)
		if (is_group(i, first + n)) {
			store_release(&states[i], STATE_WHOLE | epoch);
			i += GROUP_UNITS;
		} else if (is_word(i, first + n)) {
			store_release(word_of(i), ALL_BYTES(epoch));
			i += 8;
		} else {
			store_release(&states[i++], epoch);
		}
}

/* Has a unit that was freed at this epoch the age, in epochs? */
static inline bool
is_old(unsigned epoch, uint8_t now, unsigned age)
{
	return (now + EPOCHS - epoch) % EPOCHS >= age;
}

/*
 * Mark consecutive units from first on as STATE_PURGING, up to the first unit
 * that is not dirty or not old enough.  Returns their number and stores their
 * epochs in was[].  now is the current epoch, age is in epochs.
 */
static size_t
purge_mark(size_t first, size_t end, uint8_t now, unsigned age, uint8_t *was)
{
	size_t n = 0;
	uint8_t whole = load_acquire(group_state(first));

	if ((whole & STATE_WHOLE) != 0 && is_old(whole % STATE_WHOLE, now, age))
		group_split(first);

	for (; n < PURGE_UNITS && first + n < end; n++) {
		uint8_t *state = &states[first + n];
		uint8_t epoch = load_relaxed(state);

		if (epoch == STATE_CLEAN || epoch >= STATE_AWAY ||
		    !is_old(epoch, now, age) ||
		    !__atomic_compare_exchange_n(state, &epoch, STATE_PURGING,
			false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			break;
		was[n] = epoch;
	}
	return n;
}

/*
 * Purge n units from i on, which are STATE_PURGING.  If the kernel refuses,
 * their states are the epochs was[] again.
 */
static bool
purge_marked(size_t i, size_t n, const uint8_t *was)
{
	bool done = os_purge(unit_address(i), n << HEAP_UNIT_SHIFT);

	store_relaxed(&purge_is_stuck, false);
	for (size_t j = 0; j < n; j++)
		store_release(&states[i + j], done ? STATE_CLEAN : was[j]);
	__atomic_add_fetch(&purge_word, 1, __ATOMIC_RELEASE);
	os_futex_wake(&purge_word, INT32_MAX);
	if (!done)
		return false;
	probe_fire(
	    umem, purge, (uintptr_t)unit_address(i), n << HEAP_UNIT_SHIFT);
	sub_relaxed(&ndirty, n);
	return true;
}

/* Decommit the window from unit i on if all of it is free and clean. */
static void
window_decommit(size_t i)
{
	char *at = unit_address(i), *end = unit_address(i + WINDOW_UNITS);
	size_t bytes = WINDOW_UNITS << HEAP_UNIT_SHIFT;
	int saved = errno;

	if (heap_states_are_clean((uintptr_t)at, (uintptr_t)end) &&
	    vmem_xalloc(heap_arena, bytes, HEAP_UNIT, 0, 0, at, end,
		VM_NOSLEEP) != NULL) {
		if (i + WINDOW_UNITS <= heap_committed() >> HEAP_UNIT_SHIFT &&
		    heap_states_are_clean((uintptr_t)at, (uintptr_t)end) &&
		    os_decommit(at, bytes)) {
			os_huge(at, bytes, false);
			os_name(at, bytes, "umem heap");
			marked_raise(i + WINDOW_UNITS);
			for (size_t j = 0; j < WINDOW_UNITS; j += 8)
				store_relaxed(
				    word_of(i + j), ALL_BYTES(STATE_AWAY));
		}
		vmem_xfree(heap_arena, at, bytes);
	}
	errno = saved;
}

size_t
heap_purge(uint64_t age_ns, size_t limit)
{
	size_t end = first_unmarked(heap_committed() >> HEAP_UNIT_SHIFT);
	uint8_t now = epoch_now();
	uint64_t epochs = age_ns >> EPOCH_SHIFT;
	unsigned age = epochs < EPOCHS / 2 ? (unsigned)epochs : EPOCHS / 2;
	uint8_t was[PURGE_UNITS];
	size_t purged = 0, single = 0;
	bool charges_all = false;

	/* Otherwise a range is marked in vain, and the end may be released. */
	if (!os_may_purge())
		return 0;
	for (size_t i = 0; i < end && limit - purged >= HEAP_UNIT; i++) {
		size_t most =
		    i < single ? 1 : (limit - purged) >> HEAP_UNIT_SHIFT;

		/* Skip eight units at once if all are clean or in use. */
		if (is_clean_word(i, end)) {
			i += 7;
			continue;
		}
		size_t n = purge_mark(
		    i, most < end - i ? i + most : end, now, age, was);
		if (n == 0)
			continue;
		if (purge_marked(i, n, was)) {
			if (purged == 0)
				charges_all = os_charges_all();
			for (size_t w = align_down(i, WINDOW_UNITS);
			     unlikely(charges_all) && w < i + n;
			     w += WINDOW_UNITS)
				window_decommit(w);
			purged += n << HEAP_UNIT_SHIFT;
		} else if (!os_may_purge()) {
			break;
		} else if (n > 1) {
			/* Perhaps only some of the units are locked. */
			single = i + n;
			n = 0;
		}
		i += n - 1;
	}
	if (purged != 0)
		heap_forbid_huge();
	if (unlikely(heap_reserve_ahead != 0) && (purged != 0 || age_ns == 0))
		heap_end_release(heap_reserve_ahead);
	else if (charges_all)
		heap_end_release(WINDOW_UNITS << HEAP_UNIT_SHIFT);
	return purged;
}

size_t
heap_dirty(void)
{
	return load_relaxed(&ndirty) << HEAP_UNIT_SHIFT;
}

size_t
heap_allocated_total(void)
{
	return load_relaxed(&nallocated) << HEAP_UNIT_SHIFT;
}

size_t
heap_allocated_clean(void)
{
	return load_relaxed(&nallocated_clean) << HEAP_UNIT_SHIFT;
}

void
heap_states_after_fork(void)
{
	size_t end = first_unmarked(heap_committed() >> HEAP_UNIT_SHIFT);
	uint8_t epoch = epoch_now();
	size_t n = 0;

	for (size_t i = 0; i < end; i++) {
		if (group_is_whole(i)) {
			n += GROUP_UNITS;
			i += GROUP_UNITS - 1;
			continue;
		}
		if (is_clean_word(i, end)) {
			i += 7;
			continue;
		}
		/*
		 * The purging thread and the threads that wait for it do not
		 * exist in the child, unless the function that a purge calls
		 * has forked.
		 */
		if (states[i] == STATE_PURGING &&
		    !os_is_taking_from(unit_address(i)))
			states[i] = epoch;
		n += !is_clean(states[i]);
	}
	ndirty = n;
}

DESCRIBE(DESCRIBED_STATES);
