/* test_cache_args.c - caches from a structure: size, name, zeros and strings */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "umem/cache/cache.h"
#include "umem/umem.h"

static int nmade, nunmade;

static int
construct(void *buf, void *priv, int flags)
{
	(void)flags;
	memset(buf, 0x5a, 96);
	nmade += *(int *)priv;
	return 0;
}

static void
destruct(void *buf, void *priv)
{
	(void)buf;
	nunmade += *(int *)priv;
}

static int one = 1;
static const struct umem_cache_args full = {.size = 96,
    .align = 32,
    .constructor = construct,
    .destructor = destruct,
    .priv = &one,
    .cflags = UMC_NOMAGAZINE};

START_TEST(every_attribute_arrives)
{
	umem_cache_t *cache =
	    umem_cache_create_args("every", &full, sizeof(full));
	unsigned char *object;

	ck_assert_ptr_nonnull(cache);
	ck_assert_str_eq(umem_cache_name(cache), "every");
	ck_assert_uint_eq(umem_cache_size(cache), 96);
	ck_assert(!cache->has_magazines);
	object = umem_cache_alloc(cache, UMEM_DEFAULT);
	ck_assert_ptr_nonnull(object);
	ck_assert_uint_eq((uintptr_t)object % 32, 0);
	ck_assert_uint_eq(object[95], 0x5a);
	umem_cache_free(cache, object);
	umem_cache_destroy(cache);
	ck_assert_int_eq(nmade, 1);
	ck_assert_int_eq(nunmade, 1);
}
END_TEST

/* The structure as a later version of the header might define it. */
struct longer {
	struct umem_cache_args args;
	uint64_t more[3];
};

START_TEST(a_longer_structure_may_have_zeros_only)
{
	struct longer longer = {.args = full};
	umem_cache_t *cache;

	cache = umem_cache_create_args("longer", &longer.args, sizeof(longer));
	ck_assert_ptr_nonnull(cache);
	umem_cache_destroy(cache);
	for (size_t i = 0; i < sizeof(longer.more); i++) {
		((char *)longer.more)[i] = 1;
		errno = 0;
		ck_assert_ptr_null(umem_cache_create_args(
		    "longer", &longer.args, sizeof(longer)));
		ck_assert_int_eq(errno, EINVAL);
		((char *)longer.more)[i] = 0;
	}
}
END_TEST

START_TEST(wrong_arguments_are_invalid)
{
	struct umem_cache_args args = full;

	errno = 0;
	ck_assert_ptr_null(umem_cache_create_args("null", NULL, sizeof(args)));
	ck_assert_int_eq(errno, EINVAL);
	for (size_t bytes = 0; bytes < sizeof(args); bytes += 8) {
		errno = 0;
		ck_assert_ptr_null(
		    umem_cache_create_args("less", &args, bytes));
		ck_assert_int_eq(errno, EINVAL);
	}
	args.size = 0;
	errno = 0;
	ck_assert_ptr_null(umem_cache_create_args("0", &args, sizeof(args)));
	ck_assert_int_eq(errno, EINVAL);
	errno = 0;
	ck_assert_ptr_null(umem_cache_create_args(NULL, &full, sizeof(full)));
	ck_assert_int_eq(errno, EINVAL);
}
END_TEST

struct line {
	_Alignas(64) char text[100];
};

START_TEST(a_type_gives_name_size_and_alignment)
{
	umem_cache_t *cache = UMEM_CACHE(struct line, 0);

	ck_assert_str_eq(umem_cache_name(cache), "struct line");
	ck_assert_uint_eq(umem_cache_size(cache), 128);
	for (int i = 0; i < 50; i++)
		ck_assert_uint_eq(
		    (uintptr_t)umem_cache_alloc(cache, 0) % 64, 0);
}
END_TEST

START_TEST(a_long_name_is_cut)
{
	umem_cache_t *cache =
	    umem_cache_create("0123456789012345678901234567890123456789", 8, 0,
		NULL, NULL, NULL, NULL, NULL, 0);

	ck_assert_str_eq(
	    umem_cache_name(cache), "0123456789012345678901234567890");
}
END_TEST

