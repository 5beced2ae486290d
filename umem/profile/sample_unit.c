/*
 * sample_unit.c - memory for the blocks of samples
 *
 * A small sample has a unit of 64 KiB for itself and touches a page or two of
 * it.  In other memory of the heap the unit would often be resident as a whole,
 * because it is part of a huge page, or because a slab has used it before.
 * Therefore samples take their units from groups.  Huge pages are switched off
 * for a group, and its pages are released before the group is used.  A record
 * keeps its units, which are never returned to the heap.
 *
 * Unguarded records
 *	The unit is a large block while the sample lives.  When it is freed, its
 *	pages are released.  A few records keep their first page: they are
 *	warm.  Otherwise the next sample would cost a page fault, and its free a
 *	system call.
 *
 * Guarded records
 *	The last page is a guard page: it cannot be read or written.  A record
 *	has two units if a page is as large as a unit (64 KiB, on aarch64).  A
 *	block ends where the guard page begins.  When it is freed, its own pages
 *	become inaccessible, too, until the record is filled again.  The kernel
 *	limits the number of mappings of a process (vm.max_map_count, 65530); a
 *	record takes three.
 *	    The kernel may refuse.  A record is not filled if its guard page
 *	stays accessible, or if its pages stay inaccessible.  The pages of a
 *	freed block stay readable if the kernel refuses to protect them.
 *
 * Locking: sample_unit_lock guards the group.  It is a leaf.
 *
 * Source of the idea of guarded records: GWP-ASan of LLVM and KFENCE of Linux.
 */
#include "umem/base/large.h"
#include "umem/base/page_map.h"
#include "umem/profile/sample_unit.h"
#include "vmem/account.h"
#include "vmem/heap.h"
#include "vmem/huge.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/*
 * A group is one huge page of addresses, so that no other memory loses its huge
 * page.  The kernel may need two more mappings for a group (vm.max_map_count,
 * 65530), so all samples take at most 2 * PAGE_MAP_SAMPLES / GROUP_UNITS,
 * which is 2048.
 */
#define GROUP_UNITS (HUGE_PAGE / HEAP_UNIT)

/*
 * Largest number of warm records: 64 KiB of resident pages (of 4 KiB).  A loop
 * of malloc() and free() needs one for each thread.  Threads that free at the
 * same time can exceed it by one each.
 */
#define WARM_MAX 16

struct lock sample_unit_lock = LOCK_INITIALIZER(LOCK_SAMPLE);
static size_t group_next;  /* [sample_unit_lock] unit in the page map */
static size_t group_nleft; /* [sample_unit_lock] units left */
static uint32_t nwarm;     /* [a] records that are warm */

_Static_assert(HUGE_PAGE % HEAP_UNIT == 0, "a group has whole units");

static char *
group_alloc(size_t n)
{
	bool zeroed;
	char *units = heap_alloc(n * HEAP_UNIT, n * HEAP_UNIT, &zeroed);

	if (units == NULL)
		return NULL;
	if (!page_map_commit(units, n * HEAP_UNIT)) {
		heap_free(units, n * HEAP_UNIT);
		return NULL;
	}
	os_huge(units, n * HEAP_UNIT, /* wanted */ false);
	os_purge(units, n * HEAP_UNIT);
	account_add(&account.sample_units, n * HEAP_UNIT);
	return units;
}

/* Takes units of the group; NULL: it has not so many left. */
static char *
group_take(size_t n)
{
	uintptr_t units = 0;

	lock_take(&sample_unit_lock);
	if (group_nleft >= n) {
		units = page_map.base + (group_next << HEAP_UNIT_SHIFT);
		group_next += n;
		group_nleft -= n;
	}
	umem_assert(group_next + group_nleft <= page_map.units);
	lock_release(&sample_unit_lock);
	return (char *)units;
}

/*
 * Takes n adjacent units, one or two, whose pages have no memory: each gets a
 * small page when it is touched.  Returns NULL if there is no memory.
 */
static char *
units_take(size_t n)
{
	char *units = group_take(n);

	umem_assert(n == 1 || n == 2);
	if (units != NULL)
		return units;
	units = group_alloc(GROUP_UNITS);
	if (units == NULL)
		return group_alloc(n);
	/*
	 * The rest of the old group is lost, and so is one that another thread
	 * has begun meanwhile: addresses without memory.
	 */
	lock_take(&sample_unit_lock);
	group_next = page_map_unit(units) + n;
	group_nleft = GROUP_UNITS - n;
	lock_release(&sample_unit_lock);
	return units;
}

char *
sample_unit_open(struct sample *s)
{
	umem_assert(!s->is_guarded);
	if (s->own_unit == NULL)
		s->own_unit = units_take(1);
	if (s->own_unit == NULL)
		return NULL;
	if (s->is_warm) {
		s->is_warm = false;
		sub_relaxed(&nwarm, 1);
		account_sub(&account.sample_warm, os_page_size());
	}
	large_register(s->own_unit, HEAP_UNIT);
	account_add(&account.sample_unit_spans, HEAP_UNIT);
	return s->own_unit;
}

void
sample_unit_close(struct sample *s)
{
	umem_assert(!s->is_guarded && !s->is_warm);
	if (s->page_bytes <= os_page_size() &&
	    load_relaxed(&nwarm) < WARM_MAX) {
		add_relaxed(&nwarm, 1);
		account_add(&account.sample_warm, os_page_size());
		s->is_warm = true;
	} else {
		os_purge(s->own_unit, HEAP_UNIT);
	}
	account_sub(&account.sample_unit_spans, HEAP_UNIT);
	large_unregister(s->own_unit, HEAP_UNIT);
}

size_t
sample_guarded_bytes(void)
{
	return os_page_size() < HEAP_UNIT ? HEAP_UNIT : 2 * HEAP_UNIT;
}

size_t
sample_guarded_max(void)
{
	return sample_guarded_bytes() - os_page_size();
}

char *
sample_guarded_open(struct sample *s, size_t bytes)
{
	char *end;

	umem_assert(s->is_guarded && bytes <= sample_guarded_max());
	if (s->own_unit == NULL)
		s->own_unit = units_take(sample_guarded_bytes() / HEAP_UNIT);
	if (s->own_unit == NULL)
		return NULL;
	end = s->own_unit + sample_guarded_max();
	if (!s->has_guard)
		s->has_guard = os_protect(end, os_page_size());
	if (s->is_protected)
		s->is_protected =
		    !os_commit(end - s->page_bytes, s->page_bytes);
	if (!s->has_guard || s->is_protected)
		return NULL;
	s->page_bytes = align_up(bytes, os_page_size());
	account_add(&account.sample_guarded, s->page_bytes);
	return end;
}

void
sample_guarded_close(struct sample *s)
{
	char *at = s->own_unit + sample_guarded_max() - s->page_bytes;

	umem_assert(s->has_guard && !s->is_protected);
	account_sub(&account.sample_guarded, s->page_bytes);
	s->is_protected = os_protect(at, s->page_bytes);
	os_purge(at, s->page_bytes);
}
