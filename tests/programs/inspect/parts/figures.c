/*
 * figures.c - one call site behind many different stacks, and a leak
 *
 * Prints "ready" when the blocks are allocated, and waits until its standard
 * input ends.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NBLOCKS 15000

struct node {
	struct node *next;
	char text[92];
};

struct node *volatile list;

static __attribute__((noinline)) void
keep(void)
{
	struct node *node = malloc(sizeof(*node));

	node->next = list;
	list = node;
}

/* The depth of the recursion makes the stacks differ. */
static __attribute__((noinline)) void
descend(int depth)
{
	if (depth == 0)
		keep();
	else
		descend(depth - 1);
	__asm__ volatile("");
}

static __attribute__((noinline)) void
lose(void)
{
	memset(malloc(300), 1, 300);
}

int
main(void)
{
	char c;

	for (int i = 0; i < NBLOCKS; i++) {
		descend(i % 8);
		lose();
	}
	memset(malloc(300), 1, 300);
	if (write(1, "ready\n", 6) != 6)
		return 9;
	while (read(0, &c, 1) == 1)
		;
	return 0;
}
