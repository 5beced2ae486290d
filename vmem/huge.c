/*
 * huge.c - decides which growth of the heap uses huge pages
 *
 * A huge page takes one page fault instead of 512 faults, each of which takes
 * as long as a hundred calls of malloc().  But the kernel allocates a huge page
 * as a whole, however little of it the program touches.  The heap therefore
 * grows by huge pages only where the program is likely to fill them.  The
 * prediction is based on how much of its earlier memory the program touched.
 *
 * Probe
 *	The kernel can tell which small pages have been touched.  The latest
 *	pieces by which the heap grew with small pages are recorded as probes.
 *	The density of the heap is the touched fraction of a sample of pages in
 *	the probes, or in the latest few probes alone if those are sparser.
 *	Huge pages yield no such information, because they are always present
 *	as a whole.  After a run of huge pages one piece therefore comes with
 *	small pages again, as a probe for the next decisions.
 *
 * Run
 *	At most a sixteenth of the heap may be untouched in a run.  The run is
 *	as long as the heap if 15/16 of the sampled pages are touched, half as
 *	long if 7/8 are touched, and an eighth as long if 1/2 is touched.  A
 *	dense heap gets a run of at least RUN_DENSE_MIN.  There is no run if
 *	less than half is touched, or if the run would be too short to be worth
 *	a probe.  When a program turns to sparse use, the first sparse probe
 *	lowers the density and the second stops the runs.  Up to 3/5 of the heap
 *	may be untouched by then.  A heap below HUGE_HEAP_MIN has no run.
 *
 *	In a heap of FILLED_HEAP_MIN or more, small blocks will fill the memory
 *	sooner or later.  Growth for small blocks is then refused huge pages
 *	only if less than a quarter of the sampled pages is touched.  Such
 *	blocks are larger than a page, and the program does not write to them.
 *
 *	A large block may be used in another way than all memory before it.
 *	For a large block, the heap therefore grows with huge pages by at most
 *	half its size.  The huge pages come first, because programs fill blocks
 *	from the start.
 *
 * Always
 *	With HUGE_ALWAYS all growth uses huge pages, from the first on, and
 *	there is no probe, so nothing bounds the waste.  The user chooses this
 *	for a program that must be fast rather than small.
 *
 * Locking: the caller holds the heap's lock, which guards everything here.
 */
#include "vmem/huge.h"
#include "vmem/hash.h"
#include "vmem/os.h"

/* Small blocks will fill a heap of this size sooner or later. */
#define FILLED_HEAP_MIN (32 * MIB)
#define LARGE_BLOCK_MIN (1 * MIB)
#define RUN_DENSE_MIN   (14 * MIB) /* shortest run of a dense heap */
#define RUN_MIN         (6 * MIB)  /* shorter runs are not worth a probe */
#define WASTE_PART      16 /* 1/16 of the heap may be untouched in a run */
/*
 * A program has touched half of the last huge page of a run, on average.  The
 * other half would be more than 1/WASTE_PART of a smaller heap.
 */
#define HUGE_HEAP_MIN   (WASTE_PART * HUGE_PAGE / 2)
#define DENSITY_ONE     64 /* density is in units of 1/64 */
#define DENSITY_HIGH    48 /* in units of 1/DENSITY_ONE */
#define DENSITY_LOW     16 /* in units of 1/DENSITY_ONE */
#define PROBES          8  /* probes that are recorded */
#define PROBES_LATEST   3  /* probes that show the latest use */
#define PROBE_SAMPLES   4  /* samples in each probe */
#define SAMPLE_PAGES    64 /* consecutive pages in each sample, at most */

/* A piece by which the heap grew with small pages. */
struct probe {
	uintptr_t start;
	size_t bytes; /* 0: none yet */
	bool small;   /* the heap grew for small blocks */
};

static struct probe probes[PROBES];
static unsigned nprobes; /* probes so far */
static size_t run_bytes; /* bytes of huge pages since the last probe */
/* The most such bytes, by the latest huge_growth_max(). */
static size_t run_max_bytes;
static bool for_small; /* the latest huge_growth_max() was for a small block */

enum huge_use huge_use = HUGE_AUTO;

/*
 * Add the pages sampled in each quarter of a probe, and the touched pages among
 * them, to *nlooks and *nresident.  The distance between the samples varies, so
 * that a regular pattern of use does not bias them.
 */
