/*
 * sample_slot.c - places whose end nobody can cross
 *
 * A slot is a unit of the heap whose last page cannot be read or written; two
 * units where a page is as large as a unit (64 KiB, on aarch64).  A block in a
 * slot ends where the last page begins.  When the block is freed, its own
 * pages cannot be read or written either, until the slot is taken again: as
 * late as possible, since slots wait in a queue.
 *
 * Bounds
 *	There are SAMPLE_SLOTS at most, made as they are wanted and never
 *	given back: 16 MiB of addresses (32 MiB with pages of 64 KiB), and the
 *	memory of the blocks that are live in them.  The kernel limits how many
 *	pieces of different protection a process may have (vm.max_map_count,
 *	65530): a slot makes three, so all slots take 768 of them.
 *
 * When the kernel refuses
 *	A slot that gets no units, whose last page stays readable, or whose pages
 *	cannot be had again is put back into the queue and tried again at its
 *	next turn; the caller does without.  A block whose pages cannot be taken
 *	away stays readable.
 *	Nothing is unmapped: when a page comes back, the kernel joins it to
 *	its neighbours again.
 *
 * Addresses are kept as numbers of units: in a program that the library is part
 * of, who looks for leaks would take them for pointers of the program's.
 *
 * Locking: slot_lock guards the queue and the count, a leaf.  Who has taken a
 * slot owns it.
 *
 * Source of the idea: GWP-ASan of LLVM and KFENCE of Linux.
 */
#include "umem/addr_map.h"
#include "umem/sample_slot.h"
#include "umem/sample_unit.h"
#include "vmem/heap.h"
#include "vmem/lock.h"
#include "vmem/os.h"

struct slot {
	bool made;    /* it has units */
	size_t unit;  /* the first, in the address map */
	size_t bytes; /* of the pages before the last that were in use */
	bool barred;  /* the last page cannot be read */
	bool closed;  /* nor can those bytes */
	int next;     /* [slot_lock] behind it in the queue */
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

/* A new one, or the one that waits longest; -1: neither. */
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
