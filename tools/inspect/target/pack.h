/* pack.h - copies of pages that keep only the pointers; see pack.c */
#ifndef TOOLS_PACK_H
#define TOOLS_PACK_H

#include "tools/inspect/base/text.h"

/* Bytes of the target's memory in one packed page. */
#define PACK_BYTES 4096
#define PACK_WORDS (PACK_BYTES / 8)

/*
 * The words that are kept: those in [base, base + bytes).  bytes is 0 if
 * nothing is to be packed.  Words in [base, base + 32 GiB) take 4 bytes each,
 * and lose the 3 lowest bits; others take 8 bytes.
 */
struct pack_filter {
	uint64_t base;
	uint64_t bytes;
};

/* Memory in which one thread stores packed pages. */
struct pack_store {
	char *next;
	size_t left;
};

/*
 * Packs nwords words, at most PACK_WORDS.  Sets *page to the packed page, or
 * to NULL if none of the words is kept.  Returns false if memory_spend() did.
 */
bool pack_page(struct pack_store *store, const struct pack_filter *filter,
    const uint64_t *words, size_t nwords, char **page);

/* Frees all packed pages; no thread packs. */
void pack_forget(void);

/* Reads words first .. first + n - 1 of a page; unkept words read as 0. */
void pack_read(const char *page, const struct pack_filter *filter,
    unsigned first, unsigned n, uint64_t *words);

/* Returns the bytes of the packed form of these words. */
size_t pack_cost(
    const struct pack_filter *filter, const uint64_t *words, size_t nwords);

#endif
