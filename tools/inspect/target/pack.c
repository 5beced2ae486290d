/*
 * pack.c - copies of pages that keep only the pointers
 *
 * A search for leaks reads every word of the target and needs only the words
 * that point into the heap.  Therefore a page is scanned in a buffer while the
 * target is stopped, and only these words are stored.
 *
 * A packed page is a bit for each word of the page, set if the word is kept,
 * and behind these 64 bytes the kept words in order: as 32-bit offsets from
 * filter.base in units of 8 bytes if all of them fit (narrow), else as they
 * are (wide).  An offset in units of 8 bytes still identifies the chunk, since
 * every chunk starts at a multiple of 8.  Bit 0 of the page's address is set
 * if the page is wide.  A page without a kept word takes no memory.
 *
 * A thread takes memory for packed pages in chunks of CHUNK bytes.
 */
#include <assert.h>
#include <string.h>
#include <sys/mman.h>

#include "tools/inspect/base/memory.h"
#include "tools/inspect/target/pack.h"

#define CHUNK     (1 * MIB)
#define MAP_BYTES (PACK_WORDS / 8)
#define WIDE      1

static_assert(PACK_WORDS % 64 == 0, "whole words of the bit map");
/* At the start of a chunk. */
struct chunk {
	struct chunk *next;
};

static_assert(sizeof(struct chunk) + MAP_BYTES + PACK_BYTES <= CHUNK,
    "a chunk holds any page");

static struct chunk *chunks; /* atomic: all of them */

static struct chunk *
chunk_create(void)
{
	struct chunk *chunk;

	if (!memory_spend(CHUNK))
		return NULL;
	chunk = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (chunk == MAP_FAILED)
		return NULL;
	chunk->next = __atomic_load_n(&chunks, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&chunks, &chunk->next, chunk, true,
	    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
	return chunk;
}

void
pack_forget(void)
{
	while (chunks != NULL) {
		struct chunk *next = chunks->next;

		munmap(chunks, CHUNK);
		memory_spend(-(uint64_t)CHUNK);
		chunks = next;
	}
}

/* Sets the bits of kept words; returns their number.  *wide: one is far. */
static size_t
mark_kept_words(const struct pack_filter *kept, const uint64_t *words,
    size_t nwords, uint64_t *map, bool *wide)
{
	const struct pack_filter filter = *kept; /* in registers */
	size_t nkept = 0;

	assert(nwords <= PACK_WORDS);
	*wide = false;
	for (size_t i = 0; i < PACK_WORDS / 64; i++) {
		size_t end = 64 * (i + 1) < nwords ? 64 * (i + 1) : nwords;
		uint64_t bits = 0;

		/* From the last word to the first: one addition shifts. */
#pragma GCC unroll 8
		for (size_t j = end; j-- > 64 * i;)
			bits += bits + (words[j] - filter.base < filter.bytes);
		map[i] = bits;
		nkept += (size_t)__builtin_popcountll(bits);
		for (; bits != 0; bits &= bits - 1) {
			size_t j = (size_t)__builtin_ctzll(bits);

			*wide |= (words[64 * i + j] - filter.base) >> 35 != 0;
		}
	}
	assert(nkept <= nwords);
	return nkept;
}

static size_t
packed_bytes(size_t nkept, bool wide)
{
	assert(nkept > 0 && nkept <= PACK_WORDS);
	return (MAP_BYTES + nkept * (wide ? 8 : 4) + 7) & ~(size_t)7;
}

static char *
store_take(struct pack_store *store, size_t bytes)
{
	struct chunk *chunk;
	char *at;

	assert(bytes <= CHUNK - sizeof(*chunk) && bytes % 8 == 0);
	if (store->left < bytes) {
		chunk = chunk_create();
		if (chunk == NULL)
			return NULL;
		store->next = (char *)(chunk + 1);
		store->left = CHUNK - sizeof(*chunk);
	}
	assert(store->left >= bytes && (uintptr_t)store->next % 8 == 0);
	at = store->next;
	store->next += bytes;
	store->left -= bytes;
	return at;
}

bool
pack_page(struct pack_store *store, const struct pack_filter *filter,
    const uint64_t *words, size_t nwords, char **page)
{
	uint64_t map[PACK_WORDS / 64];
	bool wide;
	size_t nkept = mark_kept_words(filter, words, nwords, map, &wide),
	       k = 0;
	char *at;

	*page = NULL;
	if (nkept == 0)
		return true;
	at = store_take(store, packed_bytes(nkept, wide));
	if (at == NULL)
		return false;
	memcpy(at, map, MAP_BYTES);
	for (size_t i = 0; i < PACK_WORDS / 64; i++)
		for (uint64_t bits = map[i]; bits != 0; bits &= bits - 1, k++) {
			uint64_t word =
			    words[64 * i + (size_t)__builtin_ctzll(bits)];

			if (wide)
				((uint64_t *)(at + MAP_BYTES))[k] = word;
			else
				((uint32_t *)(at + MAP_BYTES))[k] =
				    (uint32_t)((word - filter->base) >> 3);
		}
	assert(k == nkept && ((uintptr_t)at & WIDE) == 0);
	*page = at + (wide ? WIDE : 0);
	return true;
}

void
pack_read(const char *page, const struct pack_filter *filter, unsigned first,
    unsigned n, uint64_t *words)
{
	bool wide = (uintptr_t)page & WIDE;
	const uint64_t *map = (const void *)(page - (wide ? WIDE : 0));
	const uint64_t *far = map + MAP_BYTES / 8;
	const uint32_t *near = (const void *)far;
	unsigned end = first + n;
	size_t k = 0;

	assert(n > 0 && end <= PACK_WORDS);
	memset(words, 0, n * sizeof(*words));
	for (unsigned i = 0; 64 * i < end; i++) {
		uint64_t bits = map[i];

		if (first >= 64 * (i + 1)) {
			k += (size_t)__builtin_popcountll(bits);
			continue;
		}
		for (; bits != 0; bits &= bits - 1, k++) {
			unsigned j = 64 * i + (unsigned)__builtin_ctzll(bits);

			if (j < first)
				continue;
			if (j >= end)
				return;
			words[j - first] =
			    wide ? far[k]
				 : filter->base + ((uint64_t)near[k] << 3);
		}
	}
}

size_t
pack_cost(
    const struct pack_filter *filter, const uint64_t *words, size_t nwords)
{
	uint64_t map[PACK_WORDS / 64];
	bool wide;
	size_t nkept = mark_kept_words(filter, words, nwords, map, &wide);

	return nkept == 0 ? 0 : packed_bytes(nkept, wide);
}