START_TEST(an_object_is_cleared)
{
	umem_cache_t *cache = umem_cache_create(
	    "cleared", 1000, 0, NULL, NULL, NULL, NULL, NULL, 0);

	for (int i = 0; i < 100; i++) {
		char *object = umem_cache_zalloc(cache, UMEM_DEFAULT);

		for (int k = 0; k < 1000; k++)
			ck_assert_int_eq(object[k], 0);
		memset(object, i + 1, 1000);
		umem_cache_free(cache, object);
	}
	umem_setmtbf(1);
	errno = 0;
	ck_assert_ptr_null(umem_cache_zalloc(cache, UMEM_DEFAULT));
	ck_assert_int_eq(errno, ENOMEM);
}
END_TEST

START_TEST(a_constructed_object_and_an_id_are_not_cleared)
{
	struct umem_cache_args args = full;
	umem_cache_t *cache =
	    umem_cache_create_args("made", &args, sizeof(args));

	errno = 0;
	ck_assert_ptr_null(umem_cache_zalloc(cache, UMEM_NOFAIL));
	ck_assert_int_eq(errno, EINVAL);
	args.constructor = NULL;
	args.cflags = UMC_NOTOUCH;
	cache = umem_cache_create_args("untouched", &args, sizeof(args));
	errno = 0;
	ck_assert_ptr_null(umem_cache_zalloc(cache, UMEM_DEFAULT));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(nmade, 0);
}
END_TEST

START_TEST(a_shrunk_cache_holds_what_is_in_use)
{
	umem_cache_t *cache = umem_cache_create(
	    "shrunk", 500, 0, NULL, NULL, NULL, NULL, NULL, 0);
	void *objects[1000];

	ck_assert_int_eq(umem_cache_shrink(cache), 0);
	for (int i = 0; i < 1000; i++)
		objects[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
	ck_assert_int_eq(umem_cache_shrink(cache), 1);
	for (int i = 1; i < 1000; i++)
		umem_cache_free(cache, objects[i]);
	errno = 7;
	ck_assert_int_eq(umem_cache_shrink(cache), 1);
	ck_assert_int_eq(errno, 7);
	ck_assert_uint_eq(slab_used(&cache->slabs), 1);
	umem_cache_free(cache, objects[0]);
	ck_assert_int_eq(umem_cache_shrink(cache), 0);
	ck_assert_uint_eq(slab_total(&cache->slabs), 0);
}
END_TEST

START_TEST(strings_are_copied_and_may_be_shortened)
{
	static char text[70000];

	for (size_t n = 0; n < sizeof(text); n = 2 * n + 1) {
		char *copy;

		memset(text, 'x', n);
		text[n] = '\0';
		copy = umem_strdup(text, UMEM_DEFAULT);
		ck_assert_str_eq(copy, text);
		copy[n / 2] = '\0';
		umem_strfree(copy);
		umem_free(umem_strdup(text, UMEM_NOFAIL), n + 1);
	}
	errno = 7;
	umem_strfree(NULL);
	ck_assert_int_eq(errno, 7);
	umem_setmtbf(1);
	ck_assert_ptr_null(umem_strdup("no memory", UMEM_DEFAULT));
	ck_assert_int_eq(errno, ENOMEM);
}
END_TEST

Suite *
cache_args_suite(void)
{
	Suite *suite = suite_create("cache_args");
	TCase *tcase = tcase_create("cache_args");

	tcase_add_test(tcase, every_attribute_arrives);
	tcase_add_test(tcase, a_longer_structure_may_have_zeros_only);
	tcase_add_test(tcase, wrong_arguments_are_invalid);
	tcase_add_test(tcase, a_type_gives_name_size_and_alignment);
	tcase_add_test(tcase, a_long_name_is_cut);
	tcase_add_test(tcase, an_object_is_cleared);
	tcase_add_test(tcase, a_constructed_object_and_an_id_are_not_cleared);
	tcase_add_test(tcase, a_shrunk_cache_holds_what_is_in_use);
	tcase_add_test(tcase, strings_are_copied_and_may_be_shortened);
	suite_add_tcase(suite, tcase);
	return suite;
}
