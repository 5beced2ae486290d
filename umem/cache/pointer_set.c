/*
 * pointer_set.c - a set of pointer-sized values
 *
 * An import cache that is checked records the resources that the program holds
 * (import.c).  The set is a hash table with linear probing.  A removal moves
 * later values of the probe sequence back instead of leaving a mark, so a table
 * that is at most half full stays fast however long it is used.
 *
 * The caller locks, and provides the memory, because neither may happen while
 * the caller's lock is held.
 *
 * Source: Knuth, The Art of Computer Programming, volume 3, section 6.4,
 * algorithm R.
 */
#include "umem/cache/cache_check.h"
#include "umem/cache/pointer_set.h"
#include "vmem/panic.h"
#include "vmem/hash.h"

#define POINTER_SET_SIZE_MIN 128

size_t
pointer_set_size(size_t n)
{
	size_t size = POINTER_SET_SIZE_MIN;

	while (size < 2 * n)
		size *= 2;
	return size;
}

static size_t
pointer_set_home(const struct pointer_set *set, const void *value)
{
	return (size_t)hash_mix((uintptr_t)value) & (set->size - 1);
}

/* The slot that contains the value, or the free one where its search ends. */
static size_t
pointer_set_find(const struct pointer_set *set, const void *value)
{
	size_t i = pointer_set_home(set, value);

	/* NULL is a free slot.  The search ends, because there is one. */
	umem_assert(value != NULL && is_pow2(set->size));
	while (set->slot[i] != NULL && set->slot[i] != value)
		i = (i + 1) & (set->size - 1);
	return i;
}

bool
pointer_set_add(struct pointer_set *set, void *value)
{
	size_t i = pointer_set_find(set, value);

	if (set->slot[i] != NULL)
		return false;
	set->slot[i] = value;
	return true;
}

bool
pointer_set_remove(struct pointer_set *set, void *value)
{
	size_t mask = set->size - 1;
	size_t gap;

	/* A set without slots has no value. */
	if (set->size == 0)
		return false;
	gap = pointer_set_find(set, value);
	if (set->slot[gap] == NULL)
		return false;
	set->slot[gap] = NULL;
	for (size_t i = (gap + 1) & mask; set->slot[i] != NULL;
	     i = (i + 1) & mask) {
		size_t home = pointer_set_home(set, set->slot[i]);

		/* A value with its home behind the gap does not move. */
		if (((i - home) & mask) < ((i - gap) & mask))
			continue;
		set->slot[gap] = set->slot[i];
		set->slot[i] = NULL;
		gap = i;
	}
	return true;
}

void
pointer_set_move(struct pointer_set *set, const struct pointer_set *from)
{
	umem_assert(set->size >= from->size);
	for (size_t i = 0; i < from->size; i++)
		if (from->slot[i] != NULL)
			pointer_set_add(set, from->slot[i]);
}

#ifdef UMEM_DEBUG
bool
pointer_set_check(const struct pointer_set *set, size_t most)
{
	size_t n = 0;

	if (!is_pow2(set->size))
		return false;
	for (size_t i = 0; i < set->size; i++) {
		if (set->slot[i] == NULL)
			continue;
		if (pointer_set_find(set, set->slot[i]) != i)
			return false;
		n++;
	}
	return n <= most && n <= set->size / 2;
}
#endif
