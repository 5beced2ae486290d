/* test_debug.c - the contents of chunks and records in a debugged cache */
#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "tests/unit/live.h"
#include "tests/unit/child.h"
#include "tests/unit/machine.h"
#include "umem/debug/debug_inner.h"
#include "umem/debug/error.h"
#include "umem/debug/wait_sum.h"
#include "umem/malloc/alloc.h"
#include "umem/options.h"
#include "umem/stats/stats.h"
#include "vmem/heap.h"
#include "vmem/os.h"
#include "vmem/vmem.h"

#define N 200

static struct umem_cache *
make(const char *words, const char *name, size_t size, size_t align, int flags)
{
	struct umem_cache *cache;

	debug.nchoices = 0;
	memset(debug.choice, 0, sizeof(debug.choice));
	options_parse_debug(words);
	cache = umem_cache_create(
	    name, size, align, NULL, NULL, NULL, NULL, NULL, flags);
	ck_assert_ptr_nonnull(cache);
	return cache;
}

static struct buftag *
tag_of(struct umem_cache *cache, void *p)
{
	return (struct buftag *)(void *)((char *)p + cache->tag_offset);
}

static struct buffer
buffer_of(struct umem_cache *cache, void *p)
{
	struct buffer b = {.cache = cache, .p = p};
	unsigned i;

	ck_assert_int_eq(
	    slab_find_chunk(&cache->slabs, p, &b.slab, &i), SLAB_FINE);
	b.bufctl = slab_record(b.slab, i);
	return b;
}

static struct bufctl_audit *
record_of(struct umem_cache *cache, void *p)
{
	return (void *)buffer_of(cache, p).bufctl;
}

START_TEST(the_part_that_names_a_cache_decides)
{
	static const struct {
		const char *words, *name;
		unsigned flags;
	} cases[] = {
	    {"guards", "any", UMF_DEADBEEF | UMF_REDZONE},
	    {"audit", "any", UMF_AUDIT | UMF_REDZONE},
	    {"contents", "any", 0},
	    {"default", "any",
		UMF_DEADBEEF | UMF_REDZONE | UMF_AUDIT | UMF_CONTENTS},
	    {"nosignal", "any", UMF_AUDIT | UMF_CHECKSIGNAL | UMF_REDZONE},
	    {"firewall=100", "any", UMF_FIREWALL},
	    {"firewall=101", "any", 0},
	    {"firewall=100,default", "any",
		UMF_FIREWALL | UMF_AUDIT | UMF_CONTENTS},
	    {"guards:one", "one", UMF_DEADBEEF | UMF_REDZONE},
	    {"guards:one", "on", 0},
	    {"guards:one", "ones", 0},
	    {"guards:o*", "one", UMF_DEADBEEF | UMF_REDZONE},
	    {"guards:*e", "one", UMF_DEADBEEF | UMF_REDZONE},
	    {"guards:*n*", "one", UMF_DEADBEEF | UMF_REDZONE},
	    {"guards:*x*", "one", 0},
	    {"guards:o?e", "one", UMF_DEADBEEF | UMF_REDZONE},
	    {"guards:a,b,one", "one", UMF_DEADBEEF | UMF_REDZONE},
	    {"guards:**", "one", UMF_DEADBEEF | UMF_REDZONE},
	    {"guards;audit:one", "one", UMF_AUDIT | UMF_REDZONE},
	    {"guards;audit:one", "two", UMF_DEADBEEF | UMF_REDZONE},
	    {"audit:one;guards", "one", UMF_AUDIT | UMF_REDZONE},
	    {"audit:one;guards:o*", "one", UMF_DEADBEEF | UMF_REDZONE},
	    {"verbose:one;guards", "one", 0},
	};

	for (unsigned i = 0; i < array_size(cases); i++) {
		struct umem_cache *cache =
		    make(cases[i].words, cases[i].name, 100, 0, 0);

		ck_assert_msg(cache->debug == cases[i].flags, "%s: %s %x",
		    cases[i].words, cases[i].name, cache->debug);
		umem_cache_destroy(cache);
	}
}
END_TEST

START_TEST(some_caches_are_left_alone)
{
	ck_assert_uint_eq(make("default", "a", 100, 0, UMC_NODEBUG)->debug, 0);
	ck_assert_uint_eq(make("guards", "a", 100, 0, UMC_NOTOUCH)->debug, 0);
	ck_assert_uint_eq(
	    make("audit,contents", "b", 100, 0, UMC_NOTOUCH)->debug, UMF_AUDIT);
}
END_TEST

