/* test_slab_layout.c - the layout of slabs, checked by brute force */
#include <check.h>
#include <stdlib.h>

#include "umem/base/size_class.h"
#include "umem/slab/slab_layout.h"
#include "vmem/heap.h"

static void
check_waste(const struct slab_layout *l, size_t quantum)
{
	size_t slack = l->slab_bytes - l->nchunks * l->chunk;

	ck_assert_uint_ge(l->nchunks, 1);
	ck_assert_uint_eq(l->slab_bytes % quantum, 0);
	ck_assert_uint_eq(l->slab_bytes / l->chunk, l->nchunks);
	ck_assert_uint_le(slack, l->slab_bytes / 8);
	/* No smaller slab satisfies the rules. */
	for (size_t bytes = align_up(l->chunk, quantum); bytes < l->slab_bytes;
	     bytes += quantum)
		ck_assert_uint_gt(bytes % l->chunk, bytes / 8);
}

static void
check_colour(const struct slab_layout *l, size_t align)
{
	size_t slack = l->slab_bytes - l->nchunks * l->chunk;
	size_t colour = 0, natural = l->chunk & -l->chunk;
	size_t n = 0;

	ck_assert_uint_le(l->colour_max, slack);
	ck_assert_int_eq(l->colour_step == 0, l->colour_max == 0);
	if (l->colour_step != 0) {
		ck_assert_uint_ge(l->colour_step, CACHE_LINE);
		ck_assert(is_pow2(l->colour_step));
		ck_assert_uint_eq(l->colour_step % align, 0);
		ck_assert_uint_eq(l->colour_step % natural, 0);
		ck_assert_uint_eq(l->colour_max % l->colour_step, 0);
		/* The colours use the whole slack. */
		ck_assert_uint_lt(slack - l->colour_max, l->colour_step);
	}
	do {
		ck_assert_uint_le(colour, l->colour_max);
		colour = slab_layout_next_colour(l, colour);
		n++;
	} while (colour != 0 && n <= slack);
	ck_assert_uint_eq(
	    n, l->colour_step == 0 ? 1 : l->colour_max / l->colour_step + 1);
}

/* Check the addresses near the start of each chunk and near the slab's end. */
static void
check_index(const struct slab_layout *l)
{
	for (size_t i = 0; i < l->nchunks; i++)
		for (size_t part = 0; part < 4; part++) {
			size_t in = part < 2 ? part : l->chunk - part + 1;

			if (in < l->chunk)
				ck_assert_uint_eq(
				    slab_layout_index(l, i * l->chunk + in), i);
		}
	ck_assert_uint_eq(slab_layout_index(l, l->slab_bytes - 1),
	    (l->slab_bytes - 1) / l->chunk);
}

static void
check_layout(size_t chunk, size_t align, size_t quantum)
{
	struct slab_layout l;

	ck_assert(slab_layout(&l, chunk, align, quantum));
	ck_assert_uint_eq(l.chunk, chunk);
	check_waste(&l, quantum);
	check_colour(&l, align);
	check_index(&l);
}

START_TEST(small_chunks_of_every_size)
{
	static const size_t quanta[] = {4096, 16384, HEAP_UNIT};

	for (unsigned q = 0; q < array_size(quanta); q++)
		for (size_t chunk = 8; chunk <= 80 * KIB;
		     chunk += chunk < 4096 ? 8 : 72)
			check_layout(chunk, 8, quanta[q]);
}
END_TEST

START_TEST(chunks_of_every_alignment)
{
	for (size_t align = 1; align <= 64 * KIB; align *= 2)
		for (size_t n = 1; n <= 70; n++) {
			check_layout(n * align, align, 4096);
			check_layout(n * align, align, HEAP_UNIT);
		}
}
END_TEST

START_TEST(chunks_of_every_size_class)
{
	for (unsigned c = 1; c <= size_classes.n; c++)
		check_layout(size_classes.bytes[c], 16, HEAP_UNIT);
}
END_TEST

START_TEST(large_chunks)
{
	for (size_t chunk = 64 * KIB; chunk < 1 * GIB; chunk += chunk / 9 + 8)
		check_layout(align_up(chunk, 8), 8, HEAP_UNIT);
	check_layout((size_t)1 << 60, 16, HEAP_UNIT);
	check_layout(PTRDIFF_MAX / 2 + 1, 16, HEAP_UNIT);
}
END_TEST

START_TEST(what_cannot_be_described_is_refused)
{
	struct slab_layout l;

	ck_assert(!slab_layout(&l, 0, 16, HEAP_UNIT));
	ck_assert(!slab_layout(&l, SIZE_MAX, 1, HEAP_UNIT));
	ck_assert(!slab_layout(&l, SIZE_MAX - 15, 16, HEAP_UNIT));
	ck_assert(!slab_layout(&l, SIZE_MAX - HEAP_UNIT + 2, 2, HEAP_UNIT));
	/*
	 * The largest number of chunks that a 32-bit count can hold, then
	 * larger ones.
	 */
	ck_assert(slab_layout(&l, 1, 1, INT32_MAX / 2));
	ck_assert(!slab_layout(&l, 1, 1, (size_t)1 << 32));
	ck_assert(!slab_layout(&l, 1, 1, (size_t)1 << 62));
}
END_TEST

Suite *
slab_layout_suite(void)
{
	Suite *suite = suite_create("slab_layout");
	TCase *tc = tcase_create("slab_layout");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, small_chunks_of_every_size);
	tcase_add_test(tc, chunks_of_every_alignment);
	tcase_add_test(tc, chunks_of_every_size_class);
	tcase_add_test(tc, large_chunks);
	tcase_add_test(tc, what_cannot_be_described_is_refused);
	suite_add_tcase(suite, tc);
	return suite;
}
