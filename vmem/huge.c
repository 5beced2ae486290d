/*
 * huge.c - decides which growth of the heap uses huge pages
 *
 * A huge page takes one page fault instead of 512 faults, each of which takes
 * as long as a hundred calls of malloc().  But the kernel allocates a huge page
 * as a whole, however little of it the program touches.  The heap therefore
 * grows by huge pages only where the program is likely to fill them.  The
 * prediction is based on how much of its earlier memory the program touched.
 *
 * Small pieces
 *	The kernel can tell which small pages have been touched.  The latest
 *	SMALL_PIECES pieces by which the heap grew with small pages are
 *	recorded.  A heap is dense if more than half of their pages are touched.
 *	Huge pages yield no such information, because they are always present
 *	as a whole.
 *
 * Run
 *	A dense heap of HUGE_HEAP_MIN or more grows by huge pages.  When half of
 *	it has been added so, one piece comes with small pages again, for the
 *	next decisions.  When a program turns to sparse use, the second sparse
 *	piece stops the runs; up to 3/4 of the heap may be untouched by then.
 *
 *	One step of growth has at most half as many bytes of huge pages as the
 *	heap, because a large block may be used in another way than all memory
 *	before it.  The huge pages come first, because programs fill blocks from
 *	the start.
 *
 * Always
 *	With HUGE_ALWAYS all growth uses huge pages, from the first on, and
 *	there is no small piece, so nothing bounds the waste.  The user chooses
 *	this for a program that must be fast rather than small.
 *
 * Locking: the caller holds the heap's lock, which guards everything here.
 */
#include "vmem/huge.h"
#include "vmem/os.h"

/*
 * A smaller heap has small pages only: a program has touched half of its last
 * huge page, on average.
 */
#define HUGE_HEAP_MIN (16 * MIB)
#define SMALL_PIECES  4 /* that are recorded */

/* A piece by which the heap grew with small pages. */
struct small_piece {
	uintptr_t start;
	size_t bytes;
};

static struct small_piece pieces[SMALL_PIECES];
static unsigned npieces;     /* small pieces so far */
static size_t run_bytes;     /* bytes of huge pages since the last piece */
static size_t run_max_bytes; /* the most, by the latest huge_growth_max() */

enum huge_use huge_use = HUGE_AUTO;

bool
huge_count(uintptr_t at, size_t bytes, size_t *npages, size_t *nresident)
{
	unsigned char pages[HUGE_PAGE / (4 * KIB)];
	size_t n = (bytes < HUGE_PAGE ? bytes : HUGE_PAGE) / os_page_size();

	if (!os_resident((void *)at, n * os_page_size(), pages))
		return false;
	*npages += n;
	for (size_t i = 0; i < n; i++)
		*nresident += pages[i] & 1;
	return true;
}

/*
 * Is more than half of the pieces touched?  The very latest one is skipped
 * unless it is the only one, or a huge page has followed it: the program may
 * not have touched it yet.
 */
static bool
is_dense(void)
{
	unsigned skip = npieces > 1 && run_bytes == 0 ? 1 : 0;
	size_t npages = 0, ntouched = 0;

	for (unsigned i = 1 + skip; i <= SMALL_PIECES && i <= npieces; i++) {
		const struct small_piece *piece =
		    &pieces[(npieces - i) % SMALL_PIECES];

		huge_count(piece->start, piece->bytes, &npages, &ntouched);
	}
	return 2 * ntouched > npages;
}

size_t
huge_growth_max(size_t heap_bytes)
{
	if (huge_use == HUGE_ALWAYS) {
		run_max_bytes = SIZE_MAX; /* no small piece */
		return SIZE_MAX;
	}
	if (huge_use == HUGE_NO || heap_bytes < HUGE_HEAP_MIN || !is_dense())
		return 0;
	run_max_bytes = align_down(heap_bytes / 2, HUGE_PAGE);
	return heap_bytes / 2;
}

size_t
huge_growth_next(bool *small)
{
	*small = run_bytes >= run_max_bytes;
	return *small ? HUGE_PAGE : run_max_bytes - run_bytes;
}

void
huge_growth_record(uintptr_t from, uintptr_t to, bool huge)
{
	if (huge) {
		run_bytes += to - from;
		return;
	}
	run_bytes = 0;
	pieces[npieces++ % SMALL_PIECES] =
	    (struct small_piece){from, to - from};
}