/* No two chunks overlap, tags included, for each size and alignment. */
START_TEST(chunks_have_room_for_their_tags)
{
	static const size_t sizes[] = {1, 7, 8, 9, 24, 64, 100, 1000, 4096};
	static char *p[N];
	unsigned nwrong = 0;

	for (unsigned s = 0; s < array_size(sizes); s++)
		for (size_t align = 0; align <= 4096;
		     align = align == 0 ? 8 : align * 2) {
			struct umem_cache *cache =
			    make("default", "geometry", sizes[s], align, 0);
			size_t want = align == 0 ? 8 : align;

			for (unsigned i = 0; i < N; i++) {
				p[i] = umem_cache_alloc(cache, 0);
				ck_assert_ptr_nonnull(p[i]);
				ck_assert_uint_eq((uintptr_t)p[i] % want, 0);
				memset(p[i], (int)i, sizes[s]);
			}
			for (unsigned i = 0; i < N; i++) {
				for (size_t j = 0; j < sizes[s]; j++)
					nwrong += p[i][j] != (char)i;
				umem_cache_free(cache, p[i]);
			}
			ck_assert_uint_eq(nwrong, 0);
			ck_assert_uint_eq(cache_live(cache), 0);
			debug_quarantine_flush(cache);
			ck_assert(slab_store_check(&cache->slabs));
			ck_assert_uint_eq(slab_used(&cache->slabs), 0);
			umem_cache_destroy(cache);
		}
}
END_TEST

START_TEST(patterns_and_tags_are_libumems)
{
	struct umem_cache *cache = make("guards", "patterns", 40, 0, 0);
	uint64_t *p = umem_cache_alloc(cache, 0);
	struct buftag *tag = tag_of(cache, p);

	/* This buffer stays allocated, so that the slab stays. */
	ck_assert_ptr_nonnull(umem_cache_alloc(cache, 0));
	ck_assert_ptr_eq((char *)tag, (char *)p + 40);
	for (unsigned i = 0; i < 5; i++)
		ck_assert_uint_eq(p[i], 0xbaddcafebaddcafe);
	ck_assert_uint_eq(tag->redzone, 0xfeedfacefeedface);
	ck_assert_uint_eq((uintptr_t)tag->bufctl ^ tag->bxstat, 0xa110c8ed);
	umem_cache_free(cache, p);
	for (unsigned i = 0; i < 5; i++)
		ck_assert_uint_eq(p[i], 0xdeadbeefdeadbeef);
	ck_assert_uint_eq(tag->redzone, 0xfeedfacefeedface);
	ck_assert_uint_eq((uintptr_t)tag->bufctl ^ tag->bxstat, 0xf4eef4ee);
	ck_assert_ptr_eq(tag->bufctl, (void *)record_of(cache, p));
}
END_TEST

START_TEST(maxverify_limits_what_is_filled)
{
	struct umem_cache *cache =
	    make("guards,maxverify=16", "little", 64, 0, 0);
	uint64_t *p;

	ck_assert_ptr_nonnull(umem_cache_alloc(cache, 0));
	p = umem_cache_alloc(cache, 0);
	ck_assert_uint_eq(p[0], 0xbaddcafebaddcafe);
	ck_assert_uint_eq(p[1], 0xbaddcafebaddcafe);
	ck_assert_uint_eq(p[2], 0);
	umem_cache_free(cache, p);
	ck_assert_uint_eq(p[1], 0xdeadbeefdeadbeef);
	p[2] = 1;
	debug_quarantine_flush(cache);
	ck_assert_ptr_eq(umem_cache_alloc(cache, 0), p);
	debug.verify_max = SIZE_MAX;
}
END_TEST

static int
construct_42(void *buf, void *priv, int flags)
{
	(void)priv, (void)flags;
	*(int *)buf = 42;
	return 0;
}

/* Buffers are constructed each time, also if no byte of them is filled. */
START_TEST(objects_are_constructed_whatever_is_filled)
{
	static const char *const words[] = {"guards", "guards,maxverify=16",
	    "guards,maxverify=4", "guards,maxverify=0"};
	struct umem_cache *cache;

	debug.nchoices = 0;
	memset(debug.choice, 0, sizeof(debug.choice));
	options_parse_debug(words[_i]);
	cache = umem_cache_create(
	    "built", 100, 0, construct_42, NULL, NULL, NULL, NULL, 0);
	for (int i = 0; i < 100; i++) {
		int *p = umem_cache_alloc(cache, 0);

		ck_assert_ptr_nonnull(p);
		ck_assert_int_eq(*p, 42);
		*p = 0;
		umem_cache_free(cache, p);
	}
	umem_cache_destroy(cache);
	debug.verify_max = SIZE_MAX;
}
END_TEST

static void
change_word_before(void)
{
	struct umem_cache *cache = make("guards", "tagged", 48, 0, 0);
	char *p = umem_cache_alloc(cache, 0);

	umem_cache_alloc(cache, 0);
	umem_cache_free(cache, p);
	tag_of(cache, p)->bufctl = NULL;
	debug_quarantine_flush(cache);
	while (umem_cache_alloc(cache, 0) != p)
		continue;
}

