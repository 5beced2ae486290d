/*
 * cmd_sizes.c - umem sizes and frag: use of memory
 *
 * sizes is ::umem_malloc_dist, and with -i ::umem_malloc_info.  The requested
 * size is known in debugged caches; for other caches, the size class is used.
 *
 * frag: a slab returns to the heap when its last buffer is freed.  If the
 * buffers of a cache were compacted, they would need fewer slabs; "if packed"
 * is the memory of the other slabs.  Slabs that are at most a quarter full are
 * sparse: their few buffers pin them.  With audit, frag prints the callers that
 * allocated these buffers.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/inspect/audit.h"
#include "tools/inspect/print.h"
#include "tools/inspect/snapshot.h"

#define BAR 50

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
	char range[48];
	uint64_t length = nsizes ? (n * BAR + nsizes - 1) / nsizes : 0;

	assert(n <= nsizes && length <= BAR);
	if (json_wanted) {
		json_open(NULL, '{');
		json_number("least", low);
		json_number("most", high);
		json_number("count", n);
		json_close();
		return;
	}
	snprintf(range, sizeof(range), "%lu-%lu", low, high);
	printf("%11s |", range);
	for (uint64_t i = 0; i < BAR; i++)
		putchar(i < length ? '@' : ' ');
	printf(" %lu\n", n);
}

/*
 * Returns the first size of the bin that contains this size, and the last in
 * *last.  A bin has step sizes or, if geometric, ends at twice its start.
 * Because a damaged core may contain any size, neither overflows.
 */
static uint64_t
bin_of(uint64_t size, uint64_t step, bool geometric, uint64_t *last)
{
	uint64_t start = 0, bytes = step;

	assert(step != 0);
	if (!geometric)
		start = size - size % step;
	for (; size - start >= bytes; bytes = start)
		start += bytes;
	*last = bytes - 1 > UINT64_MAX - start ? UINT64_MAX : start + bytes - 1;
	assert(start <= size && size <= *last);
	return start;
}

struct bins {
	uint64_t most;  /* of them */
	uint64_t least; /* bytes of one */
	bool geometric;
};

static void
print_bins(const struct bins *bins)
{
	uint64_t largest = nsizes ? sizes[nsizes - 1] : 0;
	uint64_t step = bins->least;
	size_t i = 0;

	assert(step != 0 && bins->most != 0);
	while (!bins->geometric && largest / step >= bins->most &&
	       step <= UINT64_MAX / 2)
		step *= 2;
	if (json_wanted)
		json_open(NULL, '[');
	else
		printf("%11s  %.*s Distribution %.*s count\n", "malloc size",
		    18, "------------------", 18, "------------------");
	while (i < nsizes) {
		uint64_t last, start;
		size_t first = i;

		start = bin_of(sizes[i], step, bins->geometric, &last);
		while (i < nsizes && sizes[i] <= last)
			i++;
		print_bar(start, last, i - first);
	}
	if (json_wanted)
		json_close();
}

static void
print_dump(void)
{
	for (size_t i = 0, first = 0; i < nsizes; i = first) {
		while (first < nsizes && sizes[first] == sizes[i])
			first++;
		if (!json_wanted)
			printf("%lu\t%zu\n", sizes[i], first - i);
	}
}

static void
print_info_row(const struct cache *c, uint64_t n, uint64_t asked)
{
	/* taken: if packed densely, with records; over: beyond asked. */
	uint64_t taken = c->nchunks ? n * c->slab_bytes / c->nchunks : 0;
	uint64_t over;

	assert(n != 0);
	taken += n * c->record_bytes;
	over = taken > asked ? taken - asked : 0;
	if (json_wanted) {
		json_open(NULL, '{');
		json_text("cache", c->name);
		json_number("buffer_size", c->bufsize);
		json_number("buffers", n);
		json_number("asked", asked);
		json_number("overhead", over);
		json_close();
		return;
	}
	printf("%016lx %6lu %6lu %8lu %8lu %10lu %10lu %5.1f%%\n", c->at,
	    c->bufsize, c->bufsize, n, asked / n, asked, over,
	    asked ? 100.0 * (double)over / (double)asked : 0.0);
}

