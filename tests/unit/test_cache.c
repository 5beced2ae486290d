/*
 * test_cache.c - object caches, by their public functions and internal state
 *
 * Each test is a process of its own, so caches need not be destroyed.
 */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/live.h"
#include "tests/unit/child.h"
#include "tests/unit/hooks.h"
#include "tests/unit/rounds.h"
#include "tests/unit/stay.h"
#include "umem/base/page_map.h"
#include "umem/cache/cache.h"
#include "umem/cache/worker.h"
#include "umem/upkeep/update.h"
#include "vmem/heap.h"
#include "vmem/arenas.h"
#include "vmem/meta.h"
#include "vmem/os.h"

#define MOST     20000
#define NTHREADS 4
#define MAGIC    0x6f626a6563740000

struct object {
	uint64_t magic;
	uint64_t nuses;
	uint64_t owner; /* [atomic] */
	char more[40];
};

static struct object *objects[MOST];
static uint32_t nmade, nunmade, nwrong; /* [atomic] */
static uint32_t fail_every;             /* every nth constructor fails */
static int some_priv;

static void
count(uint32_t *n)
{
	__atomic_add_fetch(n, 1, __ATOMIC_RELAXED);
}

static int
construct(void *buf, void *priv, int flags)
{
	static uint32_t ncalls;
	struct object *object = buf;

	if (priv != &some_priv || flags != UMEM_DEFAULT)
		count(&nwrong);
	if (fail_every != 0 && ++ncalls % fail_every == 0)
		return -1;
	object->magic = MAGIC;
	object->nuses = 0;
	object->owner = 0;
	count(&nmade);
	return 0;
}

static void
destruct(void *buf, void *priv)
{
	struct object *object = buf;

	if (priv != &some_priv || object->magic != MAGIC || object->owner != 0)
		count(&nwrong);
	object->magic = 0;
	count(&nunmade);
}

static umem_cache_t *
create(int cflags)
{
	umem_cache_t *cache =
	    umem_cache_create("objects", sizeof(struct object), 0, construct,
		destruct, NULL, &some_priv, NULL, cflags);

	ck_assert_ptr_nonnull(cache);
	return cache;
}

static struct object *
take(umem_cache_t *cache)
{
	struct object *object = umem_cache_alloc(cache, UMEM_DEFAULT);

	ck_assert_ptr_nonnull(object);
	ck_assert_uint_eq(object->magic, MAGIC);
	return object;
}

static void
take_many(umem_cache_t *cache, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		objects[i] = take(cache);
}

static void
free_many(umem_cache_t *cache, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		umem_cache_free(cache, objects[i]);
}

static const int kinds[] = {0, UMC_NODEBUG, UMC_NOTOUCH, UMC_NOMAGAZINE,
    UMC_NOHASH, UMC_NOMAGAZINE | UMC_NOTOUCH | UMC_NODEBUG};
#define NKINDS 6