START_TEST(a_changed_tag_of_a_free_buffer_is_found_when_it_is_used_again)
{
	ck_assert_ptr_nonnull(
	    strstr(child_writes(change_word_before), "boundary tag corrupted"));
}
END_TEST

START_TEST(records_tell_who_and_when)
{
	struct umem_cache *cache = make("audit=4", "records", 100, 0, 0);
	uint64_t before = os_exact_ns();
	void *p = umem_cache_alloc(cache, 0);
	struct bufctl_audit *record = record_of(cache, p);

	ck_assert_ptr_eq(record->addr, p);
	ck_assert_ptr_eq(record->cache, cache);
	ck_assert_uint_eq(record->size, 100);
	ck_assert_uint_eq(record->head.state, BUFCTL_ALLOCATED);
	ck_assert_uint_eq(record->thread, os_thread_id());
	ck_assert_uint_ge(record->timestamp, before);
	ck_assert_uint_le(record->timestamp, os_exact_ns());
	ck_assert_uint_ge(record->depth, 2);
	ck_assert_uint_le(record->depth, 4);
	/* The caller is this function. */
	ck_assert_uint_lt(
	    record->stack[0] - (uintptr_t)records_tell_who_and_when_fn, 4096);
	before = record->timestamp;
	umem_cache_alloc(cache, 0);
	umem_cache_free(cache, p);
	ck_assert_uint_eq(record->head.state, BUFCTL_FREE);
	ck_assert_uint_gt(record->timestamp, before);
	ck_assert_uint_eq(record->allocated_time, before);
	ck_assert_uint_eq(record->allocated_thread, os_thread_id());
	ck_assert_uint_ge(record->allocated_depth, 2);
	ck_assert_uint_lt(record->stack[debug.nframes] -
			      (uintptr_t)records_tell_who_and_when_fn,
	    4096);
	debug.nframes = AUDIT_FRAMES_DEFAULT;
}
END_TEST

static void
free_what_was_never_allocated(void)
{
	struct umem_cache *cache = make("audit", "never", 100, 0, 0);
	char *p = umem_cache_alloc(cache, UMEM_DEFAULT);

	/* The next chunk of the slab. */
	p += cache->slabs.layout.chunk;
	ck_assert_ptr_null(record_of(cache, p)->addr);
	umem_cache_free(cache, p);
}

START_TEST(a_chunk_that_was_never_allocated_has_no_size)
{
	child_writes(free_what_was_never_allocated);
	ck_assert_ptr_nonnull(strstr(child_text, "cache: never"));
	ck_assert_ptr_null(strstr(child_text, "is at offset"));
}
END_TEST

/* A child that libc does not know, as that of _Fork(): no handler runs. */
static void
free_twice_in_a_child(void)
{
	struct umem_cache *cache = make("audit", "twice", 100, 0, 0);
	void *p = umem_cache_alloc(cache, UMEM_DEFAULT);

	umem_cache_free(cache, p);
	if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0)
		umem_cache_free(cache, p);
	else
		wait(NULL);
}

START_TEST(a_report_in_a_child_names_its_thread)
{
	const char *where;
	unsigned process, thread;

	child_writes(free_twice_in_a_child);
	where = strstr(child_text, ", process ");
	ck_assert_ptr_nonnull(where);
	ck_assert_int_eq(
	    sscanf(where, ", process %u, thread %u", &process, &thread), 2);
	ck_assert_uint_eq(process, thread);
}
END_TEST

START_TEST(a_corrupt_buffer_is_never_used_again)
{
	struct umem_cache *cache = make("guards,noabort", "lost", 100, 0, 0);
	uint64_t *p, *bad;
	int kept = dup(2);

	ck_assert_int_ne(dup2(open("/dev/null", O_WRONLY), 2), -1);
	umem_cache_alloc(cache, 0);
	bad = umem_cache_alloc(cache, 0);
	umem_cache_free(cache, bad);
	bad[3] = 5;
	for (unsigned i = 0; i < N; i++) {
		p = umem_cache_alloc(cache, 0);
		ck_assert_ptr_nonnull(p);
		ck_assert_ptr_ne(p, bad);
	}
	ck_assert_uint_eq(umem_abort_info.code, UMERR_MODIFIED);
	ck_assert_ptr_eq(umem_abort_info.buffer, bad);
	ck_assert_uint_eq(umem_abort_info.offset, 24);
	ck_assert_uint_eq(umem_abort_info.found, 5);
	/* The corrupt buffer cannot be freed either. */
	umem_cache_free(cache, bad);
	ck_assert_uint_eq(umem_abort_info.code, UMERR_DUPFREE);
	((char *)p)[100] = 1;
	umem_cache_free(cache, p);
	ck_assert_uint_eq(umem_abort_info.code, UMERR_REDZONE);
	ck_assert_uint_eq(umem_abort_info.offset, 100);
	ck_assert_uint_eq(record_of(cache, p)->head.state, BUFCTL_RETIRED);
	dup2(kept, 2);
}
END_TEST

