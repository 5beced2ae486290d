/* test_segment.c - boundary tags and their reserve, and the treap of spans */
#include <check.h>
#include <stdlib.h>

#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/segment.h"

#define NSPANS 2000

START_TEST(a_ring_passes_over_markers)
{
	struct segment head, mark, seg;

	segment_init(&head, VMEM_SPAN);
	segment_init(&mark, VMEM_WALKER);
	segment_init(&seg, VMEM_FREE);
	segment_link_after(&head, &mark);
	segment_link_after(&mark, &seg);
	ck_assert_ptr_eq(segment_next(&head), &seg);
	ck_assert_ptr_eq(segment_prev(&seg), &head);
	segment_unlink(&seg);
	ck_assert_ptr_eq(segment_next(&head), &head);
}
END_TEST

START_TEST(the_last_integer_of_a_segment_can_be_the_last_there_is)
{
	struct segment seg = {.start = UINTPTR_MAX - 15, .size = 16};

	ck_assert(segment_last(&seg) == UINTPTR_MAX);
}
END_TEST

START_TEST(a_reserve_gives_as_many_tags_as_were_asked_for)
{
	struct reserve reserve = {.spare = NULL};
	size_t used = meta_used();
	struct segment *tags[100];

	ck_assert(segment_reserve(&reserve, 100));
	ck_assert_uint_ge(reserve.nspare, 100);
	for (int i = 0; i < 100; i++) {
		tags[i] = segment_new(&reserve, VMEM_FREE, 1, 1);
		ck_assert_ptr_nonnull(tags[i]);
	}
	for (int i = 0; i < 100; i++)
		segment_delete(&reserve, tags[i]);
	segment_reserve_free(&reserve);
	ck_assert_uint_eq(reserve.nspare, 0);
	ck_assert_uint_eq(meta_used(), used);
}
END_TEST

START_TEST(a_reserve_that_cannot_be_filled_keeps_what_it_has)
{
	struct reserve reserve = {.spare = NULL};
	size_t used;

	ck_assert(segment_reserve(&reserve, 2));
	used = meta_used() - reserve.nspare * sizeof(struct segment);
	os_fail_nth(1, 1u << 30);
	for (unsigned n = 2; segment_reserve(&reserve, n); n++)
		ck_assert_uint_ge(reserve.nspare, n);
	os_fail_nth(0, 0);
	ck_assert_uint_ge(reserve.nspare, 2);
	segment_reserve_free(&reserve);
	ck_assert_uint_eq(meta_used(), used);
}
END_TEST

START_TEST(tags_move_between_reserves)
{
	struct reserve a = {.spare = NULL}, b = {.spare = NULL};

	ck_assert(segment_reserve(&a, 4));
	unsigned n = a.nspare;

	segment_reserve_move(&a, &b, 4);
	ck_assert_uint_eq(a.nspare, n - 4);
	ck_assert_uint_eq(b.nspare, 4);
	segment_reserve_free(&a);
	segment_reserve_free(&b);
	ck_assert_ptr_null(a.spare);
	ck_assert_ptr_null(b.spare);
}
END_TEST

/* The length of the longest path in a treap. */
static unsigned
depth(const struct segment *root)
{
	if (root == NULL)
		return 0;
	unsigned l = depth(root->left), r = depth(root->right);

	return 1 + (l > r ? l : r);
}

START_TEST(the_treap_finds_spans_at_and_above_an_address)
{
	static struct segment spans[NSPANS];
	struct segment *root = NULL;

	/* Insert ascending starts, the worst case of an unbalanced tree. */
	for (int i = 0; i < NSPANS; i++) {
		spans[i].start = 100 + (uintptr_t)i * 10;
		spans[i].size = 5;
		span_insert(&root, &spans[i]);
	}
	ck_assert_uint_lt(depth(root), 60);
	ck_assert_ptr_null(span_near(root, 99, /* above */ false));
	ck_assert_ptr_eq(span_near(root, 1, /* above */ true), &spans[0]);
	ck_assert_ptr_null(
	    span_near(root, spans[NSPANS - 1].start, /* above */ true));
	for (int i = 0; i < NSPANS; i++) {
		ck_assert_ptr_eq(
		    span_near(root, spans[i].start, /* above */ false),
		    &spans[i]);
		ck_assert_ptr_eq(
		    span_near(root, spans[i].start + 9, /* above */ false),
		    &spans[i]);
		ck_assert_ptr_eq(
		    span_near(root, spans[i].start - 1, /* above */ true),
		    &spans[i]);
	}
	for (int i = 0; i < NSPANS; i += 2)
		span_remove(&root, &spans[i]);
	for (int i = 1; i < NSPANS; i += 2)
		ck_assert_ptr_eq(
		    span_near(root, spans[i].start + 10, /* above */ false),
		    &spans[i]);
	for (int i = 1; i < NSPANS; i += 2)
		span_remove(&root, &spans[i]);
	ck_assert_ptr_null(root);
}
END_TEST

/* head, span [100, 200), free [100, 150), allocated [150, 200) */
static void
ring_build(struct segment *head, struct segment *span, struct segment *a,
    struct segment *b, struct segment **root)
{
	segment_init(head, VMEM_SPAN);
	*span = (struct segment){.start = 100, .size = 100, .type = VMEM_SPAN};
	*a = (struct segment){.start = 100, .size = 50, .type = VMEM_FREE};
	*b = (struct segment){.start = 150, .size = 50, .type = VMEM_ALLOC};
	segment_link_after(head, span);
	segment_link_after(span, a);
	segment_link_after(a, b);
	*root = NULL;
	span_insert(root, span);
}

START_TEST(the_check_sees_gaps_overlaps_and_free_neighbours)
{
	struct segment head, span, a, b, *root;

	ring_build(&head, &span, &a, &b, &root);
	ck_assert(segment_check(&head, root));
	b.start = 151;
	ck_assert(!segment_check(&head, root));
	b.start = 150;
	b.size = 49;
	ck_assert(!segment_check(&head, root));
	b.size = 50;
	b.type = VMEM_FREE;
	ck_assert(!segment_check(&head, root));
	b.type = VMEM_ALLOC;
	ck_assert(segment_check(&head, root));
	ck_assert(!segment_check(&head, NULL));
}
END_TEST

Suite *
segment_suite(void)
{
	Suite *suite = suite_create("segment");
	TCase *tc = tcase_create("segment");

	tcase_add_test(tc, a_ring_passes_over_markers);
	tcase_add_test(
	    tc, the_last_integer_of_a_segment_can_be_the_last_there_is);
	tcase_add_test(tc, a_reserve_gives_as_many_tags_as_were_asked_for);
	tcase_add_test(tc, a_reserve_that_cannot_be_filled_keeps_what_it_has);
	tcase_add_test(tc, tags_move_between_reserves);
	tcase_add_test(tc, the_treap_finds_spans_at_and_above_an_address);
	tcase_add_test(tc, the_check_sees_gaps_overlaps_and_free_neighbours);
	suite_add_tcase(suite, tc);
	return suite;
}
