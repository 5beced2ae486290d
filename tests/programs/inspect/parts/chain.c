/*
 * chain.c - a program with much memory, for the command umem to look at
 *
 *	chain MIB [dense]
 *
 * Keeps a list of blocks of 256 bytes, MIB in all, and loses three blocks.
 * "dense": every word of a block is a pointer to the next.
 * Prints "ready" and waits until its standard input ends.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct node {
	struct node *next;
	char text[248];
};

struct node *volatile list;

__attribute__((noinline)) static void
lose(int n)
{
	while (n-- > 0)
		memset(malloc(5000), 0x5a, 5000);
}

int
main(int argc, char **argv)
{
	size_t n = ((size_t)atoi(argv[1]) << 20) / sizeof(struct node);
	char c;

	/* First, so that no register keeps a pointer to them. */
	lose(3);
	free(malloc(5000));
	while (n-- > 0) {
		struct node *node = malloc(sizeof(*node));

		memset(node->text, 0x41, sizeof(node->text));
		for (size_t i = 0; argc > 2 && i < sizeof(node->text); i += 8)
			memcpy(node->text + i, (void *)&list, 8);
		node->next = list;
		list = node;
	}
	if (write(1, "ready\n", 6) != 6)
		return 9;
	return (int)read(0, &c, 1);
}
