/*
 * cmd_sizes.c - umem sizes: how many blocks of malloc() have which size
 *
 * The requested size is known in debugged caches; for other caches, the size
 * class is used.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/inspect/audit.h"
#include "tools/inspect/print.h"
#include "tools/inspect/snapshot.h"

/* Columns of the longest bar. */
#define BAR 50

/* Sizes below it, a power of two, have one bar. */
#define LEAST 16

static size_t nsizes, sizes_capacity;
static uint64_t *sizes;

static void
size_add(uint64_t size)
{
	ARRAY_GROW(sizes, nsizes, sizes_capacity);
	sizes[nsizes++] = size;
}

static uint64_t
chunk_size(struct model *model, const struct slab *s, unsigned i)
{
	struct audit audit;

	if (audit_of_chunk(model, s, i, &audit))
		return audit.size;
	return model->caches[s->cache].bufsize;
}

static uint64_t
large_size(struct model *model, const struct large *large)
{
	struct audit audit;

	return audit_of_large(model, large, &audit) ? audit.size : large->bytes;
}

static void
collect_sizes(struct model *model)
{
	for (size_t i = 0; i < model->nslabs; i++) {
		const struct slab *s = &model->slabs[i];

		if (model->caches[s->cache].class == 0)
			continue;
		for (unsigned j = 0; j < s->nchunks; j++)
			if (bit_get(s->live, j))
				size_add(chunk_size(model, s, j));
	}
	for (size_t i = 0; i < model->nlarges; i++)
		if (!model->larges[i].waits)
			size_add(large_size(model, &model->larges[i]));
}

static int
ascending(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return order_numbers(*x, *y);
}

static void
print_bar(uint64_t low, uint64_t high, uint64_t n)
{
	uint64_t length = (n * BAR + nsizes - 1) / nsizes;

	assert(n <= nsizes && length <= BAR);
	if (json_wanted) {
		json_open(NULL, '{');
		json_number("least", low);
		json_number("most", high);
		json_number("count", n);
		json_close();
		return;
	}
	printf("%11s |",
	    low == high ? xprint("%lu", low) : xprint("%lu-%lu", low, high));
	for (uint64_t i = 0; i < BAR; i++)
		putchar(i < length ? '@' : ' ');
	printf(" %lu\n", n);
}

/* Returns the last size of the power of two that a size belongs to. */
static uint64_t
last_of(uint64_t size)
{
	uint64_t last = LEAST - 1;

	while (last < size)
		last = 2 * last + 1;
	return last;
}

/* Prints a bar for each power of two, or for each size. */
static void
print_bars(bool each_size)
{
	if (json_wanted)
		json_open(NULL, '[');
	else
		printf("%11s  %-*s  blocks\n", "bytes", BAR, "share");
	for (size_t i = 0; i < nsizes;) {
		uint64_t last = each_size ? sizes[i] : last_of(sizes[i]);
		uint64_t least = last > LEAST - 1 ? last / 2 + 1 : 0;
		size_t first = i;

		while (i < nsizes && sizes[i] <= last)
			i++;
		print_bar(each_size ? last : least, last, i - first);
	}
	if (json_wanted)
		json_close();
}

int
command_sizes(int argc, char **argv)
{
	bool each_size = false;
	struct model *model;

	while (next_option(argc, argv, "d") != -1)
		each_size = true;
	model = snapshot_open(only_argument(argc, argv), 0);
	collect_sizes(model);
	if (nsizes != 0)
		qsort(sizes, nsizes, sizeof(*sizes), ascending);
	print_bars(each_size);
	return EXIT_OK;
}