static void
probe_sample(const struct probe *probe, unsigned *nsampled, unsigned *nresident)
{
	static uint32_t number;
	unsigned char pages[SAMPLE_PAGES];
	size_t page = os_page_size();
	size_t part = probe->bytes / page / PROBE_SAMPLES;
	size_t n = part < SAMPLE_PAGES ? part : SAMPLE_PAGES;

	for (size_t i = 0; i < PROBE_SAMPLES && part != 0; i++) {
		size_t room = part - n + 1;
		size_t at = i * part + (hash_multiply(++number) >> 40) % room;

		if (!os_resident(
			(void *)(probe->start + at * page), n * page, pages))
			continue;
		*nsampled += (unsigned)n;
		for (size_t j = 0; j < n; j++)
			*nresident += pages[j] & 1;
	}
}

/*
 * Sample the n latest probes, or the n latest probes for small blocks.  The
 * very latest probe is skipped, unless it is the only one, until a run of
 * RUN_MIN has followed it.  The program may not have touched it yet.
 */
static void
probes_sample(unsigned n, bool small, unsigned *nsampled, unsigned *nresident)
{
	unsigned end =
	    run_bytes < RUN_MIN && nprobes > 1 ? nprobes - 1 : nprobes;
	unsigned done = 0;

	for (unsigned i = 1; i < PROBES && i <= end && done < n; i++) {
		const struct probe *probe = &probes[(end - i) % PROBES];

		if (small && !probe->small)
			continue;
		probe_sample(probe, nsampled, nresident);
		done++;
	}
}

/* Density of the n latest probes, in units of 1/DENSITY_ONE. */
static unsigned
probes_density(unsigned n)
{
	unsigned nsampled = 0, nresident = 0;

	probes_sample(n, /* small */ false, &nsampled, &nresident);
	return nsampled == 0 ? 0 : nresident * DENSITY_ONE / nsampled;
}

/* Do the latest probes for small blocks show less than DENSITY_LOW touched? */
static bool
probes_are_sparse(void)
{
	unsigned nsampled = 0, nresident = 0;

	probes_sample(PROBES_LATEST, /* small */ true, &nsampled, &nresident);
	return nsampled != 0 &&
	       nresident * DENSITY_ONE / nsampled < DENSITY_LOW;
}

/*
 * Density of all probes, or of the latest probes alone if those are sparser,
 * because the program may have changed its use of memory.
 */
static unsigned
density_estimate(void)
{
	unsigned all = probes_density(PROBES - 1);
	unsigned latest = probes_density(PROBES_LATEST);

	return latest < all ? latest : all;
}

/*
 * Bytes of the longest run for a density of dense/DENSITY_ONE; 0 if there is to
 * be none.
 */
static size_t
run_max_for(size_t heap_bytes, unsigned dense)
{
	unsigned untouched = DENSITY_ONE - dense;
	size_t bytes;

	if (untouched < DENSITY_ONE / 16)
		untouched = DENSITY_ONE / 16;
	bytes = align_down(
	    heap_bytes / WASTE_PART / untouched * DENSITY_ONE, HUGE_PAGE);
	if (dense >= DENSITY_HIGH && bytes < RUN_DENSE_MIN)
		return RUN_DENSE_MIN;
	return dense >= DENSITY_ONE / 2 && bytes >= RUN_MIN ? bytes : 0;
}

size_t
huge_growth_max(size_t heap_bytes, size_t block_bytes)
{
	for_small = block_bytes < LARGE_BLOCK_MIN;
	if (huge_use == HUGE_ALWAYS) {
		run_max_bytes = SIZE_MAX; /* no probe */
		return SIZE_MAX;
	}
	if (huge_use == HUGE_NO || heap_bytes < HUGE_HEAP_MIN)
		return 0;
	if (heap_bytes >= FILLED_HEAP_MIN && for_small &&
	    !probes_are_sparse()) {
		run_max_bytes = run_max_for(heap_bytes, DENSITY_ONE);
		return SIZE_MAX;
	}
	run_max_bytes = run_max_for(heap_bytes, density_estimate());
	return run_max_bytes == 0 ? 0 : heap_bytes / 2;
}

size_t
huge_growth_next(bool *probe)
{
	*probe = run_bytes >= run_max_bytes;
	return *probe ? HUGE_PAGE : run_max_bytes - run_bytes;
}

void
huge_growth_record(uintptr_t from, uintptr_t to, bool huge)
{
	if (huge) {
		run_bytes += to - from;
		return;
	}
	run_bytes = 0;
	probes[nprobes++ % PROBES] = (struct probe){from, to - from, for_small};
}
