/*
 * blocks.h - blocks with contents that follow from address, size and seed
 *
 * A block of up to DENSE bytes is filled as a whole; of a larger one, the first
 * and the last EDGE bytes, and a word in each page between.  Every check
 * compares all of this.  Besides, a table has a byte for each 8 bytes of the
 * heap, which is 1 where a block begins: by it, an actor notices at once that
 * a block is allocated twice, or freed twice.
 *
 * Programs of the tests are built without builtins, so memcpy() of a word would
 * be a call.
 */
#ifndef TESTS_SOAK_BLOCKS_H
#define TESTS_SOAK_BLOCKS_H

#include "tests/soak/soak.h"

enum origin {
	NOTHING,
	MALLOC,
	UMEM,
	ALIGN,
	OBJECT
};

struct block {
	unsigned char *at;
	size_t size;
	uint64_t base; /* of the contents */
	enum origin origin;
	unsigned cache; /* of an object: index in objects.h */
};

#define DENSE       ((size_t)16 * KIB)
#define EDGE        ((size_t)4 * KIB)
#define WINDOW_BITS 32

static uint8_t *starts; /* the table */
static uintptr_t starts_base;

static void
starts_make(void)
{
	void *p = malloc(100);

	starts_base = (uintptr_t)p & ~(((uintptr_t)1 << WINDOW_BITS) - 1);
	free(p);
	starts =
	    mmap(NULL, (size_t)1 << (WINDOW_BITS - 3), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	must(starts != MAP_FAILED);
}

static inline void
starts_set(const void *at, uint8_t value, const char *wrong)
{
	uintptr_t offset = (uintptr_t)at - starts_base;

	if (offset < (uintptr_t)1 << WINDOW_BITS &&
	    __atomic_exchange_n(&starts[offset / 8], value, __ATOMIC_RELAXED) ==
		value)
		differs("%p %s", at, wrong);
}

/* Bytes from .. to, of which from is a multiple of 8. */
static inline void
fill_range(const struct block *b, size_t from, size_t to)
{
	uint64_t word = b->base + from * GOLD;

	for (; from + 8 <= to; from += 8, word += 8 * GOLD)
		__builtin_memcpy(b->at + from, &word, 8);
	if (from < to)
		memcpy(b->at + from, &word, to - from);
}

static void
check_range(const struct block *b, size_t from, size_t to, const char *when)
{
	uint64_t word = b->base + from * GOLD, found;

	for (; from + 8 <= to; from += 8, word += 8 * GOLD) {
		__builtin_memcpy(&found, b->at + from, 8);
		if (found != word)
			differs("%s: block %p of %zu bytes (origin %d, cache "
				"%u): at %zu %016llx instead of %016llx",
			    when, (void *)b->at, b->size, b->origin, b->cache,
			    from, (unsigned long long)found,
			    (unsigned long long)word);
	}
	if (from < to && memcmp(b->at + from, &word, to - from) != 0)
		differs("%s: block %p of %zu bytes (origin %d, cache %u): the "
			"last %zu bytes are wrong",
		    when, (void *)b->at, b->size, b->origin, b->cache,
		    to - from);
}

static inline void
fill_from(const struct block *b, size_t from)
{
	size_t end = b->size & ~(size_t)7, at;

	if (b->size <= DENSE) {
		fill_range(b, from, b->size);
		return;
	}
	fill_range(b, from, EDGE);
	for (at = EDGE; at < end - EDGE; at += 4096)
		fill_range(b, at, at + 8);
	fill_range(b, end - EDGE, b->size);
}

/* Of the first limit bytes, the part from .. limit. */
static inline void
check_part(const struct block *b, size_t from, size_t limit, const char *when)
{
	size_t end = b->size & ~(size_t)7, at;

	if (b->size <= DENSE) {
		check_range(b, from, limit, when);
		return;
	}
	check_range(b, from, limit < EDGE ? limit : EDGE, when);
	for (at = EDGE; at < end - EDGE && at + 8 <= limit; at += 4096)
		check_range(b, at, at + 8, when);
	if (limit > end - EDGE)
		check_range(b, end - EDGE, limit, when);
}

static inline void
check_block(const struct block *b, const char *when)
{
	check_part(b, 0, b->size, when);
}

/*
 * All sizes, mostly small ones; a mean of 900 bytes.  At times most are of one
 * class, so that its magazines are exchanged, or large, so that the heap is at
 * work.
 */
static size_t
draw_size(struct actor *a)
{
	unsigned phase = __atomic_load_n(&soak_phase, __ATOMIC_RELAXED) % 8;
	uint64_t r = next_random(&a->random);
	size_t n = r >> 20;

	if (phase == 5 && r % 16 != 0)
		return 200;
	if (phase == 7 && r % 4 == 0)
		return n % (256 * KIB);
	if (r % 4 != 0)
		return 1 + n % 64;
	if (r % 64 != 0)
		return n % 600;
	if (r % 1024 != 0)
		return n % (32 * KIB);
	if (r % 8192 != 0)
		return n % (512 * KIB);
	if (r % 131072 != 0)
		return n % (4 * MIB);
	return n % (24 * MIB);
}

static inline size_t
least_align(size_t size)
{
	return size >= 16 ? 16 : 8;
}

/* The actor has this block now. */
static inline void
block_take(struct actor *a, struct block *b, enum origin origin, void *at,
    size_t size, size_t align)
{
	must(is_aligned(at, align));
	starts_set(at, 1, "is allocated twice");
	b->origin = origin;
	b->at = at;
	b->size = size;
	b->base = mix(mix((uintptr_t)at) + size) ^ next_random(&a->random);
	a->ops++;
	a->bytes += size;
}

static void
get_malloc(struct actor *a, struct block *b)
{
	unsigned mark = scarce_mark();
	size_t size = draw_size(a), align = least_align(size);
	void *at = NULL;

	switch (draw(a, 8)) {
	case 0:
		at = calloc(1, size);
		if (at != NULL && size <= 4 * MIB && !is_zero(at, size))
			differs("calloc(): %p of %zu is not zero", at, size);
		break;
	case 1:
		align = (size_t)1 << draw(a, draw(a, 16) ? 8 : 17);
		if (align < 8)
			align = 8;
		if (draw(a, 2) == 0)
			at = aligned_alloc(align, size);
		else if (posix_memalign(&at, align, size) != 0)
			at = NULL;
		break;
	default:
		at = malloc(size);
	}
	if (at == NULL) {
		failed(mark, "malloc()", size);
		return;
	}
	if (size > 0)
		must(malloc_usable_size(at) >= size);
	block_take(a, b, MALLOC, at, size, align);
	fill_from(b, 0);
}

static void
get_umem(struct actor *a, struct block *b)
{
	unsigned mark = scarce_mark();
	size_t size = draw_size(a) + 1, align = least_align(size);
	enum origin origin = UMEM;
	void *at;

	switch (draw(a, 8)) {
	case 0:
		at = umem_zalloc(size, UMEM_DEFAULT);
		if (at != NULL && size <= 4 * MIB && !is_zero(at, size))
			differs(
			    "umem_zalloc(): %p of %zu is not zero", at, size);
		break;
	case 1:
		align = (size_t)8 << draw(a, 10);
		at = umem_alloc_align(size, align, UMEM_DEFAULT);
		origin = ALIGN;
		break;
	default:
		at = umem_alloc(size, UMEM_DEFAULT);
	}
	if (at == NULL) {
		failed(mark, "umem_alloc()", size);
		return;
	}
	block_take(a, b, origin, at, size, align);
	fill_from(b, 0);
}

/* The caller frees the block. */
static inline void
block_drop(struct actor *a, struct block *b, const char *when)
{
	check_block(b, when);
	starts_set(b->at, 0, "is freed twice");
	a->ops++;
	a->bytes -= b->size;
	b->origin = NOTHING;
}

/* Any but an object. */
static void
block_free(struct actor *a, struct block *b)
{
	enum origin origin = b->origin;

	block_drop(a, b, "before its free");
	/* A block that is freed too early does not keep its contents. */
	memset(b->at, 0xdf, b->size < 64 ? b->size : 64);
	if (origin == MALLOC)
		free(b->at);
	else if (origin == UMEM)
		umem_free(b->at, b->size);
	else
		umem_free_align(b->at, b->size);
}

static void
block_resize(struct actor *a, struct block *b)
{
	unsigned mark = scarce_mark();
	struct block was = *b;
	size_t size = 1 + (draw(a, 2) ? draw_size(a) : b->size + draw(a, 64));
	size_t kept = size < b->size ? size : b->size;
	void *at;

	if (b->origin != MALLOC && b->origin != UMEM)
		return;
	check_block(b, "before its resize");
	starts_set(b->at, 0, "is resized after its free");
	at = b->origin == MALLOC
		 ? realloc(b->at, size)
		 : umem_realloc(b->at, b->size, size, UMEM_DEFAULT);
	if (at == NULL) {
		failed(mark, "realloc()", size);
		starts_set(b->at, 1, "is allocated beside a failed resize");
		check_block(b, "after a failed resize");
		return;
	}
	a->bytes -= was.size;
	block_take(a, b, was.origin, at, size, least_align(size));
	was.at = at;
	check_part(&was, 0, kept, "after its resize");
	fill_from(b, 0);
}

/* Several blocks of one size by one call. */
static void
blocks_bulk(struct actor *a)
{
	enum {
		MOST = 40
	};
	unsigned mark = scarce_mark();
	size_t n = 1 + draw(a, MOST), size = 1 + draw(a, 3000);
	struct block table[MOST];
	void *at[MOST];

	if (umem_alloc_bulk(size, n, at, UMEM_DEFAULT) != n) {
		failed(mark, "umem_alloc_bulk()", size);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		block_take(a, &table[i], UMEM, at[i], size, least_align(size));
		fill_from(&table[i], 0);
	}
	/* Half of them singly. */
	while (n > 0 && draw(a, MOST) < n) {
		block_free(a, &table[--n]);
	}
	for (size_t i = 0; i < n; i++)
		block_drop(a, &table[i], "before its bulk free");
	umem_free_bulk(n, at, size);
}

#endif
