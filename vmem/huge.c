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
 *	The latest pieces of it that the heap grew by are remembered.  How much
 *	of some pages looked at in them has memory is the density of the heap,
 *	of the latest few alone if those are sparser.  Of huge pages nothing can
 *	be learnt: they are there whole.  So after a run of them a piece comes
 *	as small pages again, a probe for the next decisions.
 *
 * Run
 *	At most a sixteenth of the heap may lie idle in a run: it is as long as
 *	the heap where fifteen in sixteen pages are touched, as half of it where
 *	seven in eight are, and as an eighth of it where every other is.  A
 *	dense heap gets one of RUN_LEAST in any case; where less than half is
 *	touched, or a run would be too short for a probe, there is none.  What
 *	turns to sparse use is known after the first probe that shows it, and
 *	has no more runs after the second: three fifths of the heap may be in
 *	vain by then.
 *
 *	A heap of some size will be filled by its small blocks, if not now.  So
 *	for those it is asked only whether less than a fourth is touched: then
 *	they are not that small, and the program does not write to them.
 *
 *	A large block may be another use of memory than all there was, so by
 *	huge pages the heap grows by half of itself at most for it.  They come
 *	first, since blocks are filled from their start.
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
#define RUN_LEAST   (14 * MIB) /* of a dense heap */
#define RUN_SHORT   (6 * MIB)  /* is not worth a probe */
#define WASTE_PART  16         /* of the heap may be idle in a run */
#define SHARES      64         /* that density is measured in */
#define DENSE       48
#define SPARSE      16
#define PROBES      8
#define LATEST      3
#define LOOKS       4 /* at each probe */
#define LOOK_PAGES  64

struct probe {
	uintptr_t start;
	size_t bytes; /* 0: none yet */
	bool small;   /* the heap grew for small blocks */
};

static struct probe probes[PROBES];
static unsigned nprobes; /* so many there have been */
static size_t run;       /* bytes of huge pages since the last */
static size_t run_most;  /* so many there may be, by the latest answer */
static bool for_small;   /* the latest question was for a small block */
static bool allowed = true;

void
huge_allow(bool is_allowed)
{
	allowed = is_allowed;
}

/* Looks at some pages of each fourth of it, at no distance that repeats. */
static void
probe_look(const struct probe *probe, unsigned *nlooks, unsigned *nresident)
{
	static uint32_t number;
	unsigned char pages[LOOK_PAGES];
	size_t page = os_page_size();
	size_t part = probe->bytes / page / LOOKS;
	size_t n = part < LOOK_PAGES ? part : LOOK_PAGES;

	for (size_t i = 0; i < LOOKS && part != 0; i++) {
		size_t room = part - n + 1;
		size_t at = i * part + (++number * 0x9e3779b9u >> 8) % room;

		if (!os_resident(
			(void *)(probe->start + at * page), n * page, pages))
			continue;
		*nlooks += (unsigned)n;
		for (size_t j = 0; j < n; j++)
			*nresident += pages[j] & 1;
	}
}

/*
 * At the n latest probes, or those for small blocks.  The very latest may just
 * have been handed out, so it has to wait until more came.
 */
static void
look(unsigned n, bool small, unsigned *nlooks, unsigned *nresident)
{
	unsigned end = run < RUN_SHORT && nprobes > 1 ? nprobes - 1 : nprobes;
	unsigned done = 0;

	for (unsigned i = 1; i < PROBES && i <= end && done < n; i++) {
		const struct probe *probe = &probes[(end - i) % PROBES];

		if (small && !probe->small)
			continue;
		probe_look(probe, nlooks, nresident);
		done++;
	}
}

/* How many of SHARES parts of the n latest probes have memory. */
static unsigned
density(unsigned n)
{
	unsigned nlooks = 0, nresident = 0;

	look(n, /* small */ false, &nlooks, &nresident);
	return nlooks == 0 ? 0 : nresident * SHARES / nlooks;
}

/* Is it known that hardly anything of small blocks is touched? */
static bool
is_sparse(void)
{
	unsigned nlooks = 0, nresident = 0;

	look(LATEST, /* small */ true, &nlooks, &nresident);
	return nlooks != 0 && nresident * SHARES / nlooks < SPARSE;
}

/* The latest alone, if they are sparser: a program may have changed. */
static unsigned
density_now(void)
{
	unsigned all = density(PROBES - 1);
	unsigned latest = density(LATEST);

	return latest < all ? latest : all;
}

/* The longest run that wastes no more than it may, or 0. */
static size_t
run_for(size_t heap_bytes, unsigned dense)
{
	unsigned idle = SHARES - dense;
	size_t bytes;

	if (idle < SHARES / 16)
		idle = SHARES / 16;
	bytes = align_down(heap_bytes / WASTE_PART / idle * SHARES, HUGE_PAGE);
	if (dense >= DENSE && bytes < RUN_LEAST)
		return RUN_LEAST;
	return dense >= SHARES / 2 && bytes >= RUN_SHORT ? bytes : 0;
}

size_t
huge_most(size_t heap_bytes, size_t block_bytes)
{
	for_small = block_bytes < LARGE_BLOCK;
	if (!allowed || heap_bytes < HUGE_HEAP)
		return 0;
	if (heap_bytes >= FILLED_HEAP && for_small && !is_sparse()) {
		run_most = run_for(heap_bytes, SHARES);
		return SIZE_MAX;
	}
	run_most = run_for(heap_bytes, density_now());
	return run_most == 0 ? 0 : heap_bytes / 2;
}

size_t
huge_piece(bool *probe)
{
	*probe = run >= run_most;
	return *probe ? HUGE_PAGE : run_most - run;
}

void
huge_grew(uintptr_t from, uintptr_t to, bool huge)
{
	if (huge) {
		run += to - from;
		return;
	}
	run = 0;
	probes[nprobes++ % PROBES] = (struct probe){from, to - from, for_small};
}