static void
print_info(struct model *model)
{
	if (json_wanted)
		json_open(NULL, '[');
	else
		printf("%-16s %6s %6s %8s %8s %10s %10s %6s\n", "CACHE",
		    "BUFSZ", "MAXMAL", "BUFMALLC", "AVG_MAL", "MALLOCED",
		    "OVERHEAD", "%OVER");
	for (size_t k = 0; k < model->ncaches; k++) {
		uint64_t n = 0, asked = 0;

		if (model->caches[k].class == 0)
			continue;
		for (size_t i = 0; i < model->nslabs; i++) {
			const struct slab *s = &model->slabs[i];

			for (unsigned j = 0; s->cache == k && j < s->nchunks;
			     j++)
				if (bit_get(s->live, j)) {
					n++;
					asked += chunk_size(model, s, j);
				}
		}
		if (n != 0)
			print_info_row(&model->caches[k], n, asked);
	}
	if (json_wanted)
		json_close();
}

static uint64_t
count_option(const char *text)
{
	uint64_t value = size_argument(text, "sizes: ", "size");

	if (value == 0)
		fail_with(EXIT_ERROR, "sizes: %s is no size", text);
	return value;
}

int
command_sizes(int argc, char **argv)
{
	struct bins bins = {.most = 16, .least = 16};
	bool dump = false, info = false;
	struct model *model;
	int letter;

	while ((letter = next_option(argc, argv, "b:B:dgi")) != -1)
		switch (letter) {
		case 'b':
			bins.most = count_option(optarg);
			break;
		case 'B':
			bins.least = count_option(optarg);
			break;
		case 'd':
			dump = true;
			break;
		case 'g':
			bins.geometric = true;
			break;
		case 'i':
			info = true;
			break;
		}
	model = snapshot_open(only_argument(argc, argv), 0);
	if (info) {
		print_info(model);
		return EXIT_OK;
	}
	collect_sizes(model);
	if (nsizes != 0)
		qsort(sizes, nsizes, sizeof(*sizes), ascending);
	if (dump && !json_wanted)
		print_dump();
	else
		print_bins(&bins);
	return EXIT_OK;
}

/* The memory that one caller pins. */
struct pin {
	const char *caller;
	uint64_t nbuffers;
	uint64_t nslabs; /* sparse slabs with a buffer of the caller */
	uint64_t bytes;
	size_t last; /* slab counted last */
};

static struct pin *pins;
static size_t npins, pins_capacity;

static struct pin *
pin_of_caller(const char *caller)
{
	for (size_t i = 0; i < npins; i++)
		if (strcmp(pins[i].caller, caller) == 0)
			return &pins[i];
	ARRAY_GROW(pins, npins, pins_capacity);
	pins[npins] = (struct pin){.caller = caller, .last = SIZE_MAX};
	return &pins[npins++];
}

static bool
is_sparse(const struct slab *s, unsigned n)
{
	assert(n <= s->nchunks);
	return s->nchunks > 1 && n != 0 && n <= s->nchunks / 4;
}

static void
pin_slab(struct model *model, size_t i)
{
	const struct slab *s = &model->slabs[i];
	struct audit audit;

	for (unsigned j = 0; j < s->nchunks; j++) {
		struct pin *pin;

		if (!bit_get(s->live, j) ||
		    !audit_of_chunk(model, s, j, &audit) || audit.depth == 0)
			continue;
		pin = pin_of_caller(audit_caller(model, &audit));
		pin->nbuffers++;
		if (pin->last == i)
			continue;
		pin->last = i;
		pin->nslabs++;
		pin->bytes += model->caches[s->cache].slab_bytes;
		assert(pin->nslabs <= pin->nbuffers);
	}
}

struct fragments {
	const struct cache *cache;
	uint64_t nsparse;
	uint64_t nempty;
	uint64_t back; /* bytes, if packed */
};

