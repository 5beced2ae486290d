/*
 * held.c - a set of pointer-sized values
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
#include "umem/cache/held.h"
#include "vmem/panic.h"
#include "vmem/hash.h"

#define HELD_SIZE_MIN 128

size_t
held_size(size_t n)
{
	size_t size = HELD_SIZE_MIN;

	while (size < 2 * n)
		size *= 2;
	return size;
}

static size_t
held_home(const struct held *held, const void *value)
{
	return (size_t)hash_mix((uintptr_t)value) & (held->size - 1);
}

/* The slot that contains the value, or the free one where its search ends. */
static size_t
held_find(const struct held *held, const void *value)
{
	size_t i = held_home(held, value);

	/* NULL is a free slot.  The search ends, because there is one. */
	umem_assert(value != NULL && is_pow2(held->size));
	while (held->slot[i] != NULL && held->slot[i] != value)
		i = (i + 1) & (held->size - 1);
	return i;
}

bool
held_add(struct held *held, void *value)
{
	size_t i = held_find(held, value);

	if (held->slot[i] != NULL)
		return false;
	held->slot[i] = value;
	return true;
}

bool
held_remove(struct held *held, void *value)
{
	size_t mask = held->size - 1;
	size_t gap;

	/* A set without slots has no value. */
	if (held->size == 0)
		return false;
	gap = held_find(held, value);
	if (held->slot[gap] == NULL)
		return false;
	held->slot[gap] = NULL;
	for (size_t i = (gap + 1) & mask; held->slot[i] != NULL;
	     i = (i + 1) & mask) {
		size_t home = held_home(held, held->slot[i]);

		/* A value with its home behind the gap does not move. */
		if (((i - home) & mask) < ((i - gap) & mask))
			continue;
		held->slot[gap] = held->slot[i];
		held->slot[i] = NULL;
		gap = i;
	}
	return true;
}

void
held_move(struct held *held, const struct held *from)
{
	umem_assert(held->size >= from->size);
	for (size_t i = 0; i < from->size; i++)
		if (from->slot[i] != NULL)
			held_add(held, from->slot[i]);
}

#ifdef UMEM_DEBUG
bool
held_check(const struct held *held, size_t most)
{
	size_t n = 0;

	if (!is_pow2(held->size))
		return false;
	for (size_t i = 0; i < held->size; i++) {
		if (held->slot[i] == NULL)
			continue;
		if (held_find(held, held->slot[i]) != i)
			return false;
		n++;
	}
	return n <= most && n <= held->size / 2;
}
#endif
