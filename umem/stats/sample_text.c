/*
 * sample_text.c - the live samples as a heap profile
 *
 * The text has the format of the heap profiles of gperftools, which pprof
 * reads: the blocks and bytes for which the samples stand, a line for each
 * sample, and the mappings of the process, by which pprof finds the files of
 * the addresses:
 *
 *	heap profile: 1200: 53000000 [1200: 53000000] @ heapprofile
 *	12: 530000 [12: 530000] @ 0x55d0c8a011c9 0x7f0a2c1d0d90
 *	MAPPED_LIBRARIES:
 *	55d0c8a00000-55d0c8a05000 r-xp 00001000 fd:01 123 /usr/sbin/srv
 *
 * The first pass over the samples counts them, so that the text gets memory for
 * all of them; the second pass writes them.  Samples for which the text has no
 * space, because they were taken in between, are left out.
 *
 * The text is in memory that is mapped for it alone, so it does not change the
 * samples that it shows.
 */
#include "umem/profile/sample.h"
#include "umem/profile/sample_count.h"
#include "umem/stats/sample_text.h"
#include "vmem/os.h"

/* Bytes of a line without its addresses, and of an address. */
#define LINE_BYTES    ((size_t)128)
#define ADDRESS_BYTES ((size_t)19)

/*
 * Bytes for the mappings: as many as the kernel permits (65530).  Only the part
 * that is used has memory.
 */
#define MAPPINGS_BYTES (8 * MIB)

/* The samples of the first pass. */
struct totals {
	double blocks, bytes; /* for which they stand */
	size_t text_bytes;    /* of their lines, at most */
};

/* Returns the number of blocks for which a sample stands. */
static double
sample_blocks(const struct sample *s)
{
	/* With a mean of 1, every block is a sample. */
	if (s->counted == 0 || s->mean <= 1)
		return 1;
	return (double)sample_weight(s->counted, s->mean) / (double)s->counted;
}

static size_t
sample_line_bytes(const struct sample *s)
{
	return LINE_BYTES + s->stack->depth * ADDRESS_BYTES;
}

/* Counts a sample; for sample_each(). */
static void
totals_add(struct sample *s, void *arg)
{
	struct totals *totals = arg;
	double blocks = sample_blocks(s);

	totals->blocks += blocks;
	totals->bytes += blocks * (double)load_relaxed(&s->size);
	totals->text_bytes += sample_line_bytes(s);
}

/* Appends "blocks: bytes [blocks: bytes] @". */
static void
text_add_figures(struct text *text, double blocks, double bytes)
{
	uint64_t n = (uint64_t)(blocks + 0.5), size = (uint64_t)(bytes + 0.5);

	text_line(text, "%lu: %lu [%lu: %lu] @", n, size, n, size);
}

/* Appends the line of a sample; for sample_each(). */
static void
text_add_sample(struct sample *s, void *arg)
{
	struct text *text = arg;
	double blocks = sample_blocks(s);

	if (sample_line_bytes(s) > text->most - text->n)
		return;
	text_add_figures(text, blocks, blocks * (double)load_relaxed(&s->size));
	for (unsigned i = 0; i < s->stack->depth; i++)
		text_line(text, " %p", (void *)s->stack->pc[i]);
	text_line(text, "\n");
}

/* Appends the mappings, unless the process is confined. */
static void
text_add_mappings(struct text *text)
{
	size_t nread;
	int fd;

	text_line(text, "MAPPED_LIBRARIES:\n");
	/* A filter may end a confined process for an open(). */
	if (os_is_confined())
		return;
	fd = os_open("/proc/self/maps");
	if (fd < 0)
		return;
	do {
		nread =
		    os_read(fd, text->bytes + text->n, text->most - text->n);
		text->n += nread;
	} while (nread != 0);
	os_close(fd);
}

struct text *
sample_text_create(void)
{
	struct totals totals = {.text_bytes = LINE_BYTES};
	struct text *text;

	sample_each(totals_add, &totals);
	text = text_create(totals.text_bytes + LINE_BYTES + MAPPINGS_BYTES);
	if (text == NULL)
		return NULL;
	text_line(text, "heap profile: ");
	text_add_figures(text, totals.blocks, totals.bytes);
	text_line(text, " heapprofile\n");
	sample_each(text_add_sample, text);
	text_add_mappings(text);
	return text;
}
