/*
 * huge.c - which growth of the heap is to come as huge pages
 *
 * A huge page is one fault instead of 512, each of which takes as long as a
 * hundred calls of malloc(); but it comes whole, however little of it is
 * used.  So the heap grows by huge pages where they will be filled, and a
 * program has shown before whether it fills what it gets.
 *
 * Probe
 *	Of memory that came as small pages the kernel tells which were touched.
 *	The latest pieces of it that the heap grew by are remembered.  If three
 *	in four of some pages looked at in them have memory, the heap is dense,
 *	and what it grows by next comes as huge pages.  Of those nothing can be
 *	learnt: they are there whole.  So after a run of them a piece comes as
 *	small pages again, a probe for the next decisions.  A program that
 *	turns to sparse use has had three such runs by then.
 *
 *	A heap of some size will be filled by its small blocks, if not now.  So
 *	for those it is not asked how dense it is.
 *
 *	A block half as large as the heap or larger may be another use of memory
 *	than all there was, so it never comes as huge pages.
 *
 * Locking: the caller's; that is the heap's lock.
 */
#include "vmem/huge.h"
#include "vmem/os.h"

/* A huge page that is hardly used is a fourth of the least such heap. */
#define HUGE_HEAP   (8 * MIB)
/* One of this size will be filled by its small blocks, sooner or later. */
#define FILLED_HEAP (32 * MIB)
#define LARGE_BLOCK (1 * MIB)
#define RUN_LEAST   (14 * MIB) /* or an eighth of the heap */
#define PROBES      8
#define LOOKS       4 /* at a page of each probe */

struct probe {
	uintptr_t start;
	size_t bytes; /* 0: none yet */
};

static struct probe probes[PROBES];
static unsigned nprobes; /* so many there have been */
static size_t run;       /* bytes of huge pages since the last */
static bool allowed = true;

void
huge_allow(bool is_allowed)
{
	allowed = is_allowed;
}

/* Looks at a page of each fourth of it, at no distance that repeats. */
static void
probe_look(const struct probe *probe, unsigned *nlooks, unsigned *nresident)
{
	static uint32_t number;
	size_t page = os_page_size();
	size_t part = probe->bytes / page / LOOKS;

	for (size_t i = 0; i < LOOKS && part != 0; i++) {
		size_t at = i * part + (++number * 0x9e3779b9u >> 8) % part;
		unsigned char state;

		++*nlooks;
		if (os_resident(
			(void *)(probe->start + at * page), page, &state) &&
		    (state & 1) != 0)
			++*nresident;
	}
}

static bool
is_dense(void)
{
	unsigned nlooks = 0, nresident = 0;

	for (unsigned i = 0; i < PROBES; i++)
		probe_look(&probes[i], &nlooks, &nresident);
	return nlooks > 0 && nresident >= nlooks - nlooks / 4;
}

bool
huge_wanted(size_t heap_bytes, size_t need, size_t block_bytes)
{
	if (!allowed || heap_bytes < HUGE_HEAP)
		return false;
	if (heap_bytes >= FILLED_HEAP && block_bytes < LARGE_BLOCK)
		return true;
	return need <= heap_bytes / 2 && is_dense();
}

size_t
huge_piece(size_t heap_bytes, bool *probe)
{
	size_t most = heap_bytes / 8 < RUN_LEAST ? RUN_LEAST : heap_bytes / 8;

	*probe = run >= most;
	return *probe ? HUGE_PAGE : most - run;
}

void
huge_grew(uintptr_t from, uintptr_t to, bool huge)
{
	if (huge) {
		run += to - from;
		return;
	}
	run = 0;
	probes[nprobes++ % PROBES] = (struct probe){from, to - from};
}