/*
 * A write past the end that reaches the next buffer is reported as one of the
 * buffer that it passed, whether the next one is freed or allocated then.
 */
START_TEST(an_overrun_into_the_next_buffer_has_its_culprit)
{
	struct umem_cache *cache = make("guards,noabort", "over", 100, 0, 0);
	size_t chunk = cache->slabs.layout.chunk;
	char *p[N], *low = NULL;
	int kept = dup(2);

	ck_assert_int_ne(dup2(open("/dev/null", O_WRONLY), 2), -1);
	for (unsigned i = 0; i < N; i++)
		p[i] = umem_cache_alloc(cache, 0);
	for (unsigned i = 0; i < N && low == NULL; i++)
		for (unsigned j = 0; j < N; j++)
			if (p[j] == p[i] + chunk)
				low = p[i];
	ck_assert_ptr_nonnull(low);
	umem_abort_info.code = 99;
	if (_i == 0) {
		memset(low, 1, chunk + 4);
		umem_cache_free(cache, low + chunk);
	} else {
		umem_cache_free(cache, low + chunk);
		memset(low, 1, chunk + 4);
		umem_cache_alloc(cache, 0);
	}
	ck_assert_uint_eq(umem_abort_info.code, UMERR_REDZONE);
	ck_assert_ptr_eq(umem_abort_info.buffer, low);
	ck_assert_ptr_eq(umem_abort_info.behind, low + chunk);
	ck_assert_uint_eq(umem_abort_info.offset, 100);
	ck_assert_uint_eq(
	    record_of(cache, low + chunk)->head.state, BUFCTL_RETIRED);
	umem_abort_info.code = 99;
	umem_cache_free(cache, low);
	ck_assert_uint_eq(umem_abort_info.code, UMERR_REDZONE);
	ck_assert_ptr_eq(umem_abort_info.buffer, low);
	dup2(kept, 2);
}
END_TEST

/* A freed buffer is not allocated again while no other buffer is freed. */
START_TEST(what_was_freed_stays_away)
{
	struct umem_cache *cache = make("guards", "away", 100, 0, 0);
	void *first = umem_cache_alloc(cache, 0), *p;
	unsigned nfrees = 0;

	umem_cache_free(cache, first);
	for (unsigned i = 0; i < 10 * N; i++)
		ck_assert_ptr_ne(umem_cache_alloc(cache, 0), first);
	ck_assert_uint_eq(cache_live(cache), 10 * N);
	/* Further frees make it available again. */
	do {
		p = umem_cache_alloc(cache, 0);
		if (p != first)
			umem_cache_free(cache, p);
	} while (p != first && nfrees++ < 100000);
	ck_assert_ptr_eq(p, first);
}
END_TEST

/* All of many buffers that were written to after their free are found. */
START_TEST(what_waits_is_looked_at)
{
	struct umem_cache *cache = make("guards,noabort", "waiting", 72, 0, 0);
	static uint64_t *p[N];
	unsigned nwrong = 0, nlost = 0;
	int kept = dup(2);

	ck_assert_int_ne(dup2(open("/dev/null", O_WRONLY), 2), -1);
	umem_cache_alloc(cache, 0);
	for (unsigned i = 0; i < N; i++)
		p[i] = umem_cache_alloc(cache, 0);
	for (unsigned i = 0; i < N; i++)
		umem_cache_free(cache, p[i]);
	/* The last buffer is found at the next allocation. */
	umem_abort_info.code = 99;
	p[N - 1][8]++;
	umem_cache_alloc(cache, 0);
	ck_assert_uint_eq(umem_abort_info.code, UMERR_MODIFIED);
	ck_assert_ptr_eq(umem_abort_info.buffer, p[N - 1]);
	ck_assert_uint_eq(umem_abort_info.offset, 64);
	/*
	 * The others are found when the quarantine passes their slots, or when
	 * they are handed out.
	 */
	for (unsigned i = 0; i < N - 1; i++)
		if (record_of(cache, p[i])->head.state == BUFCTL_FREE) {
			p[i][i % 9] = 5;
			nwrong++;
		}
	for (unsigned i = 0; i < 2 * cache->quarantine.nslots; i++)
		umem_cache_alloc(cache, 0);
	for (unsigned i = 0; i < N; i++)
		nlost += record_of(cache, p[i])->head.state == BUFCTL_RETIRED;
	ck_assert_uint_ge(nwrong, N - 2);
	ck_assert_uint_eq(nlost, nwrong + 1);
	dup2(kept, 2);
}
END_TEST

/* The modified buffer is found even if the program allocates no more. */
START_TEST(what_waits_is_looked_at_in_the_end)
{
	struct umem_cache *cache = make("guards,noabort", "ending", 72, 0, 0);
	char *p = umem_cache_alloc(cache, 0);
	int kept = dup(2);

	ck_assert_int_ne(dup2(open("/dev/null", O_WRONLY), 2), -1);
	umem_cache_free(cache, p);
	p[71]++;
	umem_abort_info.code = 99;
	umem_cache_destroy(cache);
	ck_assert_uint_eq(umem_abort_info.code, UMERR_MODIFIED);
	ck_assert_ptr_eq(umem_abort_info.buffer, p);
	dup2(kept, 2);
}
END_TEST

