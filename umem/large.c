/*
 * large.c - above the largest class: straight from the heap
 *
 * A large block is a span of its own: whole units, its size in the owner
 * table of the address map.  It grows in place when what lies behind it is
 * free; otherwise its pages are moved to a larger span (mremap), not copied.
 * The span left behind then reads as zeros and has no memory.  Where the new
 * span has memory already, copying is better: it needs no new pages, and
 * leaves the old ones to the next who needs some.
 *
 * A block of a class that realloc() makes larger than LARGE_GROWN becomes a
 * large one, since a chunk cannot grow in place.
 */
#include <stdint.h>
#include <string.h>

#include "umem/addr_map.h"
#include "umem/large.h"
#include "vmem/os.h"

/*
 * Each move may leave two mappings that cannot be merged with others, and a
 * process may have 65530.
 */
#define MOVES_MOST 10000

static unsigned nmoves; /* [a] */
static size_t used;     /* [a] bytes */
static size_t count;    /* [a] blocks */

/* A span of the heap becomes a block.  NULL in, or no memory: NULL. */
static void *
block_make(void *p, size_t bytes)
{
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

void *
large_alloc(size_t size, size_t align, bool *zeroed)
{
	size_t bytes = align_up(size, HEAP_UNIT);

	if (bytes < size)
		return NULL;
	return block_make(heap_alloc(bytes, align, zeroed), bytes);
}

void
large_forget(void *p, size_t bytes)
{
	addr_map_clear(p, HEAP_UNIT);
	__atomic_sub_fetch(&used, bytes, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&count, 1, __ATOMIC_RELAXED);
}

void
large_free(void *p, size_t bytes)
{
	large_forget(p, bytes);
	heap_free(p, bytes);
}

static void *
resized(void *p, size_t oldbytes, size_t bytes)
{
	addr_map_large(p, bytes);
	__atomic_add_fetch(&used, bytes - oldbytes, __ATOMIC_RELAXED);
	return p;
}

/* Pages are moved or copied by pieces of this size, 256 pages at a look. */
#define PIECE (64 * KIB)
#define LOOK  256

/* How long the run of pieces is that are all as the first; bytes or less. */
static size_t
run_length(void *to, size_t bytes, bool *resident)
{
	size_t page = os_page_size();
	size_t step = PIECE < page ? page : PIECE;
	unsigned char pages[LOOK];
	size_t n = 0;

	if (bytes > LOOK * page)
		bytes = LOOK * page;
	if (!os_resident(to, bytes, pages)) {
		*resident = true;
		return bytes;
	}
	*resident = pages[0] & 1;
	while (n < bytes && (pages[n / page] & 1) == *resident)
		n += step;
	return n < bytes ? n : bytes;
}

static bool
pages_move(void *to, void *from, size_t bytes)
{
	return bytes >= LARGE_MOVE_LEAST &&
	       __atomic_load_n(&nmoves, __ATOMIC_RELAXED) < MOVES_MOST &&
	       os_move(to, from, bytes) &&
	       __atomic_add_fetch(&nmoves, 1, __ATOMIC_RELAXED) != 0;
}

void
large_copy_or_move(void *to, void *from, size_t bytes)
{
	size_t page = os_page_size();
	char *dst = to, *src = from;

	if ((((uintptr_t)to | (uintptr_t)from) & (page - 1)) == 0)
		while (bytes >= page) {
			bool resident;
			size_t n =
			    run_length(dst, align_down(bytes, page), &resident);

			if (resident || !pages_move(dst, src, n))
				memcpy(dst, src, n);
			dst += n;
			src += n;
			bytes -= n;
		}
	memcpy(dst, src, bytes);
}

void *
large_from(void *p, size_t oldbytes, size_t size)
{
	size_t bytes = align_up(size, HEAP_UNIT);
	bool zeroed;
	void *q;

	if (bytes < size)
		return NULL;
	q = block_make(heap_alloc_roomy(bytes, bytes, &zeroed), bytes);
	if (q != NULL)
		large_copy(q, p, oldbytes);
	return q;
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
	/* The map has only a block's first unit. */
	if (heap_grow(p, oldbytes, bytes, &zeroed))
		return resized(p, oldbytes, bytes);
	q = large_from(p, oldbytes, size);
	if (q != NULL)
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
