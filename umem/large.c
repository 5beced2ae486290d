/*
 * large.c - above the largest class: straight from the heap
 *
 * A large block is a span of its own: whole units, its size in the owner
 * table of the address map.  It grows in place when what lies behind it is
 * free; otherwise its pages are moved to a larger span (mremap), not copied.
 * The span left behind then reads as zeros and has no memory.  Where the new
 * span has memory already, copying is better: it needs no new pages, and
 * leaves the old ones to the next who needs some.
 */
#include <stdint.h>
#include <string.h>

#include "umem/addr_map.h"
#include "umem/large.h"
#include "vmem/os.h"

/*
 * From here on moving page tables is cheaper than copying: a move is a system
 * call and 8 bytes a page, a copy 4096 and, into a fresh span, a fault a page.
 */
#define MOVE_LEAST (256 * KIB)

static size_t used;  /* [a] bytes */
static size_t count; /* [a] blocks */

void *
large_alloc(size_t size, size_t align, bool *zeroed)
{
	size_t bytes = align_up(size, HEAP_UNIT);
	void *p;

	if (bytes < size)
		return NULL;
	p = heap_alloc(bytes, align, zeroed);
	if (p == NULL)
		return NULL;
	if (!addr_map_cover(p, bytes)) {
		heap_free(p, bytes);
		return NULL;
	}
	addr_map_large(p, bytes);
	__atomic_add_fetch(&used, bytes, __ATOMIC_RELAXED);
	__atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
	return p;
}

void
large_free(void *p, size_t bytes)
{
	addr_map_clear(p, HEAP_UNIT);
	heap_free(p, bytes);
	__atomic_sub_fetch(&used, bytes, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&count, 1, __ATOMIC_RELAXED);
}

static void *
resized(void *p, size_t oldbytes, size_t bytes)
{
	addr_map_large(p, bytes);
	__atomic_add_fetch(&used, bytes - oldbytes, __ATOMIC_RELAXED);
	return p;
}

void
large_copy(void *to, void *from, size_t bytes)
{
	size_t page = os_page_size();
	size_t whole = align_down(bytes, page);

	if (bytes >= MOVE_LEAST &&
	    (((uintptr_t)to | (uintptr_t)from) & (page - 1)) == 0 &&
	    !os_resident((char *)to + align_down(bytes / 2, page)) &&
	    os_move(to, from, whole)) {
		memcpy((char *)to + whole, (char *)from + whole, bytes - whole);
		return;
	}
	memcpy(to, from, bytes);
}

void *
large_resize(void *p, size_t oldbytes, size_t size)
{
	size_t bytes = align_up(size, HEAP_UNIT);
	bool zeroed;
	void *q;

	if (bytes < size)
		return NULL;
	if (bytes == oldbytes)
		return p;
	if (bytes < oldbytes)
		return heap_shrink(p, oldbytes, bytes)
			   ? resized(p, oldbytes, bytes)
			   : p;
	if (addr_map_cover(p, bytes) && heap_grow(p, oldbytes, bytes, &zeroed))
		return resized(p, oldbytes, bytes);
	q = large_alloc(size, HEAP_UNIT, &zeroed);
	if (q == NULL)
		return NULL;
	large_copy(q, p, oldbytes);
	large_free(p, oldbytes);
	return q;
}

size_t
large_used(void)
{
	return __atomic_load_n(&used, __ATOMIC_RELAXED);
}

size_t
large_count(void)
{
	return __atomic_load_n(&count, __ATOMIC_RELAXED);
}
