/*
 * large.c - blocks above the largest class, directly from the heap
 *
 * A large block is a span of its own: whole units, with its size in the owner
 * table of the page map.
 *
 * realloc()
 *	A large block grows in place if the span behind it is free.  Otherwise
 *	it goes to a larger span.  If it is large enough, its pages are moved
 *	there (mremap), not copied, but only whole huge pages of address space,
 *	and only to a destination that has no memory yet.  Then the kernel moves
 *	a table of pages, or a huge page, at once, and both spans can have huge
 *	pages afterwards.  If part of a huge page were moved, both sides would
 *	be left with small pages, which takes longer than the copy.
 *
 *	After a move the old span has no pages and reads as zeros.  After a copy
 *	it keeps its pages for reuse.
 *
 *	A block of a size class that has LARGE_GROWN bytes or more becomes a
 *	large block when realloc() grows it: a chunk cannot grow in place, and
 *	each class that a list grows through would keep a free chunk.
 */
#include <string.h>

#include "umem/base/page_map.h"
#include "umem/base/large.h"
#include "vmem/account.h"
#include "vmem/huge.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/*
 * Each move may leave two mappings that cannot be merged with others, and a
 * process may have 65530 mappings (vm.max_map_count).
 */
#define MOVES_MAX 10000

static unsigned nmoves; /* [a] */
static size_t count;    /* [a] blocks */

void
large_register(void *p, size_t bytes)
{
	umem_assert((uintptr_t)p % HEAP_UNIT == 0 && bytes != 0);
	page_map_enter_large(p, bytes);
	account_add(&account.large, bytes);
	add_relaxed(&count, 1);
}

/*
 * Makes a large block from a span of the heap.  Returns NULL if p is NULL, or
 * if there is no memory for the page map; then the span is freed.
 */
static void *
block_register(void *p, size_t bytes)
{
	if (p == NULL)
		return NULL;
	if (!page_map_commit(p, bytes)) {
		heap_free(p, bytes);
		return NULL;
	}
	large_register(p, bytes);
	return p;
}

void *
large_alloc(size_t size, size_t align, bool *zeroed)
{
	size_t bytes = align_up(size, HEAP_UNIT);

	if (bytes < size)
		return NULL;
	return block_register(heap_alloc(bytes, align, zeroed), bytes);
}

void *
large_containing(const void *p)
{
	size_t unit = page_map_unit(p);

	if (unit >= page_map.units)
		return NULL;
	/* Only the first unit of a block has an owner. */
	for (size_t i = unit + 1; i-- > 0;) {
		uintptr_t at = page_map.base + (i << HEAP_UNIT_SHIFT);
		void *owner = page_map_owner((void *)at);

		if (owner != NULL)
			return (uintptr_t)p - at < page_map_large_bytes(owner)
				   ? (void *)at
				   : NULL;
	}
	return NULL;
}

void
large_unregister(void *p, size_t bytes)
{
	umem_assert(page_map_large_bytes(page_map_owner(p)) == bytes);
	umem_assert(account_get(&account.large) >= bytes && large_count() > 0);
	page_map_clear(p, HEAP_UNIT);
	account_sub(&account.large, bytes);
	sub_relaxed(&count, 1);
}

void
large_free(void *p, size_t bytes)
{
	large_unregister(p, bytes);
	heap_free(p, bytes);
}

static void
block_resized(void *p, size_t oldbytes, size_t bytes)
{
	page_map_enter_large(p, bytes);
	if (bytes > oldbytes)
		account_add(&account.large, bytes - oldbytes);
	else
		account_sub(&account.large, oldbytes - bytes);
}

/*
 * Moves a huge page through an intermediate place, the huge page of address
 * space below the heap, which is usually free.  Because that place is aligned,
 * the kernel can move a whole table of pages on the way, too.
 */
static bool
huge_page_move(void *to, void *from)
{
	umem_assert((uintptr_t)to % HUGE_PAGE == 0);
	umem_assert((uintptr_t)from % HUGE_PAGE == 0);

	uintptr_t via = align_down(heap_window.base, HUGE_PAGE) - HUGE_PAGE;
	size_t npages = 0, nresident = 0;

	return load_relaxed(&nmoves) < MOVES_MAX &&
	       huge_count((uintptr_t)to, HUGE_PAGE, &npages, &nresident) &&
	       nresident == 0 && os_move(to, (void *)via, from, HUGE_PAGE) &&
	       add_relaxed(&nmoves, 1) != 0;
}

/* dst and src are at multiples of the huge page size. */
static void
huge_pages_copy(char *dst, char *src, size_t bytes)
{
	size_t n = 0;

	for (; bytes - n >= HUGE_PAGE; n += HUGE_PAGE)
		if (!huge_page_move(dst + n, src + n))
			memcpy(dst + n, src + n, HUGE_PAGE);
	memcpy(dst + n, src + n, bytes - n);
}

void
large_copy_or_move(void *to, void *from, size_t bytes)
{
	size_t offset = (uintptr_t)to & (HUGE_PAGE - 1);
	size_t head = -(uintptr_t)to & (HUGE_PAGE - 1);

	if (((uintptr_t)from & (HUGE_PAGE - 1)) != offset || head > bytes)
		head = bytes;
	memcpy(to, from, head);
	huge_pages_copy((char *)to + head, (char *)from + head, bytes - head);
}

void *
large_alloc_copy(void *p, size_t oldbytes, size_t size)
{
	size_t bytes = align_up(size, HEAP_UNIT);
	bool zeroed;
	void *q;

	if (oldbytes < LARGE_MOVE_MIN)
		q = heap_alloc(bytes, HEAP_UNIT, &zeroed);
	else
		q = heap_alloc_same_offset(bytes, p, &zeroed);
	q = block_register(q, bytes);
	if (q != NULL)
		large_copy(q, p, oldbytes);
	return q;
}

bool
large_grow(void *p, size_t oldbytes, size_t bytes, bool *zeroed)
{
	umem_assert(page_map_large_bytes(page_map_owner(p)) == oldbytes);
	/* The page map has only the first unit of a large block. */
	if (!heap_grow(p, oldbytes, bytes, zeroed))
		return false;
	block_resized(p, oldbytes, bytes);
	return true;
}

void *
large_resize(void *p, size_t oldbytes, size_t size)
{
	size_t bytes = align_up(size, HEAP_UNIT);
	bool zeroed;
	void *q;

	if (bytes < size)
		return NULL;
	if (bytes < oldbytes && heap_shrink(p, oldbytes, bytes))
		block_resized(p, oldbytes, bytes);
	if (bytes <= oldbytes || large_grow(p, oldbytes, bytes, &zeroed))
		return p;
	q = large_alloc_copy(p, oldbytes, size);
	if (q != NULL)
		large_free(p, oldbytes);
	return q;
}

size_t
large_count(void)
{
	return load_relaxed(&count);
}
