/* test_init.c - the state after start-up, and bootstrap memory */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "umem/malloc/alloc.h"
#include "umem/debug/debug.h"
#include "umem/base/ready.h"
#include "vmem/heap.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/vmem.h"

START_TEST(the_library_has_started_itself)
{
	ck_assert_int_eq(umem_state, UMEM_READY);
	ck_assert(umem_ready());
	ck_assert(umem_start());
	ck_assert(!bootstrap_is_active());
	ck_assert_uint_ne(heap_window.base, 0);
	ck_assert_uint_eq(page_map.units, heap_window.units);
}
END_TEST

START_TEST(each_class_has_its_cache_and_its_header)
{
	for (unsigned c = 1; c <= size_classes.n; c++) {
		struct umem_cache *cache = class_cache_of(c);

		ck_assert_ptr_nonnull(cache);
		ck_assert_uint_eq(cache->class, c);
		ck_assert_uint_eq(
		    cache->slabs.layout.chunk, size_classes.bytes[c]);
		ck_assert_uint_eq(cache->slabs.map_class, c);
		ck_assert(!cache->slabs.constructs);
		if (cache->has_magazines)
			ck_assert_ptr_eq(cache->mag.hot, cpu_header_none() + c);
	}
	ck_assert_ptr_null(class_cache[0]);
	ck_assert_str_eq(class_cache[1]->name, "umem_alloc_8");
}
END_TEST

static void *
make_all(void *arg)
{
	struct umem_cache **made = arg;

	for (unsigned c = 1; c <= size_classes.n; c++)
		made[c] = class_cache_of(c);
	return NULL;
}

