/*
 * stacks.c - leaks: their addresses are on stacks of ended threads alone
 *
 *	stacks guard|none
 *
 * All threads live at the same time.  Without guard pages their stacks are
 * adjacent, and the kernel makes one mapping of them.  Every third thread goes
 * on, with the address of a block on its stack; one that has ended is not
 * joined, and its result is the address of a block.  Prints as planted.c does.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NTHREADS 12
#define RESULT   4 /* the thread that is not joined */

static pthread_barrier_t all;

/* Words like the address and the bytes of a stack, of fewer pages than any. */
static __thread volatile uintptr_t pages[2];

static int
goes_on(uintptr_t i)
{
	return i % 3 == 0;
}

static void *
plant(const char *what, uintptr_t i)
{
	void *p = malloc(3000 + i);

	memset(p, 0x5a, 3000);
	printf("%s %lx\n", what, (long)p);
	return p;
}

/* Leaves an address far below where the stack will end. */
__attribute__((noinline)) static void
leave(uintptr_t i)
{
	void *volatile deep[2048];

	deep[10] = plant("leak", i);
	(void)deep;
}

/* Overwrites addresses that calls have left below the frame. */
__attribute__((noinline)) static void
sweep(void)
{
	volatile char below[4096];

	for (int i = 0; i < 4096; i++)
		below[i] = 0;
}

static void *
run(void *arg)
{
	uintptr_t i = (uintptr_t)arg;
	void *volatile here = NULL;

	pages[0] = (uintptr_t)pages & -(uintptr_t)4096;
	pages[1] = 2 * 4096;
	leave(i);
	if (goes_on(i))
		here = plant("kept", i);
	pthread_barrier_wait(&all);
	sweep();
	while (goes_on(i))
		pause();
	return i == RESULT ? plant("kept", i) : here;
}

int
main(int argc, char **argv)
{
	pthread_t thread[NTHREADS];
	pthread_attr_t attr;
	char c;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	if (argc > 1 && strcmp(argv[1], "none") == 0)
		pthread_attr_setguardsize(&attr, 0);
	pthread_barrier_init(&all, NULL, NTHREADS + 1);
	for (uintptr_t i = 0; i < NTHREADS; i++)
		pthread_create(&thread[i], &attr, run, (void *)i);
	pthread_barrier_wait(&all);
	for (uintptr_t i = 0; i < NTHREADS; i++)
		if (!goes_on(i) && i != RESULT)
			pthread_join(thread[i], NULL);
	usleep(100000);
	puts("ready");
	fflush(stdout);
	sweep();
	while (read(0, &c, 1) == 1)
		;
	exit(0);
}