/* A change of any bit of the tag is found. */
START_TEST(every_bit_of_a_tag_is_looked_at)
{
	struct umem_cache *cache = make("guards,noabort", "bits", 64, 0, 0);
	int kept = dup(2);

	ck_assert_int_ne(dup2(open("/dev/null", O_WRONLY), 2), -1);
	for (unsigned bit = 0; bit < 8 * sizeof(struct buftag); bit++) {
		char *p = umem_cache_alloc(cache, 0);

		umem_abort_info.code = 99;
		((char *)tag_of(cache, p))[bit / 8] ^= (char)(1 << bit % 8);
		umem_cache_free(cache, p);
		ck_assert_uint_eq(umem_abort_info.code,
		    bit < 64 ? UMERR_REDZONE : UMERR_BADBUFTAG);
	}
	dup2(kept, 2);
}
END_TEST

/* Creates the cache of the next class, of 32 bytes or more, that has none. */
static struct umem_cache *
make_class(unsigned *class)
{
	while (size_classes.bytes[*class] < 32 ||
	       class_cache_if_made(*class) != NULL)
		++*class;
	ck_assert_ptr_nonnull(class_cache_make(*class));
	return class_cache[*class];
}

/*
 * A hardened block has a tag of 8 bytes before the next block.  A change of any
 * bit is found when that block is freed, and when the block itself is.
 */
START_TEST(every_bit_of_a_short_tag_is_looked_at_from_both_sides)
{
	int kept = dup(2);
	unsigned class = 1;
	struct umem_cache *cache;

	debug.on = debug.hardened = debug.noabort = true;
	cache = make_class(&class);
	ck_assert_uint_eq(cache->tag_bytes, 8);
	ck_assert_uint_eq(cache->slabs.layout.chunk, size_classes.bytes[class]);
	ck_assert_uint_eq(cache->slabs.layout.chunk, cache->tag_offset + 8);
	ck_assert_int_ne(dup2(open("/dev/null", O_WRONLY), 2), -1);
	for (unsigned bit = 0; bit < 64; bit++) {
		size_t size = cache->tag_offset;
		char *p = debug_alloc(cache, size, API_MALLOC), *next, *tag;

		while ((next = debug_alloc(cache, size, API_MALLOC)) !=
		       p + cache->slabs.layout.chunk)
			p = next;
		tag = (char *)tag_of(cache, p) + bit / 8;
		*tag ^= (char)(1 << bit % 8);
		umem_abort_info.code = 99;
		ck_assert(!debug_free(cache, next, SIZE_MAX, API_MALLOC));
		ck_assert_uint_eq(umem_abort_info.code,
		    bit < 8 ? UMERR_REDZONE : UMERR_BEFORE);
		umem_abort_info.code = 99;
		ck_assert(!debug_free(cache, p, SIZE_MAX, API_MALLOC));
		ck_assert_uint_eq(umem_abort_info.code, UMERR_REDZONE);
		ck_assert_ptr_eq(umem_abort_info.buffer, p);
	}
	dup2(kept, 2);
}
END_TEST

/* By hardened.c, or step by step. */
static char *
hardened_block(struct umem_cache *cache, size_t size, unsigned *nfast)
{
	char *p = hardened_alloc(size, API_MALLOC);

	*nfast += p != NULL;
	return p != NULL ? p : debug_alloc(cache, size, API_MALLOC);
}

/* Two blocks side by side. */
static char *
hardened_pair(struct umem_cache *cache, size_t size, char **next)
{
	unsigned nfast = 0;
	char *p = hardened_block(cache, size, &nfast);

	while ((*next = hardened_block(cache, size, &nfast)) !=
	       p + cache->slabs.layout.chunk)
		p = *next;
	return p;
}

/*
 * hardened.c takes the usual blocks, and leaves each with something unusual, as
 * it is, to the functions that report.
 */
