/*
 * guarded.c - lost pairs of blocks among freed ones, for samples with guards
 *
 * Prints "leak ADDRESS" for each block of a lost pair, of which the first one
 * points to the other, then "ready", and waits until its standard input ends.
 * Every other pair is freed, so that places of samples lie free beside those
 * that are taken.  The planting is done by a thread that ends.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NPAIRS 1500

struct node {
	struct node *next;
	char text[80];
};

static struct node *
make(struct node *next)
{
	struct node *node = malloc(sizeof(*node));

	memset(node, 0x5a, sizeof(*node));
	node->next = next;
	return node;
}

static void
tell(void *p)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "leak %lx\n", (long)p);

	if (write(1, line, (size_t)n) != n)
		_exit(9);
}

static void *
planter(void *arg)
{
	volatile char deep[65536];
	static struct node *pair[NPAIRS];

	deep[0] = 0;
	for (int i = 0; i < NPAIRS; i++)
		pair[i] = make(make(NULL));
	for (int i = 0; i < NPAIRS; i++) {
		if (i % 2 == 0) {
			free(pair[i]->next);
			free(pair[i]);
		} else {
			tell(pair[i]);
			tell(pair[i]->next);
		}
		pair[i] = NULL;
	}
	deep[1] = 0;
	return arg;
}

int
main(void)
{
	pthread_t thread;
	char c;

	pthread_create(&thread, NULL, planter, NULL);
	pthread_join(thread, NULL);
	if (write(1, "ready\n", 6) != 6)
		return 9;
	while (read(0, &c, 1) == 1)
		;
	return 0;
}
