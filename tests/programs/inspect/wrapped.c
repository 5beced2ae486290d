/*
 * wrapped.c - a program with allocation functions of its own
 *
 *	wrapped wrappers|nodes|many|one|later
 *
 * wrappers: load_users() and load_names() allocate by take_memory(), which
 * calls get_memory() and resize_memory(), with different sizes.
 * nodes: the same two callers have objects of one size made by node_new().
 * many: they call eight functions that allocate blocks of different sizes.
 * one: only load_users() allocates, by buffer_new(), with different sizes.
 * later: as one, and after a byte of input, load_names() does so, too.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *volatile kept[1000];
static int nkept;

/* Not inlined, and no tail call, so that each is on the stack. */
#define APART __attribute__((noinline, noclone))
#define RETURN(p)                                                              \
	do {                                                                   \
		void *volatile result = (p);                                   \
		return result;                                                 \
	} while (0)

APART void *
get_memory(size_t bytes)
{
	RETURN(malloc(bytes));
}

APART void *
resize_memory(void *p, size_t bytes)
{
	RETURN(realloc(p, bytes));
}

APART void *
take_memory(size_t bytes)
{
	if (bytes % 3 == 0)
		RETURN(get_memory(bytes));
	RETURN(resize_memory(get_memory(10), bytes));
}

APART void *
node_new(size_t bytes)
{
	(void)bytes;
	RETURN(malloc(48));
}

APART void *
buffer_new(size_t bytes)
{
	RETURN(malloc(bytes));
}

#define ONE_OF_MANY(n)                                                         \
	APART void *many_##n(size_t bytes)                                     \
	{                                                                      \
		RETURN(malloc(bytes + n));                                     \
	}
ONE_OF_MANY(0)
ONE_OF_MANY(1)
ONE_OF_MANY(2)
ONE_OF_MANY(3)
ONE_OF_MANY(4)
ONE_OF_MANY(5)
ONE_OF_MANY(6)
ONE_OF_MANY(7)

typedef void *allocate(size_t bytes);
static allocate *const wrappers[] = {take_memory};
static allocate *const nodes[] = {node_new};
static allocate *const one[] = {buffer_new};
static allocate *const many[] = {
    many_0, many_1, many_2, many_3, many_4, many_5, many_6, many_7};
static allocate *const *volatile allocators;
static int nallocators;

APART void
load_users(void)
{
	for (int i = 0; i < 200; i++)
		kept[nkept++] = allocators[i % nallocators](100 + i);
}

APART void
load_names(void)
{
	for (int i = 0; i < 200; i++)
		kept[nkept++] = allocators[i % nallocators](900 + i);
}

int
main(int argc, char **argv)
{
	char c;

	allocators = wrappers;
	nallocators = 1;
	if (strcmp(argv[1], "nodes") == 0)
		allocators = nodes;
	if (strcmp(argv[1], "many") == 0) {
		allocators = many;
		nallocators = 8;
	}
	if (strcmp(argv[1], "one") == 0 || strcmp(argv[1], "later") == 0)
		allocators = one;
	load_users();
	if (allocators != one)
		load_names();
	if (write(1, "ready\n", 6) != 6)
		return 9;
	if (strcmp(argv[1], "later") == 0 && read(0, &c, 1) == 1)
		load_names();
	return (int)read(0, &c, 1);
}
