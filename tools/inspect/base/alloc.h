/* alloc.h - memory of the command, and arrays; see alloc.c */
#ifndef TOOLS_ALLOC_H
#define TOOLS_ALLOC_H

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/base/fail.h"

#define array_size(a) (sizeof(a) / sizeof((a)[0]))

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* Returns what a function of libc has made, or ends the process if NULL. */
void *xchecked(void *made);
/* Return memory, or end the process. */
void *xalloc(size_t bytes); /* zeros */
void *xresize(void *old, size_t bytes);
char *xprint(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Sorts an array, which may be NULL if n is 0. */
#define ARRAY_SORT(array, n, order)                                            \
	((n) == 0 ? (void)0 : qsort((array), (n), sizeof(*(array)), (order)))

/* Makes space for one more element; the array doubles. */
#define ARRAY_GROW(array, n, capacity)                                         \
	(assert((n) <= (capacity)),                                            \
	    (n) < (capacity)                                                   \
		? (void)0                                                      \
		: (void)((capacity) = (capacity) ? 2 * (capacity) : 16,        \
		      (array) =                                                \
			  xresize(array, (capacity) * sizeof(*(array)))))

/* Adds a value, which may have commas, as an element. */
#define ARRAY_ADD(array, n, capacity, ...)                                     \
	(ARRAY_GROW(array, n, capacity), (void)((array)[(n)++] = __VA_ARGS__))

/*
 * Returns the item of a tree of tsearch() that equals the key.  If there is
 * none, adds a copy of the key, which has so many bytes, and sets *is_new.
 */
void *tree_item(void **tree, const void *key, size_t bytes,
    int (*order)(const void *, const void *), bool *is_new);

/* Returns the order of two numbers, as a function for qsort() does. */
static inline int
order_numbers(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/*
 * Returns the order of two rows of a table: the larger figure is first.
 * Because qsort() may leave equal rows in any order, tie is their order.
 */
static inline int
order_rows(double a, double b, int tie)
{
	return a > b ? -1 : a < b ? 1 : tie;
}

/* Returns the order of two items by their first member, a uint64_t. */
static inline int
order_first_words(const void *a, const void *b)
{
	return order_numbers(*(const uint64_t *)a, *(const uint64_t *)b);
}

/* Returns the order of two items by their first member, a text. */
static inline int
order_first_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/*
 * Returns the order of an address and a range, which begins with its start and
 * its end: equal if the range has the address.
 */
static inline int
order_range(const void *address, const void *range)
{
	const uint64_t *at = address, *ends = range;

	return *at < ends[0] ? -1 : *at >= ends[1];
}

/* --force: take as much memory as needed, even if that seems too much. */
extern bool alloc_forced;

/*
 * Bounds the memory of this command by that of the target, in bytes.  If the
 * target is damaged or hostile, its structures may name any amount.
 */
void alloc_bound_by(uint64_t resident);

/* Bounds the address space, in which libdw may take bytes more. */
void alloc_bound_libraries(uint64_t bytes);

#endif