START_TEST(hardened_functions_take_only_usual_blocks)
{
	unsigned class = 1, nfast = 0, nfreed = 0;
	struct umem_cache *cache;
	char *p, *next, *tag;
	size_t size;
	int kept = dup(2);

	if (cpu_layer.rseq.owner == RSEQ_NONE)
		return;
	debug.on = debug.hardened = debug.noabort = true;
	cache = make_class(&class);
	size = cache->tag_offset - 3;
	ck_assert_uint_eq(size_class_of(size), class);
	for (unsigned i = 0; i < 1000; i++) {
		p = hardened_block(cache, size, &nfast);
		ck_assert_uint_eq(debug_usable(class, p), size);
		memset(p, 1, size);
		ck_assert(
		    hardened_free(p, i % 2 ? SIZE_MAX : size, API_MALLOC));
		ck_assert(!hardened_free(p, SIZE_MAX, API_MALLOC));
	}
	ck_assert_uint_gt(nfast, 500);
	p = hardened_pair(cache, size, &next);
	tag = (char *)tag_of(cache, p);
	for (unsigned bit = 0; bit < 64 + 3 * 8; bit++) {
		char *at = bit < 64 ? &tag[bit / 8] : &p[size + bit / 8 - 8];

		*at ^= (char)(1 << bit % 8);
		ck_assert(!hardened_free(p, SIZE_MAX, API_MALLOC));
		ck_assert(bit >= 64 || !hardened_free(next, size, API_MALLOC));
		*at ^= (char)(1 << bit % 8);
	}
	ck_assert(!hardened_free(p, size + 1, API_MALLOC));
	ck_assert(!hardened_free(p, size - 1, API_MALLOC));
	ck_assert(!hardened_free(p, SIZE_MAX, API_NEW));
	ck_assert(!hardened_free(p + 8, SIZE_MAX, API_MALLOC));
	ck_assert_uint_eq(debug_usable(class, p), size);
	ck_assert(hardened_free(p, SIZE_MAX, API_MALLOC));
	ck_assert(hardened_free(next, size, API_MALLOC));
	/* A changed byte is found, and its block does not come back. */
	p[size - 1] ^= 1;
	ck_assert_int_ne(dup2(open("/dev/null", O_WRONLY), 2), -1);
	umem_abort_info.code = 99;
	for (unsigned i = 0; i < 100000 && umem_abort_info.code == 99; i++) {
		char *q = hardened_block(cache, size, &nfast);

		ck_assert_ptr_ne(q, p);
		nfreed += hardened_free(q, SIZE_MAX, API_MALLOC);
	}
	dup2(kept, 2);
	ck_assert_uint_eq(umem_abort_info.code, UMERR_MODIFIED);
	ck_assert_uint_gt(nfreed, 0);
	/* Without magazines each free polls. */
	cache_use_magazines = false;
	p = debug_alloc(make_class(&class), 8, API_MALLOC);
	ck_assert_ptr_nonnull(p);
	ck_assert(!hardened_free(p, SIZE_MAX, API_MALLOC));
}
END_TEST

/*
 * Pairs of allocations and frees take chunks from magazines, and give them
 * there: the slabs are visited for whole magazines only.
 */
START_TEST(a_hardened_cache_has_magazines_below_its_checks)
{
	struct umem_cache *cache;
	unsigned before;
	char *p;

	debug.nchoices = 0;
	debug.on = debug.hardened = debug.noabort = true;
	cache =
	    umem_cache_create("hard", 40, 8, NULL, NULL, NULL, NULL, NULL, 0);
	ck_assert_ptr_nonnull(cache);
	ck_assert(cache->has_magazines && cache_fast_at(cache) == 0);
	for (unsigned i = 0; i < 2000; i++)
		umem_cache_free(cache, umem_cache_alloc(cache, 0));
	before = cache->slabs.nacquired;
	for (unsigned i = 0; i < 2000; i++)
		umem_cache_free(cache, umem_cache_alloc(cache, 0));
	ck_assert_uint_le(cache->slabs.nacquired - before, 20);
	/* Its objects do not come past the checks. */
	ck_assert_uint_eq(umem_cache_alloc_bulk(cache, 1, (void **)&p, 0), 1);
	ck_assert_uint_eq(buffer_of(cache, p).bufctl->state, BUFCTL_ALLOCATED);
	umem_cache_free_bulk(cache, 1, (void **)&p);
	ck_assert_uint_eq(buffer_of(cache, p).bufctl->state, BUFCTL_FREE);
	umem_abort_info.code = 99;
	umem_cache_free(cache, p);
	ck_assert_uint_eq(umem_abort_info.code, UMERR_DUPFREE);
	umem_cache_destroy(cache);
}
END_TEST

/* A word that has no effect on a cache leaves it hardened. */
START_TEST(a_choice_without_flags_does_not_count)
{
	struct umem_cache *cache;

	debug.hardened = true;
	cache = make("firewall=5000:small", "small", 40, 8, 0);
	ck_assert_uint_eq(cache->debug, UMF_HARDENED);
}
END_TEST

