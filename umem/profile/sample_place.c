/*
 * sample_place.c - guarded places: memory that ends at a guard page
 *
 * A guarded place is a unit of the heap whose last page is a guard page: it
 * cannot be read or written.  A place has two units if a page is as large as a
 * unit (64 KiB, on aarch64).  A block in a place ends where the guard page
 * begins.  When the block is freed, its own pages become inaccessible, too,
 * until the place is taken again.  Places wait in a queue, so that this happens
 * as late as possible.
 *
 * Bounds
 *	There are at most SAMPLE_PLACES places, created on demand and never
 *	returned: 16 MiB of addresses (32 MiB with pages of 64 KiB), and the
 *	memory of the live blocks in them.  The kernel limits the number of
 *	mappings of a process (vm.max_map_count, 65530).  A place makes three,
 *	so all places take 768 of them.
 *
 * If the kernel refuses
 *	sample_place_take() puts a place back into the queue and returns -1 if
 *	there are no units for it, if its guard page stays accessible, or if its
 *	pages stay inaccessible.  The place is tried again at its next turn.
 *	The pages of a freed block stay readable if the kernel refuses to
 *	protect them.  Nothing is unmapped.  When a page becomes accessible
 *	again, the kernel merges its mapping with its neighbours.
 *
 * Addresses are stored as unit numbers.  Otherwise a leak checker would take
 * them for pointers of the program, if the library is linked into it.
 *
 * Locking: place_lock guards the queue and the count.  It is a leaf.  The
 * thread that has taken a place owns it.
 *
 * Source of the idea: GWP-ASan of LLVM and KFENCE of Linux.
 */
#include "umem/base/page_map.h"
#include "umem/profile/sample_place.h"
#include "umem/profile/sample_unit.h"
#include "vmem/heap.h"
#include "vmem/lock.h"
#include "vmem/os.h"
#include "vmem/panic.h"

struct place {
	bool has_units;    /* it has units */
	size_t unit;       /* the first, in the page map */
	size_t bytes;      /* of the pages used before the guard page */
	bool is_guarded;   /* the guard page is inaccessible */
	bool is_protected; /* so are those bytes */
	int next;          /* [place_lock] next in the queue; -1: none */
};

static struct lock place_lock = LOCK_INITIALIZER(LOCK_SAMPLE);
static struct place places[SAMPLE_PLACES] seldom_used;
static int nplaces;                     /* [place_lock] */
static int queue_head = -1, queue_tail; /* [place_lock] ends of the queue */

size_t
sample_place_bytes(void)
{
	return os_page_size() < HEAP_UNIT ? HEAP_UNIT : 2 * HEAP_UNIT;
}

size_t
sample_place_max_bytes(void)
{
	return sample_place_bytes() - os_page_size();
}

char *
sample_place_end(int i)
{
	uintptr_t address = page_map.base + (places[i].unit << HEAP_UNIT_SHIFT);

	umem_assert(places[i].has_units);
	return (char *)address + sample_place_max_bytes();
}

#ifdef UMEM_DEBUG
/* Is the queue consistent: no cycle, numbers in range, the tail at its end? */
static bool
place_queue_is_sound_locked(void)
{
	int n = 0, last = -1;

	lock_assert_held(&place_lock);
	for (int i = queue_head; i >= 0; i = places[i].next) {
		if (i >= nplaces || ++n > nplaces)
			return false;
		last = i;
	}
	return nplaces <= SAMPLE_PLACES && (last < 0 || last == queue_tail);
}

static void
place_check_locked(void)
{
	umem_assert(place_queue_is_sound_locked());
}
#else
static inline void
place_check_locked(void)
{
}
#endif

/* Takes a new place, or the one that has waited longest; -1: there is none. */
static int
place_dequeue(void)
{
	int i = -1;

	lock_take(&place_lock);
	if (nplaces < SAMPLE_PLACES) {
		i = nplaces++;
	} else if (queue_head >= 0) {
		i = queue_head;
		queue_head = places[i].next;
	}
	place_check_locked();
	lock_release(&place_lock);
	return i;
}

static bool
place_get_units(struct place *place)
{
	char *unit = sample_unit_take(sample_place_bytes());

	umem_assert(!place->has_units);
	place->has_units = unit != NULL;
	if (place->has_units)
		place->unit = page_map_unit(unit);
	return place->has_units;
}

static bool
place_open(struct place *place, int i)
{
	char *end;

	if (!place->has_units && !place_get_units(place))
		return false;
	end = sample_place_end(i);
	if (!place->is_guarded)
		place->is_guarded = os_protect(end, os_page_size());
	if (place->is_protected)
		place->is_protected =
		    !os_commit(end - place->bytes, place->bytes);
	return place->is_guarded && !place->is_protected;
}

int
sample_place_take(size_t bytes)
{
	int i;

	if (bytes > sample_place_max_bytes())
		return -1;
	i = place_dequeue();
	if (i < 0)
		return -1;
	if (!place_open(&places[i], i)) {
		sample_place_put(i);
		return -1;
	}
	places[i].bytes = align_up(bytes, os_page_size());
	return i;
}

size_t
sample_place_used(int i)
{
	umem_assert(i >= 0 && i < SAMPLE_PLACES);
	return places[i].bytes;
}

bool
sample_place_close(int i)
{
	struct place *place = &places[i];
	char *address = sample_place_end(i) - place->bytes;

	umem_assert(place->is_guarded && !place->is_protected);
	place->is_protected = os_protect(address, place->bytes);
	os_purge(address, place->bytes);
	return place->is_protected;
}

void
sample_place_put(int i)
{
	umem_assert(i >= 0 && i < SAMPLE_PLACES);
	lock_take(&place_lock);
	places[i].next = -1;
	if (queue_head < 0)
		queue_head = i;
	else
		places[queue_tail].next = i;
	queue_tail = i;
	place_check_locked();
	lock_release(&place_lock);
}

void
sample_place_lock_for_fork(void)
{
	lock_take_for_fork(&place_lock);
}

void
sample_place_unlock_for_fork(void)
{
	lock_release_for_fork(&place_lock);
}