START_TEST(objects_stay_constructed_from_use_to_use)
{
	umem_cache_t *cache = create(kinds[_i]);
	uint64_t nuses = 0;

	for (unsigned round = 0; round < 20; round++) {
		unsigned n = 1 + (round * 173) % 700;

		take_many(cache, n);
		for (unsigned i = 0; i < n; i++)
			nuses += objects[i]->nuses++ > 0;
		free_many(cache, n);
	}
	ck_assert_uint_gt(nuses, 1000);
	umem_cache_destroy(cache);
	ck_assert_uint_gt(nmade, 0);
	ck_assert_uint_eq(nunmade, nmade);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

/* Only this test moves rounds, and only those of one CPU. */
static void
no_update_and_one_cpu(void)
{
	update_interval_ns = (uint64_t)1 << 60;
	stay_here();
}

START_TEST(objects_are_constructed_no_more_than_needed)
{
	umem_cache_t *cache = create(0);
	uint32_t n;

	no_update_and_one_cpu();
	take_many(cache, 1000);
	n = nmade;
	ck_assert_uint_eq(n, 1000);
	free_many(cache, 1000);
	for (int i = 0; i < 10; i++) {
		take_many(cache, 900);
		free_many(cache, 900);
	}
	ck_assert_uint_eq(nmade, n);
	umem_cache_destroy(cache);
	ck_assert_uint_eq(nunmade, nmade);
}
END_TEST

START_TEST(a_constructor_that_fails_is_no_object)
{
	umem_cache_t *cache = create(kinds[_i]);
	unsigned nfailed;

	fail_every = 1;
	for (int i = 0; i < 100; i++) {
		errno = 0;
		ck_assert_ptr_null(umem_cache_alloc(cache, UMEM_DEFAULT));
		ck_assert_int_eq(errno, ENOMEM);
	}
	ck_assert_uint_eq(nmade, 0);
	ck_assert(slab_store_check(&cache->slabs));
	ck_assert_uint_eq(cache_live(cache), 0);
	for (fail_every = 2; fail_every < 9; fail_every++) {
		unsigned n = 0;

		nfailed = 0;
		for (int i = 0; i < 500; i++) {
			objects[n] = umem_cache_alloc(cache, UMEM_DEFAULT);
			if (objects[n] == NULL) {
				nfailed++;
				continue;
			}
			ck_assert_uint_eq(objects[n]->magic, MAGIC);
			n++;
		}
		ck_assert_uint_gt(n, 200);
		/* The cache reports each failure of the constructor. */
		ck_assert_uint_ge(nfailed, 500 / fail_every);
		ck_assert_uint_le(nfailed, 500 / fail_every + 1);
		ck_assert_uint_eq(cache_live(cache), n);
		free_many(cache, n);
		umem_cache_reap_now(cache);
		ck_assert_uint_eq(nunmade, nmade);
	}
	umem_cache_destroy(cache);
	ck_assert_uint_eq(nunmade, nmade);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

static int
again(void)
{
	fail_every = 0;
	return UMEM_CALLBACK_RETRY;
}

START_TEST(a_request_that_must_not_fail_tries_the_constructor_again)
{
	umem_cache_t *cache = create(0);
	struct object *object;

	fail_every = 1;
	umem_nofail_callback(again);
	object = umem_cache_alloc(cache, UMEM_NOFAIL);
	ck_assert_ptr_nonnull(object);
	ck_assert_uint_eq(object->magic, MAGIC);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

static jmp_buf away;

static int
jump(void *buf, void *priv, int flags)
{
	(void)buf;
	(void)priv;
	(void)flags;
	longjmp(away, 1);
}

START_TEST(a_constructor_may_jump_away)
{
	umem_cache_t *cache =
	    umem_cache_create("jumps", 100, 0, jump, NULL, NULL, NULL, NULL, 0);
	umem_cache_t *other = create(0);
	volatile int njumps = 0;

	if (setjmp(away) != 0)
		njumps++;
	if (njumps < 20)
		umem_cache_alloc(cache, UMEM_DEFAULT);
	ck_assert_int_eq(njumps, 20);
	/*
	 * The jumps leave no lock, no header and no more than 20 chunks held.
	 */
	ck_assert(slab_store_check(&cache->slabs));
	ck_assert_uint_eq(slab_used(&cache->slabs), 20);
	umem_cache_free(other, take(other));
	umem_cache_reap_now(cache);
	umem_reap();
}
END_TEST

static umem_cache_t *inner;

/* The constructor allocates a part of the object from another cache. */
static int
construct_outer(void *buf, void *priv, int flags)
{
	(void)priv;
	*(void **)buf = umem_cache_alloc(inner, flags);
	return *(void **)buf == NULL;
}

static void
destruct_outer(void *buf, void *priv)
{
	(void)priv;
	umem_cache_free(inner, *(void **)buf);
	umem_free(umem_alloc(100, UMEM_DEFAULT), 100);
}

START_TEST(callbacks_may_use_other_caches)
{
	umem_cache_t *outer;

	inner = create(0);
	outer = umem_cache_create("outer", 24, 0, construct_outer,
	    destruct_outer, NULL, NULL, NULL, 0);
	for (unsigned i = 0; i < 3000; i++)
		objects[i] = umem_cache_alloc(outer, UMEM_DEFAULT);
	free_many(outer, 3000);
	umem_reap();
	for (unsigned i = 0; i < 100; i++)
		objects[i] = umem_cache_alloc(outer, UMEM_DEFAULT);
	free_many(outer, 100);
	umem_cache_destroy(outer);
	ck_assert_uint_eq(cache_live(inner), 0);
	umem_cache_destroy(inner);
	ck_assert_uint_eq(nunmade, nmade);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

/* The bits of an address above the line select the L1 and the L2 set. */
static unsigned
set_of(const void *p)
{
	return (unsigned)((uintptr_t)p / CACHE_LINE % 64);
}

START_TEST(equal_fields_in_successive_slabs_lie_in_different_sets)
{
	static const size_t sizes[] = {576, 1376, 1936, 2912, 3808};
	umem_cache_t *cache = umem_cache_create("coloured", sizes[_i], 0, NULL,
	    NULL, NULL, NULL, NULL, UMC_NOMAGAZINE);
	const struct slab_layout *l = &cache->slabs.layout;
	unsigned ncolours, nset[64] = {0}, nhit = 0;

	ncolours = l->colour_step == 0
		       ? 1
		       : (unsigned)(l->colour_max / l->colour_step + 1);
	ck_assert_uint_gt(ncolours, 3);
	for (unsigned i = 0; i < 2 * ncolours; i++) {
		struct slab *slab = NULL;

		for (unsigned j = 0; j < l->nchunks; j++) {
			struct slab *of = page_map_owner(
			    objects[j] = umem_cache_alloc(cache, 0));

			ck_assert(slab == NULL || slab == of);
			slab = of;
		}
		/*
		 * The first object, and a field of it that lies 8 lines
		 * further.
		 */
		nset[set_of((char *)objects[0])]++;
		ck_assert_uint_eq(set_of((char *)objects[0] + 512),
		    (set_of(objects[0]) + 8) % 64);
	}
	for (unsigned i = 0; i < 64; i++)
		nhit += nset[i] != 0;
	/* There are as many sets as colours.  Each colour was used twice. */
	ck_assert_uint_ge(nhit, ncolours < 64 ? ncolours * 3 / 4 : 48);
	for (unsigned i = 0; i < 64; i++)
		ck_assert_uint_le(nset[i], 2 * (1 + ncolours / 48));
}
END_TEST

static int
by_number(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return x < y ? -1 : x > y;
}

/* Returns true if no two of n objects, of bytes each, share a cache line. */
static bool
lines_are_apart(void **object, unsigned n, size_t bytes)
{
	static uintptr_t line[MOST];
	unsigned nlines = 0;

	for (unsigned i = 0; i < n; i++)
		for (uintptr_t at = (uintptr_t)object[i] / CACHE_LINE;
		     at <= ((uintptr_t)object[i] + bytes - 1) / CACHE_LINE;
		     at++)
			line[nlines++] = at;
	qsort(line, nlines, sizeof(line[0]), by_number);
	for (unsigned i = 1; i < nlines; i++)
		if (line[i] == line[i - 1])
			return false;
	return true;
}

static void *
take_500(void *cache)
{
	static unsigned nthreads;
	unsigned first =
	    500 * __atomic_fetch_add(&nthreads, 1, __ATOMIC_RELAXED);

	for (unsigned i = 0; i < 500; i++)
		objects[first + i] = umem_cache_alloc(cache, UMEM_DEFAULT);
	return NULL;
}

START_TEST(no_line_is_shared_where_size_or_align_is_a_multiple_of_it)
{
	static const struct {
		size_t bytes, align;
	} kind[] = {{64, 0}, {128, 0}, {192, 8}, {320, 16}, {448, 0}, {1, 64},
	    {24, 64}, {100, 128}, {70, 64}, {200, 256}, {64, 8}, {576, 0}};
	umem_cache_t *cache = umem_cache_create("lines", kind[_i].bytes,
	    kind[_i].align, NULL, NULL, NULL, NULL, NULL, 0);
	pthread_t thread[3];

	for (int i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, take_500, cache);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	ck_assert(lines_are_apart((void **)objects, 1500, kind[_i].bytes));
}
END_TEST

START_TEST(objects_are_aligned_as_asked_up_to_the_page)
{
	size_t page = os_page_size();
	static const size_t sizes[] = {1, 7, 8, 9, 15, 16, 24, 100, 4097};
	void *p;

	for (unsigned i = 0; i < array_size(sizes); i++)
		for (size_t align = 0; align <= page;
		     align = align == 0 ? 1 : align * 2) {
			size_t least = align < 8 ? 8 : align;
			umem_cache_t *cache = umem_cache_create("aligned",
			    sizes[i], align, NULL, NULL, NULL, NULL, NULL, 0);

			ck_assert_ptr_nonnull(cache);
			if (align == 0)
				least = sizes[i] > 8 ? 16 : 8;
			for (int j = 0; j < 100; j++) {
				p = umem_cache_alloc(cache, UMEM_DEFAULT);
				ck_assert_uint_eq((uintptr_t)p % least, 0);
			}
		}
}
END_TEST

static umem_cache_t *
try_create(const char *name, size_t size, size_t align, vmem_t *source,
    unsigned cflags)
{
	errno = 0;
	return umem_cache_create(
	    name, size, align, NULL, NULL, NULL, NULL, source, (int)cflags);
}

START_TEST(what_no_cache_can_be_made_of_has_an_errno)
{
	size_t page = os_page_size();
	size_t used = meta_used();
	vmem_t *ids = vmem_create(
	    "ids", (void *)16, 1 << 20, 16, NULL, NULL, NULL, 0, VM_NOSLEEP);
	size_t with_ids = meta_used();
	const struct {
		const char *name;
		size_t size, align;
		vmem_t *source;
		unsigned cflags;
		int error;
	} bad[] = {
	    {NULL, 8, 0, NULL, 0, EINVAL},
	    {"zero", 0, 0, NULL, 0, EINVAL},
	    {"odd", 8, 3, NULL, 0, EINVAL},
	    {"odd", 8, page - 1, NULL, 0, EINVAL},
	    {"odd", 8, SIZE_MAX, NULL, 0, EINVAL},
	    {"much", 8, 2 * page, NULL, 0, EINVAL},
	    {"much", 8, (size_t)1 << 63, NULL, 0, EINVAL},
	    {"much", 8, 32, ids, 0, EINVAL},
	    {"both", 8, 0, NULL, UMC_NOHASH | UMC_NOTOUCH, EINVAL},
	    {"bits", 8, 0, NULL, 1, EINVAL},
	    {"bits", 8, 0, NULL, 0x00400000, EINVAL},
	    {"bits", 8, 0, NULL, 0x40000000, EINVAL},
	    {"large", SIZE_MAX, 0, NULL, 0, ENOMEM},
	    {"large", SIZE_MAX - 15, 8, NULL, 0, ENOMEM},
	    {"large", SIZE_MAX - page + 2, page, NULL, 0, ENOMEM},
	    {"large", (size_t)PTRDIFF_MAX + 1, 0, NULL, 0, ENOMEM},
	    {"large", PTRDIFF_MAX, 0, NULL, 0, ENOMEM},
	};

	for (unsigned i = 0; i < array_size(bad); i++) {
		ck_assert_ptr_null(try_create(bad[i].name, bad[i].size,
		    bad[i].align, bad[i].source, bad[i].cflags));
		ck_assert_msg(errno == bad[i].error, "%u: errno %d", i, errno);
	}
	ck_assert_uint_ge(with_ids, used);
	ck_assert_uint_eq(meta_used(), with_ids);
	ck_assert_ptr_nonnull(try_create("most", 8, page, NULL, 0));
	ck_assert_ptr_nonnull(try_create("", 8, 0, NULL, UMC_NOHASH));
	ck_assert_ptr_nonnull(try_create("page", page, 0, NULL, UMC_NOHASH));
	ck_assert_ptr_nonnull(try_create("ids", 8, 16, ids, UMC_NOTOUCH));
}
END_TEST

START_TEST(an_object_no_machine_has_is_no_memory)
{
	umem_cache_t *cache = try_create("huge", (size_t)1 << 50, 0, NULL, 0);

	ck_assert_ptr_nonnull(cache);
	for (int i = 0; i < 3; i++) {
		errno = 0;
		ck_assert_ptr_null(umem_cache_alloc(cache, UMEM_DEFAULT));
		ck_assert_int_eq(errno, ENOMEM);
	}
	umem_cache_destroy(cache);
}
END_TEST

START_TEST(a_long_name_is_cut)
{
	char name[64];
	umem_cache_t *cache;

	memset(name, 'x', sizeof(name));
	name[63] = '\0';
	cache = try_create(name, 8, 0, NULL, 0);
	name[0] = 'y';
	ck_assert_uint_eq(strlen(cache->name), UMEM_CACHE_NAMELEN);
	ck_assert_int_eq(cache->name[0], 'x');
}
END_TEST

static unsigned
ncaches(void)
{
	unsigned n = 0;

	lock_take(&cache_list_lock);
	list_foreach (cache, &cache_list, struct umem_cache, link)
		n++;
	lock_release(&cache_list_lock);
	return n;
}

START_TEST(a_cache_that_cannot_be_made_leaves_nothing)
{
	static umem_cache_t *made[3000];
	unsigned before = ncaches(), nfailed = 0;
	unsigned n = 0;

	/*
	 * Records are carved from metadata chunks.  A request fails when such a
	 * chunk is used up.
	 */
	os_fail_nth(1, 1u << 30);
	while (n < 3000 && nfailed == 0) {
		size_t used = meta_used();

		made[n] = try_create("many", 100, 0, NULL, 0);
		if (made[n] != NULL) {
			n++;
			continue;
		}
		ck_assert_int_eq(errno, EAGAIN);
		ck_assert_uint_eq(meta_used(), used);
		nfailed++;
	}
	ck_assert_uint_eq(nfailed, 1);
	ck_assert_uint_eq(ncaches(), before + n);
	os_fail_nth(0, 0);
	ck_assert_ptr_nonnull(try_create("more", 100, 0, NULL, 0));
	while (n > 0)
		umem_cache_destroy(made[--n]);
	ck_assert_uint_eq(ncaches(), before + 1);
}
END_TEST

START_TEST(a_thousand_caches_come_and_go_without_growth)
{
	size_t used = 0;

	for (int i = 0; i < 1000; i++) {
		umem_cache_t *cache = create(0);

		take_many(cache, 3);
		free_many(cache, 3);
		umem_cache_destroy(cache);
		if (i == 10)
			used = meta_used();
	}
	ck_assert_uint_eq(nunmade, nmade);
	ck_assert_uint_eq(meta_used(), used);
}
END_TEST

/* Source arenas. */

static size_t nimported, nreleased;

static void *
import(vmem_t *source, size_t size, int vmflag)
{
	void *at = vmem_alloc(source, size, vmflag);

	if (at != NULL)
		nimported += size;
	return at;
}

static void
release(vmem_t *source, void *at, size_t size)
{
	nreleased += size;
	vmem_free(source, at, size);
}

static vmem_t *
memory(size_t quantum)
{
	vmem_t *arena = vmem_create("memory", NULL, 0, quantum, import, release,
	    vmem_heap_arena(NULL, NULL), 0, VM_NOSLEEP);

	ck_assert_ptr_nonnull(arena);
	return arena;
}

START_TEST(a_source_gets_back_what_it_gave)
{
	vmem_t *arena = memory(os_page_size());
	umem_cache_t *cache = umem_cache_create("sourced",
	    sizeof(struct object), 0, construct, destruct, NULL, &some_priv,
	    arena, _i == 0 ? 0 : UMC_NOMAGAZINE);

	take_many(cache, 5000);
	ck_assert_uint_ge(
	    vmem_size(arena, VMEM_ALLOC), 5000 * sizeof(struct object));
	for (unsigned i = 0; i < 5000; i++)
		ck_assert_int_eq(
		    vmem_contains(arena, objects[i], sizeof(*objects[i])), 1);
	free_many(cache, 5000);
	umem_cache_reap_now(cache);
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 0);
	take_many(cache, 50);
	free_many(cache, 50);
	umem_cache_destroy(cache);
	ck_assert_uint_eq(nunmade, nmade);
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 0);
	vmem_destroy(arena);
	ck_assert_uint_eq(nimported, nreleased);
}
END_TEST

START_TEST(slabs_of_a_source_waste_no_more_than_others)
{
	static const size_t quanta[] = {4096, 16384, 65536};
	vmem_t *arena = memory(quanta[_i]);
	umem_cache_t *cache = try_create("sourced", 200, 0, arena, 0);
	size_t bytes;

	for (unsigned i = 0; i < MOST; i++)
		objects[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
	bytes = vmem_size(arena, VMEM_ALLOC);
	/*
	 * Objects are rounded to 208 bytes.  An eighth of each slab and three
	 * slabs more may be unused.
	 */
	ck_assert_uint_le(bytes,
	    (size_t)MOST * 208 / 7 * 8 + 3 * cache->slabs.layout.slab_bytes);
}
END_TEST

START_TEST(pieces_of_integers_are_never_touched)
{
	vmem_t *ids = vmem_create(
	    "ids", (void *)1, 100000, 1, NULL, NULL, NULL, 0, VM_NOSLEEP);
	umem_cache_t *cache = try_create(
	    "ids", 1, 1, ids, UMC_NOTOUCH | (_i == 0 ? 0 : UMC_NOMAGAZINE));
	static bool seen[100001];
	unsigned n = 0;
	void *id;

	ck_assert_ptr_nonnull(cache);
	while (n < MOST && (id = umem_cache_alloc(cache, 0)) != NULL) {
		ck_assert_uint_ge((uintptr_t)id, 1);
		ck_assert_uint_le((uintptr_t)id, 100000);
		ck_assert(!seen[(uintptr_t)id]);
		seen[(uintptr_t)id] = true;
		objects[n++] = id;
	}
	ck_assert_uint_ge(n, MOST);
	for (unsigned i = 0; i < n; i++)
		umem_cache_free(cache, objects[i]);
	umem_cache_destroy(cache);
	ck_assert_uint_eq(vmem_size(ids, VMEM_ALLOC), 0);
}
END_TEST

/*
 * Reclaim callbacks: the cache asks the program to free the objects it keeps.
 */

static umem_cache_t *short_cache;
static unsigned nkept, nasked;

static void
give_kept(void *priv)
{
	if (priv != &some_priv)
		count(&nwrong);
	nasked++;
	/* The callback runs with no lock held, so it may use this cache. */
	while (nkept > 0)
		umem_cache_free(short_cache, objects[--nkept]);
	umem_cache_free(inner, umem_cache_alloc(inner, UMEM_DEFAULT));
}

START_TEST(the_program_is_asked_for_objects_when_memory_is_short)
{
	char *memory_of_32_pages = umem_alloc(32 * 4096, UMEM_NOFAIL);
	vmem_t *arena = vmem_create("short", memory_of_32_pages, 32 * 4096,
	    4096, NULL, NULL, NULL, 0, VM_NOSLEEP);
	void *object = NULL;

	inner = create(0);
	short_cache = umem_cache_create("short", 1000, 0, NULL, NULL, give_kept,
	    &some_priv, arena, _i == 0 ? 0 : UMC_NOMAGAZINE);
	while (nasked == 0) {
		object = umem_cache_alloc(short_cache, UMEM_DEFAULT);
		ck_assert_ptr_nonnull(object);
		if (nasked == 0)
			objects[nkept++] = object;
		ck_assert_uint_le(nkept, 128);
	}
	ck_assert_uint_eq(cache_live(short_cache), 1);
	ck_assert_uint_eq(nwrong, 0);
	umem_cache_free(short_cache, object);
	umem_cache_destroy(short_cache);
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC), 0);
}
END_TEST

/* Frees one of the kept objects to the cache inner. */
static void
give_one(void *priv)
{
	(void)priv;
	nasked++;
	if (nkept > 0)
		umem_cache_free(inner, objects[--nkept]);
}

/*
 * A slab is free once all its objects are free, and each call frees one object.
 */
START_TEST(the_program_is_asked_as_long_as_it_frees_something)
{
	vmem_t *arena = vmem_create("short", umem_alloc(64 * 4096, UMEM_NOFAIL),
	    64 * 4096, 4096, NULL, NULL, NULL, 0, VM_NOSLEEP);
	void *object;

	inner = umem_cache_create("kept", 64, 0, NULL, NULL, give_one, NULL,
	    arena, _i == 0 ? 0 : UMC_NOMAGAZINE);
	short_cache = try_create("short", 1000, 0, arena, 0);
	stay_here();
	while ((object = umem_cache_alloc(inner, UMEM_DEFAULT)) != NULL &&
	       nasked == 0)
		objects[nkept++] = object;
	/*
	 * The request that called first returned memory which the callback had
	 * freed.
	 */
	objects[nkept++] = object;
	qsort(objects, nkept, sizeof(objects[0]), by_number);
	nasked = 0;
	object = umem_cache_alloc(short_cache, UMEM_DEFAULT);
	ck_assert_ptr_nonnull(object);
	ck_assert_uint_ge(nasked, inner->slabs.layout.nchunks);
	ck_assert_uint_le(nasked, 3 * inner->slabs.layout.nchunks);
}
END_TEST

START_TEST(the_program_is_not_asked_for_ever)
{
	vmem_t *arena = vmem_create("short", umem_alloc(4096, UMEM_NOFAIL),
	    4096, 4096, NULL, NULL, NULL, 0, VM_NOSLEEP);

	inner = umem_cache_create(
	    "kept", 64, 0, NULL, NULL, give_one, NULL, NULL, 0);
	short_cache = try_create("short", 1000, 0, arena, 0);
	nkept = _i == 0 ? 0 : 3000;
	for (unsigned i = 0; i < nkept; i++)
		objects[i] = umem_cache_alloc(inner, UMEM_NOFAIL);
	while (umem_cache_alloc(short_cache, UMEM_DEFAULT) != NULL)
		;
	/* The calls must also end if the freed objects do not help. */
	if (_i == 0)
		ck_assert_uint_le(nasked, 3);
	else
		ck_assert_uint_le(nasked, 2000);
	ck_assert_uint_ge(nasked, 1);
}
END_TEST

/*
 * A cache without memory gets the memory that other caches hold in magazines.
 */
START_TEST(what_another_cache_keeps_is_given_to_who_has_none)
{
	char *some = umem_alloc(16 * 4096, UMEM_NOFAIL);
	vmem_t *arena = vmem_create(
	    "shared", some, 16 * 4096, 4096, NULL, NULL, NULL, 0, VM_NOSLEEP);
	umem_cache_t *a = try_create("a", 500, 0, arena, 0);
	umem_cache_t *b = try_create("b", 1000, 0, arena, 0);
	unsigned n = 0;

	while ((objects[n] = umem_cache_alloc(a, UMEM_DEFAULT)) != NULL)
		n++;
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_uint_ge(n, 16 * 8 - 16);
	ck_assert_ptr_null(umem_cache_alloc(b, UMEM_DEFAULT));
	free_many(a, n);
	ck_assert_ptr_nonnull(umem_cache_alloc(b, UMEM_DEFAULT));
	ck_assert_uint_eq(cache_live(a), 0);
}
END_TEST

START_TEST(a_reap_gives_everything_back)
{
	umem_cache_t *cache = create(0);
	size_t dirty;

	take_many(cache, MOST);
	dirty = heap_dirty();
	free_many(cache, MOST);
	errno = 77;
	umem_cache_reap_now(cache);
	ck_assert_int_eq(errno, 77);
	ck_assert_uint_eq(slab_total(&cache->slabs), 0);
	ck_assert_uint_eq(nunmade, nmade);
	ck_assert_uint_ge(
	    heap_dirty() - dirty, MOST / 2 * sizeof(struct object));
	take_many(cache, 1);
	umem_cache_reap_now(cache);
	ck_assert_uint_eq(cache_live(cache), 1);
	ck_assert_uint_eq(nmade - nunmade, 1);
}
END_TEST

START_TEST(an_update_gives_surplus_back_and_keeps_what_is_used)
{
	umem_cache_t *cache = create(0);

	take_many(cache, MOST);
	free_many(cache, MOST);
	for (int i = 0; i < 20; i++) {
		cache_update(cache, /* may_call */ true);
		take_many(cache, 10);
		free_many(cache, 10);
	}
	ck_assert_uint_lt(slab_total(&cache->slabs), MOST / 4);
	ck_assert_uint_eq(cache_live(cache), 0);
	umem_cache_destroy(cache);
	ck_assert_uint_eq(nunmade, nmade);
}
END_TEST

/* A cache with a constructor and without a destructor. */
static umem_cache_t *
create_without_destructor(void)
{
	umem_cache_t *cache =
	    umem_cache_create("objects", sizeof(struct object), 0, construct,
		NULL, NULL, &some_priv, NULL, 0);

	ck_assert_ptr_nonnull(cache);
	return cache;
}

static void
look_for_room(umem_cache_t *cache, unsigned n)
{
	while (n-- > 0)
		cache_reclaim_idle(cache);
}

START_TEST(room_is_made_of_what_nobody_asks_for)
{
	umem_cache_t *cache =
	    _i == 0 ? try_create("plain", sizeof(struct object), 0, NULL, 0)
		    : create_without_destructor();
	/* Slabs of constructed objects stay until the second check. */
	unsigned nlooks = _i == 0 ? 0 : 1;
	size_t total;

	no_update_and_one_cpu();
	/* Otherwise the depot would be full of small magazines. */
	while (cache->mag.rounds < MOST / 16)
		grow_here(&cache->mag);
	for (unsigned i = 0; i < MOST; i++)
		objects[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
	free_many(cache, MOST);
	total = slab_total(&cache->slabs);
	/*
	 * The working set is the whole depot, because it was empty a moment
	 * ago.
	 */
	ck_assert(!cache_reclaim_idle(cache));
	for (unsigned i = 0; i < MOST / 2; i++)
		objects[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
	free_many(cache, MOST / 2);
	/* Half of the depot was allocated again.  The other half is surplus. */
	ck_assert(cache_reclaim_idle(cache));
	if (_i == 0)
		ck_assert_uint_lt(slab_total(&cache->slabs), total * 3 / 4);
	ck_assert_uint_gt(slab_total(&cache->slabs), total / 4);
	ck_assert(cache_reclaim_idle(cache));
	look_for_room(cache, nlooks);
	/* The CPU keeps its two magazines. */
	ck_assert_uint_lt(
	    slab_total(&cache->slabs), 2 * cache->mag.rounds + total / 16);
	ck_assert(!cache_reclaim_idle(cache));
	umem_cache_destroy(cache);
}
END_TEST

START_TEST(room_is_not_made_where_that_calls_the_program)
{
	umem_cache_t *cache = create(0);

	no_update_and_one_cpu();
	take_many(cache, MOST);
	free_many(cache, MOST);
	look_for_room(cache, 5);
	ck_assert_uint_eq(nunmade, 0);
	umem_cache_destroy(cache);
	ck_assert_uint_eq(nunmade, nmade);
}
END_TEST

START_TEST(an_update_calls_the_program_only_if_it_may)
{
	vmem_t *arena = memory(os_page_size());
	umem_cache_t *cache = create(0), *sourced;
	size_t bytes;

	no_update_and_one_cpu();
	sourced = try_create("sourced", sizeof(struct object), 0, arena, 0);
	take_many(cache, MOST);
	free_many(cache, MOST);
	for (unsigned i = 0; i < MOST; i++)
		objects[i] = umem_cache_alloc(sourced, UMEM_DEFAULT);
	bytes = nreleased;
	for (unsigned i = 0; i < MOST; i++)
		umem_cache_free(sourced, objects[i]);
	bytes = nreleased;
	for (int i = 0; i < 5; i++) {
		cache_update(cache, /* may_call */ false);
		cache_update(sourced, /* may_call */ false);
	}
	ck_assert_uint_eq(nunmade, 0);
	ck_assert_uint_eq(nreleased, bytes);
	for (int i = 0; i < 5; i++) {
		cache_update(cache, /* may_call */ true);
		cache_update(sourced, /* may_call */ true);
	}
	ck_assert_uint_gt(nunmade, MOST * 3 / 4);
	ck_assert_uint_gt(nreleased, bytes);
	umem_cache_destroy(cache);
	umem_cache_destroy(sourced);
	vmem_destroy(arena);
}
END_TEST

START_TEST(pages_are_purged_when_the_cache_was_idle_for_the_age)
{
	umem_cache_t *cache = umem_cache_create(
	    "idle", 1000, 0, NULL, NULL, NULL, NULL, NULL, UMC_NOMAGAZINE);
	size_t limit = SIZE_MAX;

	/* Otherwise a slab is one page. */
	if (os_page_size() >= HEAP_UNIT)
		return;
	for (unsigned i = 0; i < 50; i++)
		objects[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
	free_many(cache, 49);
	cache_update(cache, /* may_call */ false);
	ck_assert(cache_purge_idle(cache, 1, &limit));
	ck_assert_uint_eq(limit, SIZE_MAX);
	cache_update(cache, /* may_call */ false);
	ck_assert(cache_purge_idle(cache, 1, &limit));
	ck_assert_uint_lt(limit, SIZE_MAX);
	umem_cache_free(cache, objects[49]);
	umem_cache_destroy(cache);
}
END_TEST

static void
take_and_free(umem_cache_t *cache, unsigned n, unsigned nrounds)
{
	while (nrounds-- > 0) {
		take_many(cache, n);
		free_many(cache, n);
	}
}

START_TEST(what_the_depot_has_no_room_for_stays_constructed)
{
	umem_cache_t *cache = create(0);

	no_update_and_one_cpu();
	/* Depots start at 1 MiB, and these objects take 1.4 MiB. */
	take_and_free(cache, MOST, 10);
	ck_assert_uint_eq(nmade, MOST);
	ck_assert_uint_eq(nunmade, 0);
	/*
	 * Updates keep the working set, whether it is allocated or in the
	 * depot.
	 */
	for (int i = 0; i < 10; i++) {
		take_many(cache, MOST);
		if (i % 2 == 0)
			cache_update(cache, /* may_call */ true);
		free_many(cache, MOST);
		if (i % 2 != 0)
			cache_update(cache, /* may_call */ true);
	}
	ck_assert_uint_eq(nmade, MOST);
	/* Updates destruct idle objects and keep the others. */
	for (int i = 0; i < 6; i++) {
		take_and_free(cache, MOST / 2, 1);
		cache_update(cache, /* may_call */ true);
	}
	ck_assert_uint_gt(nunmade, MOST / 4);
	ck_assert_uint_le(nunmade, MOST / 2);
	umem_cache_destroy(cache);
	ck_assert_uint_eq(nunmade, nmade);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

#define LARGE ((size_t)256 * KIB)

START_TEST(idle_objects_of_large_classes_are_reclaimed)
{
	struct umem_cache *cache = class_cache_of(size_class_of(LARGE));
	void *p, *q;

	stay_here();
	p = umem_alloc(LARGE, UMEM_DEFAULT);
	q = umem_alloc(LARGE, UMEM_DEFAULT);
	umem_free(p, LARGE);
	ck_assert(!cache_reclaim_idle(cache));
	/* One idle chunk more than before, then one less: they are in use. */
	umem_free(q, LARGE);
	ck_assert(!cache_reclaim_idle(cache));
	p = umem_alloc(LARGE, UMEM_DEFAULT);
	ck_assert(!cache_reclaim_idle(cache));
	ck_assert_uint_eq(slab_total(&cache->slabs), 2);
	ck_assert(cache_reclaim_idle(cache));
	ck_assert_uint_eq(slab_total(&cache->slabs), 1);
	/* No idle chunk is left. */
	ck_assert(!cache_reclaim_idle(cache));
	ck_assert(!cache_reclaim_idle(cache));
	umem_free(p, LARGE);
}
END_TEST

/* Misuse that ends the child process. */

static void
free_twice_unbuffered(void)
{
	umem_cache_t *cache = create(UMC_NOMAGAZINE);
	struct object *object = take(cache);

	take(cache);
	umem_cache_free(cache, object);
	umem_cache_free(cache, object);
}

static void
destroy_with_one_out(void)
{
	umem_cache_t *cache = create(0);

	take_many(cache, 10);
	free_many(cache, 9);
	umem_cache_destroy(cache);
	/*
	 * The destroyed cache destructs every slab except that of the leaked
	 * object, which stays usable.
	 */
	if (objects[9]->magic != MAGIC)
		_exit(1);
	objects[9]->nuses++;
	_exit(0);
}

START_TEST(misuse_is_told_and_ends_the_process)
{
	const char *text = child_writes(free_twice_unbuffered);

	ck_assert(child_aborted());
	ck_assert_ptr_nonnull(strstr(text, "umem: umem_cache_free(objects, "));
	ck_assert_ptr_nonnull(strstr(text, "block freed twice\n"));
}
END_TEST

START_TEST(objects_outlive_their_cache)
{
	const char *text = child_writes(destroy_with_one_out);

	ck_assert(child_exited(0));
	ck_assert_ptr_nonnull(
	    strstr(text, "umem: umem_cache_destroy: 'objects' (0x"));
	ck_assert_ptr_nonnull(strstr(text, ") not empty\n"));
	ck_assert_ptr_nonnull(strstr(text, "umem: 1 object in use:\n"));
}
END_TEST

static umem_cache_t *poisoned;
static bool is_listed; /* when the lock of the list was last released */

static void
look_for_poisoned(struct lock *lock)
{
	if (lock == &cache_list_lock)
		is_listed = cache_destroyed_list.prev == &poisoned->link;
}

static void
destroy_under_lock(void)
{
	poisoned = create(0);
	take(poisoned);
	hook_lock_released = look_for_poisoned;
	umem_cache_destroy(poisoned);
	_exit(!is_listed);
}

START_TEST(a_cache_in_use_is_listed_before_the_lock_is_released)
{
	child_writes(destroy_under_lock);
	ck_assert(child_exited(0));
}
END_TEST

static int
by_address(const void *a, const void *b)
{
	const struct object *const *one = a, *const *other = b;

	return (*one > *other) - (*one < *other);
}

/* Writes the report that it expects, and then a report. */
static void
destroy_with_seven_out(void)
{
	umem_cache_t *cache = create(0);

	take_many(cache, 20);
	free_many(cache, 13);
	qsort(objects + 13, 7, sizeof(objects[0]), by_address);
	dprintf(2, "umem: 7 objects in use:\n");
	for (unsigned i = 13; i < 17; i++)
		dprintf(2, "umem:     %p\n", (void *)objects[i]);
	dprintf(2, "umem:     and 3 more\n");
	umem_cache_destroy(cache);
	_exit(0);
}

START_TEST(the_report_of_a_cache_in_use_names_objects)
{
	const char *text = child_writes(destroy_with_seven_out);
	const char *report = strstr(text, "umem: umem_cache_destroy: ");

	ck_assert(child_exited(0));
	ck_assert_ptr_nonnull(report);
	report = strchr(report, '\n') + 1;
	ck_assert_int_eq(strncmp(report, text, strlen(report)), 0);
	ck_assert_ptr_nonnull(strstr(report, "umem:     and 3 more\n"));
}
END_TEST

/* Threads take and give objects while other operations change the cache. */

static umem_cache_t *stormy;
static unsigned most_rounds;
static uint32_t stop;

static void *
storm(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	struct object *mine[200];
	unsigned n = 0;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED) || n > 0) {
		bool ends = __atomic_load_n(&stop, __ATOMIC_RELAXED);

		if (!ends && n < 200 && rand_r(&seed) % 16 < 8) {
			struct object *o =
			    umem_cache_alloc(stormy, UMEM_DEFAULT);

			if (o == NULL || o->magic != MAGIC ||
			    __atomic_exchange_n(&o->owner, (uintptr_t)arg,
				__ATOMIC_RELAXED) != 0)
				count(&nwrong);
			mine[n++] = o;
		} else if (n > 0) {
			unsigned i = (unsigned)rand_r(&seed) % n;
			struct object *o = mine[i];

			mine[i] = mine[--n];
			if (__atomic_exchange_n(&o->owner, 0,
				__ATOMIC_RELAXED) != (uintptr_t)arg)
				count(&nwrong);
			umem_cache_free(stormy, o);
		}
	}
	return NULL;
}

static void
storm_with(void (*meanwhile)(void))
{
	pthread_t thread[NTHREADS];
	uint64_t end = os_now_ns() + 200000000;

	stormy = create(0);
	for (uintptr_t i = 0; i < NTHREADS; i++)
		ck_assert_int_eq(
		    pthread_create(&thread[i], NULL, storm, (void *)(i + 1)),
		    0);
	/* On a busy machine this thread may have few turns in that time. */
	for (unsigned i = 0; i < 100 || os_now_ns() < end; i++)
		meanwhile();
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < NTHREADS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(nwrong, 0);
	ck_assert(slab_store_check(&stormy->slabs));
	ck_assert_uint_eq(cache_live(stormy), 0);
	ck_assert_uint_le(nunmade, nmade);
	umem_cache_destroy(stormy);
	ck_assert_uint_eq(nunmade, nmade);
	ck_assert_uint_eq(nwrong, 0);
}

static void
resize(void)
{
	static unsigned n;
	unsigned rounds;

	/* Some thread of the storm may be about to update the cache, too. */
	while (!worker_begin())
		sched_yield();
	if (++n / 16 % 2 == 0) {
		magazine_grow(&stormy->mag);
	} else {
		magazine_shrink(&stormy->mag);
		cache_update(stormy, /* may_call */ true);
	}
	rounds = __atomic_load_n(&stormy->mag.rounds, __ATOMIC_RELAXED);
	worker_end();
	if (rounds > most_rounds)
		most_rounds = rounds;
}

static void
reap(void)
{
	umem_cache_reap_now(stormy);
}

static void
look(void)
{
	if (!slab_store_check(&stormy->slabs))
		count(&nwrong);
	cache_live(stormy);
	umem_reap();
}

START_TEST(magazines_change_size_while_they_are_used)
{
	storm_with(resize);
	ck_assert_uint_eq(most_rounds, MAGAZINE_ROUNDS_MAX);
}
END_TEST

START_TEST(a_cache_is_reaped_while_it_is_used)
{
	storm_with(reap);
}
END_TEST

START_TEST(a_cache_is_looked_at_while_it_is_used)
{
	storm_with(look);
}
END_TEST

/* A constructor may fail while other threads use the cache. */
START_TEST(constructors_fail_while_others_work)
{
	umem_cache_t *cache;

	fail_every = 3;
	cache = create(0);
	for (unsigned i = 0; i < 3000; i++)
		if (umem_cache_alloc(cache, UMEM_DEFAULT) != NULL)
			nkept++;
	ck_assert_uint_eq(cache_live(cache), nkept);
	ck_assert(slab_store_check(&cache->slabs));
}
END_TEST

/* No memory for magazines is left: every free and alloc goes to the slabs. */
START_TEST(without_memory_for_magazines_it_still_works)
{
	umem_cache_t *cache = create(0);
	unsigned n = 0;

	os_fail_nth(1, 1u << 30);
	while (n < MOST &&
	       (objects[n] = umem_cache_alloc(cache, UMEM_DEFAULT)) != NULL)
		n++;
	free_many(cache, n);
	take_many(cache, n / 2);
	free_many(cache, n / 2);
	umem_cache_reap_now(cache);
	ck_assert_uint_eq(cache_live(cache), 0);
	umem_cache_destroy(cache);
	os_fail_nth(0, 0);
	ck_assert_uint_eq(nunmade, nmade);
	ck_assert_uint_eq(nwrong, 0);
}
END_TEST

Suite *
cache_suite(void)
{
	Suite *suite = suite_create("cache");
	TCase *tc = tcase_create("cache");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(
	    tc, objects_stay_constructed_from_use_to_use, 0, NKINDS);
	tcase_add_test(tc, objects_are_constructed_no_more_than_needed);
	tcase_add_loop_test(
	    tc, a_constructor_that_fails_is_no_object, 0, NKINDS);
	tcase_add_test(
	    tc, a_request_that_must_not_fail_tries_the_constructor_again);
	tcase_add_test(tc, a_constructor_may_jump_away);
	tcase_add_test(tc, callbacks_may_use_other_caches);
	tcase_add_loop_test(
	    tc, equal_fields_in_successive_slabs_lie_in_different_sets, 0, 5);
	tcase_add_loop_test(tc,
	    no_line_is_shared_where_size_or_align_is_a_multiple_of_it, 0, 12);
	tcase_add_test(tc, objects_are_aligned_as_asked_up_to_the_page);
	tcase_add_test(tc, what_no_cache_can_be_made_of_has_an_errno);
	tcase_add_test(tc, an_object_no_machine_has_is_no_memory);
	tcase_add_test(tc, a_long_name_is_cut);
	tcase_add_test(tc, a_cache_that_cannot_be_made_leaves_nothing);
	tcase_add_test(tc, a_thousand_caches_come_and_go_without_growth);
	tcase_add_loop_test(tc, a_source_gets_back_what_it_gave, 0, 2);
	tcase_add_loop_test(
	    tc, slabs_of_a_source_waste_no_more_than_others, 0, 3);
	tcase_add_loop_test(tc, pieces_of_integers_are_never_touched, 0, 2);
	tcase_add_loop_test(
	    tc, the_program_is_asked_for_objects_when_memory_is_short, 0, 2);
	tcase_add_loop_test(
	    tc, the_program_is_asked_as_long_as_it_frees_something, 0, 2);
	tcase_add_loop_test(tc, the_program_is_not_asked_for_ever, 0, 2);
	tcase_add_test(tc, what_another_cache_keeps_is_given_to_who_has_none);
	tcase_add_test(tc, a_reap_gives_everything_back);
	tcase_add_test(tc, an_update_gives_surplus_back_and_keeps_what_is_used);
	tcase_add_loop_test(tc, room_is_made_of_what_nobody_asks_for, 0, 2);
	tcase_add_test(tc, room_is_not_made_where_that_calls_the_program);
	tcase_add_test(tc, an_update_calls_the_program_only_if_it_may);
	tcase_add_test(
	    tc, pages_are_purged_when_the_cache_was_idle_for_the_age);
	tcase_add_test(tc, what_the_depot_has_no_room_for_stays_constructed);
	tcase_add_test(tc, idle_objects_of_large_classes_are_reclaimed);
	tcase_add_test(tc, misuse_is_told_and_ends_the_process);
	tcase_add_test(tc, objects_outlive_their_cache);
	tcase_add_test(
	    tc, a_cache_in_use_is_listed_before_the_lock_is_released);
	tcase_add_test(tc, the_report_of_a_cache_in_use_names_objects);
	tcase_add_test(tc, magazines_change_size_while_they_are_used);
	tcase_add_test(tc, a_cache_is_reaped_while_it_is_used);
	tcase_add_test(tc, a_cache_is_looked_at_while_it_is_used);
	tcase_add_test(tc, constructors_fail_while_others_work);
	tcase_add_test(tc, without_memory_for_magazines_it_still_works);
	suite_add_tcase(suite, tc);
	return suite;
}
