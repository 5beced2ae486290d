/*
 * brief.c - allocates much, most of which is freed: at once, after a peak, or
 * not; and again for an "a" in its input
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *kept[40000];

/* 200,000 blocks of 200 bytes, of which each lives for some ns. */
static __attribute__((noinline)) void
churn(void)
{
	for (int i = 0; i < 200000; i++) {
		void *p = malloc(200);

		__asm__ volatile("" : : "r"(p) : "memory");
		free(p);
	}
}

/* 40,000 blocks of 1000 bytes, for longer than a second. */
static __attribute__((noinline)) void
rise(void)
{
	for (int i = 0; i < 40000; i++)
		kept[i] = malloc(1000);
	usleep(1100000);
	for (int i = 0; i < 40000; i++)
		free(kept[i]);
}

/* 10,000 blocks of 500 bytes, which stay. */
static __attribute__((noinline)) void
hold(void)
{
	for (int i = 0; i < 10000; i++)
		kept[i] = malloc(500);
}

/* 20,000 blocks of 1000 bytes, of which every second one stays. */
static __attribute__((noinline)) void
again(void)
{
	for (int i = 0; i < 20000; i++) {
		void *p = malloc(1000);

		if (i % 2 == 0)
			kept[10000 + i] = p;
		else
			free(p);
	}
}

int
main(void)
{
	int c;

	churn();
	rise();
	hold();
	puts("ready");
	fflush(stdout);
	while ((c = getchar()) != EOF) {
		if (c != 'a')
			continue;
		again();
		puts("done");
		fflush(stdout);
	}
	return 0;
}