/* Each test is a separate process, so this test creates most class caches. */
START_TEST(class_caches_are_made_once_and_listed_in_order)
{
	static struct umem_cache *made[4][SIZE_CLASSES];
	pthread_t thread[4];
	unsigned last = 0, nlisted = 0, nmade = 0;
	umem_cache_t *other =
	    umem_cache_create("other", 10, 0, NULL, NULL, NULL, NULL, NULL, 0);

	for (unsigned c = 1; c <= size_classes.n; c++)
		nmade += class_cache[c] != NULL;
	ck_assert(debug.on || nmade < size_classes.n / 2);
	if (class_cache[5] == NULL)
		umem_free(umem_alloc(size_classes.bytes[5], 0),
		    size_classes.bytes[5]);
	ck_assert_ptr_nonnull(class_cache[5]);
	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, make_all, made[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	for (unsigned c = 1; c <= size_classes.n; c++)
		for (int i = 0; i < 4; i++)
			ck_assert_ptr_eq(made[i][c], class_cache[c]);
	list_foreach (cache, &cache_list, struct umem_cache, link) {
		unsigned class = cache->class;

		ck_assert(class == 0 || class == last + 1);
		last = class == 0 ? SIZE_CLASSES : class;
		nlisted += class != 0;
	}
	ck_assert_uint_eq(nlisted, size_classes.n);
	umem_cache_destroy(other);
}
END_TEST

static bool
is_listed(const struct umem_cache *cache)
{
	list_foreach (listed, &cache_list, struct umem_cache, link)
		if (listed == cache)
			return true;
	return false;
}

/*
 * No meta memory is left when the last classes are reached.  The caches of
 * these classes are created when memory is available again.
 */
START_TEST(a_class_without_memory_for_its_cache_gets_it_later)
{
	unsigned nrefused = 0;

	os_fail_nth(1, 1u << 30);
	while (meta_alloc(64) != NULL)
		;
	for (unsigned c = size_classes.n; c > 0; c--) {
		bool had = class_cache[c] != NULL;
		struct umem_cache *cache = class_cache_of(c);

		ck_assert(!had || cache != NULL);
		ck_assert_ptr_eq(class_cache[c], cache);
		if (cache != NULL)
			ck_assert(is_listed(cache));
		else
			nrefused++;
	}
	for (unsigned c = 1; nrefused > 0 && c <= size_classes.n; c++) {
		if (class_cache[c] != NULL)
			continue;
		errno = 0;
		ck_assert_ptr_null(umem_alloc(size_classes.bytes[c], 0));
		ck_assert_int_eq(errno, ENOMEM);
	}
	os_fail_nth(0, 0);
	ck_assert(debug.on || nrefused > 0);
	for (unsigned c = 1; c <= size_classes.n; c++) {
		void *p = umem_alloc(size_classes.bytes[c], 0);

		ck_assert_ptr_nonnull(p);
		umem_free(p, size_classes.bytes[c]);
		ck_assert(is_listed(class_cache[c]));
	}
}
END_TEST

/*
 * On every CPU, the header of a class that has no cache refuses each operation.
 */
START_TEST(a_class_without_a_cache_is_refused_by_its_header)
{
	struct cpu_hot *none = cpu_header_none();

	for (unsigned c = 1; c <= size_classes.n; c++) {
		if (class_cache[c] != NULL)
			continue;
		ck_assert_uint_eq(none[c].top, 0);
		ck_assert_uint_eq(none[c].bottom, 0);
		ck_assert_uint_eq(none[c].limit, 0);
	}
}
END_TEST

START_TEST(the_fast_paths_are_on_where_there_are_sections)
{
	if (cpu_layer.rseq.owner == RSEQ_NONE) {
		ck_assert_uint_eq(alloc_fast.units, 0);
		ck_assert_uint_eq(alloc_fast.small_end, 0);
		ck_assert_uint_eq(alloc_fast.object_least, UINTPTR_MAX);
		return;
	}
	ck_assert_uint_eq(alloc_fast.units, page_map.units);
	ck_assert_uint_eq(alloc_fast.small_end, SIZE_SMALL + 1);
	ck_assert_uint_eq(alloc_fast.object_least, 1);
	ck_assert_uint_eq(alloc_fast.base, page_map.base);
	ck_assert_ptr_eq(alloc_fast.entry, page_map.entry);
	ck_assert_ptr_eq(alloc_fast.place.base, cpu_header_none());
	ck_assert_uint_eq((uintptr_t)&alloc_fast % CACHE_LINE, 0);
}
END_TEST

START_TEST(the_mode_is_told)
{
	struct umem_mode mode;

	memset(&mode, 0xff, sizeof(mode));
	errno = 77;
	ck_assert_int_eq(umem_mode(&mode, sizeof(mode)), 0);
	ck_assert_int_eq(errno, 77);
	ck_assert_int_eq(
	    mode.mode == UMEM_MODE_LOCKED, cpu_layer.rseq.owner == RSEQ_NONE);
	ck_assert_int_eq(mode.mode == UMEM_MODE_RSEQ_LIBC,
	    cpu_layer.rseq.owner == RSEQ_LIBC);
	ck_assert_int_eq(
	    mode.index == UMEM_INDEX_MM_CID, cpu_layer.rseq.by_mm_cid);
	ck_assert_uint_ge(mode.ncpus, 1);
	ck_assert_ptr_nonnull(mode.reason);
	if (mode.mode == UMEM_MODE_LOCKED)
		ck_assert_str_ne(mode.reason, "");
	for (size_t bytes = 0; bytes < 100; bytes++) {
		errno = 0;
		if (bytes == sizeof(mode))
			continue;
		ck_assert_int_eq(umem_mode(&mode, bytes), -1);
		ck_assert_int_eq(errno, EINVAL);
	}
	errno = 0;
	ck_assert_int_eq(umem_mode(NULL, sizeof(mode)), -1);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_str_eq(umem_version(), UMEM_VERSION);
}
END_TEST

START_TEST(the_heap_arena_is_one_and_gives_memory)
{
	vmem_alloc_t *import = NULL;
	vmem_free_t *release = NULL;
	vmem_t *heap = vmem_heap_arena(&import, &release);
	char *p;

	ck_assert_ptr_nonnull(heap);
	ck_assert_ptr_eq(vmem_heap_arena(NULL, NULL), heap);
	p = import(heap, 10000, VM_NOSLEEP);
	ck_assert_ptr_nonnull(p);
	memset(p, 1, 10000);
	release(heap, p, 10000);
}
END_TEST

/* Boot memory serves resolvers that run before the library is relocated. */
START_TEST(boot_blocks_are_aligned_apart_and_zero)
{
	char *last = NULL;
	size_t room = 0;

	for (size_t align = 1; align <= 4096; align *= 2)
		for (size_t size = 0; size < 100; size += 33) {
			char *p = bootstrap_alloc(size, align);

			ck_assert_ptr_nonnull(p);
			ck_assert_uint_eq(
			    (uintptr_t)p % (align < 16 ? 16 : align), 0);
			ck_assert(bootstrap_owns(p));
			ck_assert_uint_eq(bootstrap_usable(p), size);
			ck_assert(last == NULL || p >= last + room);
			for (size_t i = 0; i < size; i++)
				ck_assert_int_eq(p[i], 0);
			memset(p, 0xff, size);
			ck_assert_uint_eq(bootstrap_usable(p), size);
			last = p;
			room = size;
		}
	ck_assert(!bootstrap_owns(NULL));
	ck_assert(!bootstrap_owns(&room));
	ck_assert(!bootstrap_owns(umem_alloc(10, UMEM_NOFAIL)));
}
END_TEST

START_TEST(boot_memory_ends_and_says_so)
{
	unsigned n = 0;

	ck_assert_ptr_null(bootstrap_alloc(SIZE_MAX, 16));
	ck_assert_ptr_null(bootstrap_alloc(SIZE_MAX - 8, 16));
	ck_assert_ptr_null(bootstrap_alloc(PTRDIFF_MAX, 16));
	ck_assert_ptr_null(bootstrap_alloc(2 * MIB, 16));
	ck_assert_ptr_null(bootstrap_alloc(16, (size_t)1 << 62));
	while (bootstrap_alloc(1000, 16) != NULL)
		n++;
	ck_assert_uint_ge(n, 1000);
	ck_assert_uint_le(n, 1048);
	ck_assert_ptr_null(bootstrap_alloc(1000, 16));
}
END_TEST

START_TEST(boot_blocks_are_freed_and_resized_without_harm)
{
	char *p = bootstrap_alloc(100, 16), *q;

	memset(p, 5, 100);
	alloc_free(p);
	umem_free(p, 100);
	umem_free_align(p, 100);
	q = alloc_resize(p, 1000);
	ck_assert_ptr_nonnull(q);
	ck_assert(!bootstrap_owns(q));
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(q[i], 5);
	q = alloc_resize(p, 10);
	ck_assert_int_eq(q[9], 5);
	ck_assert_uint_eq(alloc_usable(p, "test"), 100);
}
END_TEST

static void *
take_boot(void *arg)
{
	static uint32_t n;
	void **p = arg;

	for (int i = 0; i < 500; i++)
		p[__atomic_fetch_add(&n, 1, __ATOMIC_RELAXED)] =
		    bootstrap_alloc(64, 16);
	return NULL;
}

static int
by_address(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return x < y ? -1 : x > y;
}

START_TEST(boot_blocks_of_threads_are_apart)
{
	static uintptr_t p[2000];
	pthread_t thread[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, take_boot, p);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	qsort(p, 2000, sizeof(p[0]), by_address);
	ck_assert_uint_ne(p[0], 0);
	for (int i = 1; i < 2000; i++)
		ck_assert_uint_ge(p[i] - p[i - 1], 80);
	for (int i = 0; i < 2000; i++)
		ck_assert_uint_eq(bootstrap_usable((void *)p[i]), 64);
}
END_TEST

Suite *
init_suite(void)
{
	Suite *suite = suite_create("init");
	TCase *tc = tcase_create("init");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, the_library_has_started_itself);
	tcase_add_test(tc, each_class_has_its_cache_and_its_header);
	tcase_add_test(tc, class_caches_are_made_once_and_listed_in_order);
	tcase_add_test(tc, a_class_without_memory_for_its_cache_gets_it_later);
	tcase_add_test(tc, a_class_without_a_cache_is_refused_by_its_header);
	tcase_add_test(tc, the_fast_paths_are_on_where_there_are_sections);
	tcase_add_test(tc, the_mode_is_told);
	tcase_add_test(tc, the_heap_arena_is_one_and_gives_memory);
	tcase_add_test(tc, boot_blocks_are_aligned_apart_and_zero);
	tcase_add_test(tc, boot_memory_ends_and_says_so);
	tcase_add_test(tc, boot_blocks_are_freed_and_resized_without_harm);
	tcase_add_test(tc, boot_blocks_of_threads_are_apart);
	suite_add_tcase(suite, tc);
	return suite;
}
