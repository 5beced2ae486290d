/*
 * sampled.c - a program with known allocations, for umem users
 *
 *	sampled [BUSY]
 *
 * keep_many() has 20000 blocks of 200 bytes, keep_few() 40 of 100000, dive(),
 * 40 calls below keep_deep(), has 100 of 5000, and forget() has lost 20000 of
 * 100.  "freed ADDRESS" is where a block with pages
 * of its own was, if there was one, and "ended ADDRESS" the byte behind one.
 * BUSY threads fill and check their blocks until standard input ends.  With a
 * BUSY of 0, the program calls nothing but malloc() and free() of 33 bytes.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	MANY = 20000,
	FEW = 40,
	DEEP = 100
};

void *many[MANY], *few[FEW], *deep[DEEP];
char *volatile guarded;
static volatile int stop;

static __attribute__((noinline)) void
keep_many(void)
{
	for (int i = 0; i < MANY; i++)
		many[i] = malloc(200);
}

static __attribute__((noinline)) void
keep_few(void)
{
	for (int i = 0; i < FEW; i++)
		few[i] = calloc(1, 100000);
}

static __attribute__((noinline)) void
dive(int calls)
{
	if (calls > 0)
		dive(calls - 1);
	for (int i = 0; calls == 0 && i < DEEP; i++)
		deep[i] = malloc(5000);
	__asm__ volatile("");
}

static __attribute__((noinline)) void
keep_deep(void)
{
	dive(40);
	__asm__ volatile("");
}

static __attribute__((noinline)) void
forget(void)
{
	for (int i = 0; i < MANY; i++) {
		void *volatile p = malloc(100);

		memset(p, 1, 100);
		p = NULL;
	}
}

/* Blocks of 96 bytes that end where pages end are samples with a guard. */
static __attribute__((noinline)) char *
find_guarded(void)
{
	for (int i = 0; i < 300000; i++) {
		char *p = malloc(96);

		if (((uintptr_t)p + 96) % 65536 == 65536 - 4096)
			return p;
		free(p);
	}
	return NULL;
}

static __attribute__((noinline)) void
give_up(char *p)
{
	free(p);
	__asm__ volatile("");
}

static void
tell(const char *what, char *at)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "%s %lx\n", what, (long)at);

	if (write(1, line, (size_t)n) != n)
		_exit(9);
}

static void
tell_guarded(void)
{
	char *p = find_guarded();

	if (p != NULL) {
		tell("freed", p + 5);
		give_up(p);
	}
	guarded = find_guarded();
	if (guarded != NULL)
		tell("ended", guarded + 96);
}

static void *
busy(void *arg)
{
	uint64_t seed = (uintptr_t)arg + 1;

	while (!stop) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		size_t n = 1 + (seed >> 33) % (seed % 64 == 0 ? 200000 : 500);
		char *p = calloc(1, n);

		if (p == NULL || p[0] != 0 || p[n - 1] != 0)
			_exit(3);
		p[0] = p[n - 1] = (char)n;
		if (seed % 3 == 0)
			p = realloc(p, n + n / 3);
		if (p == NULL || p[0] != (char)n)
			_exit(4);
		free(p);
	}
	return NULL;
}

static void *
same(void *unused)
{
	while (!stop) {
		void *volatile p = malloc(33);

		free(p);
	}
	return unused;
}

int
main(int argc, char **argv)
{
	int nbusy = argc > 1 ? atoi(argv[1]) : -1;
	pthread_t thread[16];
	char c;

	keep_many();
	keep_few();
	keep_deep();
	forget();
	tell_guarded();
	for (int i = 0; i < nbusy; i++)
		pthread_create(&thread[i], NULL, busy, (void *)(intptr_t)i);
	if (nbusy == 0)
		pthread_create(&thread[0], NULL, same, NULL);
	if (write(1, "ready\n", 6) != 6)
		return 9;
	if (read(0, &c, 1) != 0)
		return 9;
	stop = 1;
	for (int i = 0; i < (nbusy == 0 ? 1 : nbusy); i++)
		pthread_join(thread[i], NULL);
	return 0;
}