/* The new bytes are zero, and the end is still checked. */
START_TEST(a_large_block_grows_in_place)
{
	size_t size = 100 * KIB, ngrown = 0;
	bool zeroed;
	char *p;

	debug.nchoices = 0;
	debug.on = debug.hardened = debug.noabort = true;
	debug_start();
	p = debug_large_alloc(size, HEAP_UNIT, &zeroed, API_MALLOC);
	ck_assert_ptr_nonnull(p);
	memset(p, 1, size);
	for (unsigned i = 0; i < 100; i++) {
		size_t more = size + 700 * i;

		if (!debug_resize(PAGE_MAP_LARGE, p, more))
			break;
		ngrown++;
		for (size_t at = size; at < more; at++)
			ck_assert_int_eq(p[at], 0);
		memset(p + size, 1, more - size);
		size = more;
		ck_assert_uint_eq(debug_usable(PAGE_MAP_LARGE, p), size);
	}
	ck_assert_uint_eq(ngrown, 100);
	ck_assert_uint_gt(size, 3 * MIB);
	p[size] ^= 1;
	umem_abort_info.code = 99;
	ck_assert(!debug_free(&debug_large_cache, p, SIZE_MAX, API_MALLOC));
	ck_assert_uint_eq(umem_abort_info.code, UMERR_REDZONE);
}
END_TEST

static struct umem_cache *neighbours;
static struct buffer before;
static int done;

/* Does to the tag what frees and allocations of the buffer do. */
static void *
change_tag(void *arg)
{
	while (load_relaxed(&done) == 0) {
		debug_make_free(&before);
		debug_set_size(&before, 40);
	}
	return arg;
}

/*
 * A free looks at the tag before its buffer, which another thread may change
 * at that moment.  _i: hardened.
 */
START_TEST(a_neighbour_may_be_freed_meanwhile)
{
	pthread_t thread;
	char *p, *next;
	struct buffer b;

	neighbours = make("guards,noabort", "neighbours", 40, 8, 0);
	if (_i != 0) {
		debug.nchoices = 0;
		debug.on = debug.hardened = true;
		neighbours = umem_cache_create(
		    "hard", 40, 8, NULL, NULL, NULL, NULL, NULL, 0);
	}
	ck_assert_uint_eq(neighbours->tag_bytes, _i != 0 ? 8 : 24);
	p = umem_cache_alloc(neighbours, 0);
	while ((next = umem_cache_alloc(neighbours, 0)) !=
	       p + neighbours->slabs.layout.chunk)
		p = next;
	b = buffer_of(neighbours, next);
	before = buffer_of(neighbours, p);
	umem_abort_info.code = 99;
	ck_assert_int_eq(pthread_create(&thread, NULL, change_tag, NULL), 0);
	for (unsigned i = 0; i < 20000000 && umem_abort_info.code == 99; i++)
		debug_previous_is_intact(&b);
	store_relaxed(&done, 1);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(umem_abort_info.code, 99);
}
END_TEST

START_TEST(every_byte_of_a_waiting_buffer_counts)
{
	unsigned char bytes[33] = {0};
	unsigned nsame = 0;

	for (size_t n = 1; n < sizeof(bytes); n++)
		for (size_t i = 0; i < n; i++)
			for (unsigned change = 1; change < 256; change++) {
				uint32_t sum = wait_sum(bytes, n);

				bytes[i] ^= (unsigned char)change;
				nsame += wait_sum(bytes, n) == sum;
				bytes[i] = (unsigned char)(n * i);
			}
	ck_assert_uint_eq(nsame, 0);
}
END_TEST

START_TEST(untouchable_objects_are_not_touched)
{
	vmem_t *ids = vmem_create(
	    "ids", (void *)1000, 100000, 1, NULL, NULL, NULL, 0, VM_NOSLEEP);
	struct umem_cache *cache;
	void *p[100];

	make("default", "first", 10, 0, 0);
	cache = umem_cache_create(
	    "ids", 1, 1, NULL, NULL, NULL, NULL, ids, UMC_NOTOUCH);
	ck_assert_ptr_nonnull(cache);
	ck_assert_uint_eq(cache->debug, UMF_AUDIT);
	for (unsigned i = 0; i < 100; i++) {
		p[i] = umem_cache_alloc(cache, 0);
		ck_assert_uint_ge((uintptr_t)p[i], 1000);
		ck_assert_uint_lt((uintptr_t)p[i], 101000);
		ck_assert_ptr_eq(record_of(cache, p[i])->addr, p[i]);
	}
	for (unsigned i = 0; i < 100; i++)
		umem_cache_free(cache, p[i]);
	umem_cache_destroy(cache);
	vmem_destroy(ids);
}
END_TEST

