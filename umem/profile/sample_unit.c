/*
 * sample_unit.c - units of the heap for samples
 *
 * A small sample has a unit of 64 KiB for itself and touches a page or two of
 * it.  In other memory of the heap the unit would often be resident as a whole,
 * because it is part of a huge page, or because a slab has used it before.
 * Therefore samples take their units from groups.  Huge pages are switched off
 * for a group, and its pages are released before the group is used.  Units in
 * use are never returned to the heap, because a record keeps its unit
 * (sample.c, sample_place.c).
 *
 * Locking: group_lock guards the group.  It is a leaf.
 */
#include "umem/base/page_map.h"
#include "umem/profile/sample_unit.h"
#include "vmem/account.h"
#include "vmem/heap.h"
#include "vmem/huge.h"
#include "vmem/lock.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/*
 * A group is one huge page of addresses, so that no other memory loses its huge
 * page.  The kernel may need two more mappings for a group (vm.max_map_count,
 * 65530), so all samples take at most 2 * PAGE_MAP_SAMPLES / GROUP_UNITS,
 * which is 2048.
 */
#define GROUP_UNITS (HUGE_PAGE / HEAP_UNIT)

static struct lock group_lock = LOCK_INITIALIZER(LOCK_SAMPLE);
static size_t group_next;  /* [group_lock] unit in the page map */
static size_t group_nleft; /* [group_lock] units left */

_Static_assert(HUGE_PAGE % HEAP_UNIT == 0, "a group has whole units");

/* Asserts that the rest of the group is inside the page map. */
static void
group_check_locked(void)
{
	lock_assert_held(&group_lock);
	umem_assert(group_nleft < GROUP_UNITS);
	umem_assert(
	    group_nleft == 0 || group_next + group_nleft <= page_map.units);
}

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

static char *
group_take_units(size_t n)
{
	uintptr_t units = 0;

	lock_take(&group_lock);
	if (group_nleft >= n) {
		units = page_map.base + (group_next << HEAP_UNIT_SHIFT);
		group_next += n;
		group_nleft -= n;
	}
	group_check_locked();
	lock_release(&group_lock);
	return (char *)units;
}

char *
sample_unit_take(size_t bytes)
{
	size_t n = bytes / HEAP_UNIT;
	char *units = group_take_units(n);
	bool is_needed;

	umem_assert(bytes == HEAP_UNIT || bytes == 2 * HEAP_UNIT);
	if (units != NULL)
		return units;
	units = group_alloc(GROUP_UNITS);
	if (units == NULL)
		return group_alloc(n);
	/*
	 * Another thread may have stored a group meanwhile.  If not, and the
	 * caller wants two units, a single unit left of the old group is lost.
	 */
	lock_take(&group_lock);
	is_needed = group_nleft < n;
	if (is_needed) {
		group_next = page_map_unit(units) + n;
		group_nleft = GROUP_UNITS - n;
	}
	group_check_locked();
	lock_release(&group_lock);
	if (is_needed)
		return units;
	heap_free(units, GROUP_UNITS * HEAP_UNIT);
	account_sub(&account.sample_units, GROUP_UNITS * HEAP_UNIT);
	return group_take_units(n);
}

void
sample_unit_lock_for_fork(void)
{
	lock_take_for_fork(&group_lock);
}

void
sample_unit_unlock_for_fork(void)
{
	lock_release_for_fork(&group_lock);
}
