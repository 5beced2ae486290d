/*
 * sample_text.c - the samples as a heap profile
 *
 * The text has the format of the heap profiles of gperftools, which pprof
 * reads: the blocks and bytes that are live, and in brackets all that were
 * allocated, a line for each stack, and the mappings of the process, by which
 * pprof finds the files of the addresses:
 *
 *	heap profile: 1200: 53000000 [4200: 98000000] @ heapprofile
 *	12: 530000 [14: 620000] @ 0x55d0c8a011c9 0x7f0a2c1d0d90
 *	MAPPED_LIBRARIES:
 *	55d0c8a00000-55d0c8a05000 r-xp 00001000 fd:01 123 /usr/sbin/srv
 *
 * The first pass over the stacks counts them, so that the text gets memory for
 * all of them; the second pass writes them.  Stacks for which the text has no
 * space, because they were entered in between, are left out.
 *
 * The text is in memory that is mapped for it alone, so it does not change the
 * samples that it shows.
 */
#include "umem/profile/sample_stack.h"
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

/* The stacks of the first pass. */
struct totals {
	struct sample_sum live, allocated;
	size_t text_bytes; /* of their lines, at most */
};

static size_t
stack_line_bytes(const struct sample_stack *stack)
{
	return LINE_BYTES + stack->depth * ADDRESS_BYTES;
}

/* Counts a stack; for sample_stack_each(). */
static void
totals_add(const struct sample_stack *stack, void *arg)
{
	struct totals *totals = arg;

	sample_sum_add(&totals->live, sample_sums_live(&stack->sums));
	sample_sum_add(&totals->allocated, stack->sums.allocated);
	totals->text_bytes += stack_line_bytes(stack);
}

/* Appends "blocks: bytes [blocks: bytes] @". */
static void
text_add_sums(
    struct text *text, struct sample_sum live, struct sample_sum allocated)
{
	text_line(text, "%lu: %lu [%lu: %lu] @", sample_sum_blocks(live),
	    live.bytes, sample_sum_blocks(allocated), allocated.bytes);
}

/* Appends the line of a stack; for sample_stack_each(). */
static void
text_add_stack(const struct sample_stack *stack, void *arg)
{
	struct text *text = arg;
	struct sample_sum live = sample_sums_live(&stack->sums);

	/* Without sums it is the stack of a free. */
	if ((live.blocks | stack->sums.allocated.blocks) == 0 ||
	    stack_line_bytes(stack) > text->most - text->n)
		return;
	text_add_sums(text, live, stack->sums.allocated);
	for (unsigned i = 0; i < stack->depth; i++)
		text_line(text, " %p", (void *)stack->pc[i]);
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

	sample_stack_each(totals_add, &totals);
	text = text_create(totals.text_bytes + LINE_BYTES + MAPPINGS_BYTES);
	if (text == NULL)
		return NULL;
	text_line(text, "heap profile: ");
	text_add_sums(text, totals.live, totals.allocated);
	text_line(text, " heapprofile\n");
	sample_stack_each(text_add_stack, text);
	text_add_mappings(text);
	return text;
}