static int
by_back(const void *a, const void *b)
{
	const struct fragments *x = a, *y = b;

	return order_numbers(y->back, x->back);
}

static int
by_pinned(const void *a, const void *b)
{
	const struct pin *x = a, *y = b;

	return order_numbers(y->bytes, x->bytes);
}

static struct fragments *
collect_fragments(struct model *model)
{
	struct fragments *all = xalloc((model->ncaches + 1) * sizeof(*all));

	for (size_t i = 0; i < model->ncaches; i++)
		all[i].cache = &model->caches[i];
	for (size_t i = 0; i < model->nslabs; i++) {
		unsigned n =
		    bits_count(model->slabs[i].live, model->slabs[i].nchunks);
		struct fragments *of = &all[model->slabs[i].cache];

		of->nempty += n == 0;
		of->nsparse += is_sparse(&model->slabs[i], n);
		if (is_sparse(&model->slabs[i], n))
			pin_slab(model, i);
	}
	for (size_t i = 0; i < model->ncaches; i++) {
		const struct cache *c = all[i].cache;
		uint64_t need = (c->nlive + c->nchunks - 1) / c->nchunks;

		assert(c->import != 0 || need <= c->nslabs);
		if (c->import == 0)
			all[i].back = (c->nslabs - need) * c->slab_bytes;
	}
	qsort(all, model->ncaches, sizeof(*all), by_back);
	if (npins != 0)
		qsort(pins, npins, sizeof(*pins), by_pinned);
	return all;
}

static void
print_fragments(const struct model *model, const struct fragments *all)
{
	uint64_t back = 0;

	printf("%-25s %7s %7s %7s %9s %5s %9s\n", "CACHE", "SLABS", "SPARSE",
	    "EMPTY", "IN USE", "FULL", "IF PACKED");
	for (size_t i = 0; i < model->ncaches; i++) {
		const struct cache *c = all[i].cache;

		back += all[i].back;
		if (all[i].back == 0)
			continue;
		printf("%-25s %7lu %7lu %7lu %9lu %4.0f%% %9s\n", c->name,
		    c->nslabs, all[i].nsparse, all[i].nempty, c->nlive,
		    100.0 * (double)c->nlive / (double)c->ntotal,
		    size_text(all[i].back));
	}
	printf("%-25s %48s\n", "Total", size_text(back));
	if (npins == 0)
		return;
	printf("\n%9s %7s %9s %s\n", "PINNED", "SLABS", "BUFFERS", "CALLER");
	for (size_t i = 0; i < npins; i++)
		printf("%9s %7lu %9lu %s\n", size_text(pins[i].bytes),
		    pins[i].nslabs, pins[i].nbuffers, pins[i].caller);
}

static void
json_fragments(const struct model *model, const struct fragments *all)
{
	json_open(NULL, '{');
	json_open("caches", '[');
	for (size_t i = 0; i < model->ncaches; i++) {
		json_open(NULL, '{');
		json_text("cache", all[i].cache->name);
		json_number("slabs", all[i].cache->nslabs);
		json_number("sparse", all[i].nsparse);
		json_number("empty", all[i].nempty);
		json_number("in_use", all[i].cache->nlive);
		json_number("total", all[i].cache->ntotal);
		json_number("if_packed", all[i].back);
		json_close();
	}
	json_close();
	json_open("callers", '[');
	for (size_t i = 0; i < npins; i++) {
		json_open(NULL, '{');
		json_text("caller", pins[i].caller);
		json_number("slabs", pins[i].nslabs);
		json_number("buffers", pins[i].nbuffers);
		json_number("pinned", pins[i].bytes);
		json_close();
	}
	json_close();
	json_close();
}

int
command_frag(int argc, char **argv)
{
	struct fragments *all;
	struct model *model;

	model = snapshot_open(target_argument(argc, argv), 0);
	all = collect_fragments(model);
	if (json_wanted)
		json_fragments(model, all);
	else
		print_fragments(model, all);
	free(all);
	return EXIT_OK;
}
