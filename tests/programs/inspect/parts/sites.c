/*
 * sites.c - a program with known losses at known call sites, for umem leaks
 *
 *	sites [MORE]
 *
 * Loses 100 sessions of 96 bytes, on two ways, each with its buffer of 5000
 * bytes; a ring of 3 nodes of 72; 40 blocks of 100, 110, ... bytes at one call
 * site; 50 names of 12 bytes by strdup(); 30 blocks of 300 through a wrapper of
 * malloc(); and a list of 2000 nodes of 64.  Keeps 500 blocks of 700, 701, ...
 * bytes of one call site.  Prints "ready"; for each line on standard input,
 * loses MORE further names (10 by default) and prints "lost".
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define APART __attribute__((noinline))

struct session {
	char *buffer;
	char rest[88];
};

struct node {
	struct node *next;
	char rest[64];
};

struct link {
	struct link *next;
	char rest[56];
};

void *kept[500];

static APART char *
buffer_new(void)
{
	char *buffer = malloc(5000);

	memset(buffer, 1, 5000);
	return buffer;
}

static APART void
session_open(char *buffer)
{
	struct session *volatile s = malloc(sizeof(*s));

	memset(s, 1, sizeof(*s));
	s->buffer = buffer;
	s = NULL;
}

static APART void
serve_first(void)
{
	for (int i = 0; i < 60; i++)
		session_open(buffer_new());
}

static APART void
serve_second(void)
{
	for (int i = 0; i < 40; i++)
		session_open(buffer_new());
}

static APART void
make_ring(void)
{
	struct node *first = NULL, *last = NULL;

	for (int i = 0; i < 3; i++) {
		struct node *node = calloc(1, sizeof(*node));

		if (first == NULL)
			first = node;
		node->next = first;
		if (last != NULL)
			last->next = node;
		last = node;
	}
}

static APART void
lose_sizes(void)
{
	for (size_t i = 0; i < 40; i++) {
		void *volatile p = malloc(100 + 10 * i);

		memset(p, 1, 100);
		p = NULL;
	}
}

static APART void
load_names(int n)
{
	for (int i = 0; i < n; i++) {
		void *volatile p = strdup("name of file");

		p = NULL;
	}
}

static APART void *
xmalloc(size_t bytes)
{
	void *p = malloc(bytes);

	if (p == NULL)
		abort();
	return p;
}

static APART void
use_wrapper(void)
{
	for (int i = 0; i < 30; i++) {
		void *volatile p = xmalloc(300);

		memset(p, 1, 300);
		p = NULL;
	}
}

static APART void
make_list(void)
{
	struct link *volatile list = NULL;

	for (int i = 0; i < 2000; i++) {
		struct link *link = malloc(sizeof(*link));

		memset(link, 0, sizeof(*link));
		link->next = list;
		list = link;
	}
	list = NULL;
}

static APART void
keep_sizes(void)
{
	for (size_t i = 0; i < 500; i++)
		kept[i] = malloc(700 + i);
}

/* In a thread that ends: no search looks at its stack. */
static void *
lose_all(void *unused)
{
	serve_first();
	serve_second();
	make_ring();
	lose_sizes();
	load_names(50);
	use_wrapper();
	make_list();
	keep_sizes();
	return unused;
}

static void *
lose_more(void *n)
{
	load_names((int)(intptr_t)n);
	return NULL;
}

static void
run(void *(*work)(void *), intptr_t n)
{
	pthread_t thread;

	pthread_create(&thread, NULL, work, (void *)n);
	pthread_join(thread, NULL);
}

int
main(int argc, char **argv)
{
	char c;

	run(lose_all, 0);
	if (write(1, "ready\n", 6) != 6)
		return 9;
	while (read(0, &c, 1) == 1) {
		run(lose_more, argc > 1 ? atoi(argv[1]) : 10);
		if (write(1, "lost\n", 5) != 5)
			return 9;
	}
	return 0;
}