/* The records of a slab take 5 GiB of addresses; a page of each has memory. */
START_TEST(records_of_a_slab_may_exceed_4_gib)
{
	static struct bufctl_audit *record[4096];
	static void *p[4096];
	vmem_t *ids = vmem_create("ids", (void *)4096, 64 * KIB, 4096, NULL,
	    NULL, NULL, 0, VM_NOSLEEP);
	struct umem_cache *cache;

	make("default", "first", 10, 0, 0);
	cache = umem_cache_create(
	    "ids", 1, 1, NULL, NULL, NULL, NULL, ids, UMC_NOTOUCH);
	ck_assert_ptr_nonnull(cache);
	ck_assert_uint_eq(cache->slabs.layout.nchunks, array_size(p));
	cache->slabs.record_bytes = MIB + 256 * KIB;
	for (unsigned i = 0; i < array_size(p); i++) {
		p[i] = umem_cache_alloc(cache, 0);
		record[i] = record_of(cache, p[i]);
	}
	umem_cache_free(cache, p[99]);
	for (unsigned i = 0; i < array_size(p); i++) {
		ck_assert_ptr_eq(record[i]->addr, p[i]);
		ck_assert_uint_eq(record[i]->head.state,
		    i == 99 ? BUFCTL_FREE : BUFCTL_ALLOCATED);
	}
	for (unsigned i = 0; i < array_size(p); i++)
		if (i != 99)
			umem_cache_free(cache, p[i]);
	umem_cache_destroy(cache);
	vmem_destroy(ids);
}
END_TEST

/* Three requests to the kernel fail, from the 1st, the 2nd and so on. */
START_TEST(want_of_memory_leaves_all_whole)
{
	for (unsigned nth = 1; nth < 20; nth++) {
		struct umem_cache *cache =
		    make("default", "starved", 20000, 0, 0);
		void *p[20];
		unsigned n = 0;

		os_fail_nth(nth, 3);
		for (unsigned i = 0; i < 20; i++)
			if ((p[n] = umem_cache_alloc(cache, 0)) != NULL)
				n++;
		os_fail_nth(0, 0);
		ck_assert_uint_gt(n, 0);
		ck_assert(slab_store_check(&cache->slabs));
		ck_assert_uint_eq(slab_used(&cache->slabs), n);
		while (n > 0)
			umem_cache_free(cache, p[--n]);
		debug_quarantine_flush(cache);
		ck_assert_uint_eq(slab_used(&cache->slabs), 0);
		umem_cache_destroy(cache);
	}
}
END_TEST

/* Blocks of 0 bytes lie in addresses without memory. */
START_TEST(addresses_that_are_lost_do_not_count)
{
	struct umem_stats stats;
	struct umem_cache *zero;

	options_parse_debug("default");
	ck_assert(class_zero_make());
	alloc_free(alloc_get(0));
	zero = class_zero();
	ck_assert_uint_eq(zero->slabs.nslabs, 1);
	os_fail_nth(1, 1000);
	debug_quarantine_flush(zero);
	cache_reap(zero);
	os_fail_nth(0, 0);
	ck_assert_uint_eq(zero->slabs.nslabs, 0);
	stats_read(&stats);
	ck_assert_int_eq(stats_unaccounted(&stats), 0);
}
END_TEST

Suite *
debug_suite(void)
{
	Suite *suite = suite_create("debug");
	TCase *tc = tcase_create("debug");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, the_part_that_names_a_cache_decides);
	tcase_add_test(tc, some_caches_are_left_alone);
	tcase_add_test(tc, chunks_have_room_for_their_tags);
	tcase_add_test(tc, patterns_and_tags_are_libumems);
	tcase_add_test(tc, maxverify_limits_what_is_filled);
	tcase_add_loop_test(
	    tc, objects_are_constructed_whatever_is_filled, 0, 4);
	tcase_add_test(
	    tc, a_changed_tag_of_a_free_buffer_is_found_when_it_is_used_again);
	tcase_add_test(tc, a_chunk_that_was_never_allocated_has_no_size);
	tcase_add_test(tc, a_report_in_a_child_names_its_thread);
	tcase_add_test(tc, a_corrupt_buffer_is_never_used_again);
	tcase_add_loop_test(
	    tc, an_overrun_into_the_next_buffer_has_its_culprit, 0, 2);
	tcase_add_test(tc, what_was_freed_stays_away);
	tcase_add_test(tc, what_waits_is_looked_at);
	tcase_add_test(tc, what_waits_is_looked_at_in_the_end);
	tcase_add_test(tc, every_bit_of_a_tag_is_looked_at);
	tcase_add_test(
	    tc, every_bit_of_a_short_tag_is_looked_at_from_both_sides);
	tcase_add_loop_test(tc, a_neighbour_may_be_freed_meanwhile, 0, 2);
	tcase_add_test(tc, every_byte_of_a_waiting_buffer_counts);
	tcase_add_test(tc, hardened_functions_take_only_usual_blocks);
	tcase_add_test(tc, a_hardened_cache_has_magazines_below_its_checks);
	tcase_add_test(tc, a_choice_without_flags_does_not_count);
	tcase_add_test(tc, a_large_block_grows_in_place);
	tcase_add_test(tc, untouchable_objects_are_not_touched);
	tcase_add_test(tc, records_of_a_slab_may_exceed_4_gib);
	tcase_add_test(tc, want_of_memory_leaves_all_whole);
	tcase_add_test(tc, addresses_that_are_lost_do_not_count);
	if (machine_has_stacks()) {
		tcase_add_test(tc, records_tell_who_and_when);
	}
	suite_add_tcase(suite, tc);
	return suite;
}
