/*
 * sample_slot.c - memory that ends at a guard page
 *
 * A slot is a unit of the heap whose last page is a guard page: it cannot be
 * read or written.  A slot has two units if a page is as large as a unit (64
 * KiB, on aarch64).  A block in a slot ends where the guard page begins.  When
 * the block is freed, its own pages become inaccessible, too, until the slot is
 * taken again.  Slots wait in a queue, so that this happens as late as
 * possible.
 *
 * Bounds
 *	There are at most SAMPLE_SLOTS slots, created on demand and never
 *	returned: 16 MiB of addresses (32 MiB with pages of 64 KiB), and the
 *	memory of the live blocks in them.  The kernel limits the number of
 *	mappings of a process (vm.max_map_count, 65530).  A slot makes three, so
 *	all slots take 768 of them.
 *
 * If the kernel refuses
 *	sample_slot_take() puts a slot back into the queue and returns -1 if
 *	there are no units for it, if its guard page stays accessible, or if its
 *	pages stay inaccessible.  The slot is tried again at its next turn.  The
 *	pages of a freed block stay readable if the kernel refuses to protect
 *	them.
 *	Nothing is unmapped.  When a page becomes accessible again, the kernel
 *	merges its mapping with its neighbours.
 *
 * Addresses are stored as unit numbers.  Otherwise a leak checker would take
 * them for pointers of the program, if the library is linked into it.
 *
 * Locking: slot_lock guards the queue and the count.  It is a leaf.  The thread
 * that has taken a slot owns it.
 *
 * Source of the idea: GWP-ASan of LLVM and KFENCE of Linux.
 */
#include "umem/base/addr_map.h"
#include "umem/malloc/sample_slot.h"
#include "umem/malloc/sample_unit.h"
#include "vmem/heap.h"
#include "vmem/lock.h"
#include "vmem/os.h"

struct slot {
	bool made;    /* it has units */
	size_t unit;  /* the first, in the address map */
	size_t bytes; /* of the pages used before the guard page */
	bool barred;  /* the guard page is inaccessible */
	bool closed;  /* so are those bytes */
	int next;     /* [slot_lock] next in the queue; -1: none */
};

static struct lock slot_lock = LOCK_INITIALIZER(LOCK_SAMPLE);
static struct slot slots[SAMPLE_SLOTS] seldom_used;
static int nslots;                /* [slot_lock] */
static int oldest = -1, youngest; /* [slot_lock] ends of the queue */

size_t
sample_slot_bytes(void)
{
	return os_page_size() < HEAP_UNIT ? HEAP_UNIT : 2 * HEAP_UNIT;
}

size_t
sample_slot_most(void)
{
	return sample_slot_bytes() - os_page_size();
}

char *
sample_slot_end(int i)
{
	uintptr_t at = addr_map.base + (slots[i].unit << HEAP_UNIT_SHIFT);

	return (char *)at + sample_slot_most();
}

/* Takes a new slot, or the one that has waited longest; -1: there is none. */
static int
next(void)
{
	int i = -1;

	lock_take(&slot_lock);
	if (nslots < SAMPLE_SLOTS) {
		i = nslots++;
	} else if (oldest >= 0) {
		i = oldest;
		oldest = slots[i].next;
	}
	lock_release(&slot_lock);
	return i;
}

static bool
slot_make(struct slot *slot)
{
	char *unit = sample_unit_take(sample_slot_bytes());

	slot->made = unit != NULL;
	if (slot->made)
		slot->unit = addr_map_unit(unit);
	return slot->made;
}

static bool
slot_open(struct slot *slot, int i)
{
	char *end;

	if (!slot->made && !slot_make(slot))
		return false;
	end = sample_slot_end(i);
	if (!slot->barred)
		slot->barred = os_protect(end, os_page_size());
	if (slot->closed)
		slot->closed = !os_commit(end - slot->bytes, slot->bytes);
	return slot->barred && !slot->closed;
}

int
sample_slot_take(size_t bytes)
{
	int i;

	if (bytes > sample_slot_most())
		return -1;
	i = next();
	if (i < 0)
		return -1;
	if (!slot_open(&slots[i], i)) {
		sample_slot_put(i);
		return -1;
	}
	slots[i].bytes = align_up(bytes, os_page_size());
	return i;
}

bool
sample_slot_close(int i)
{
	struct slot *slot = &slots[i];
	char *at = sample_slot_end(i) - slot->bytes;

	slot->closed = os_protect(at, slot->bytes);
	os_purge(at, slot->bytes);
	return slot->closed;
}

void
sample_slot_put(int i)
{
	lock_take(&slot_lock);
	slots[i].next = -1;
	if (oldest < 0)
		oldest = i;
	else
		slots[youngest].next = i;
	youngest = i;
	lock_release(&slot_lock);
}

void
sample_slot_lock_for_fork(void)
{
	lock_take_for_fork(&slot_lock);
}

void
sample_slot_unlock_for_fork(void)
{
	lock_release_for_fork(&slot_lock);
}
