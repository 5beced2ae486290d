/*
 * gone.c - a leak in a program whose first thread has ended; see planted.c
 *
 * The block is allocated after the first thread has ended.  That thread
 * allocates memory in pthread_exit(), and frames of the library on its stack
 * may have the address of the memory from which the block is taken.  A pointer
 * in argv, above the frames of that stack, keeps another block.  There are as
 * many threads as the first array of the command has room for.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NTHREADS 16

void *volatile kept;
static pthread_t first;

static void *
wait_for_end(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void *
planter(void *arg)
{
	void *p = malloc(5000);

	memset(p, 0x5a, 5000);
	printf("leak %lx\n", (long)p);
	return arg;
}

static void *
run(void *arg)
{
	pthread_t thread;
	char c;

	pthread_join(first, NULL);
	pthread_create(&thread, NULL, planter, NULL);
	pthread_join(thread, NULL);
	kept = malloc(100);
	for (int i = 1; i < NTHREADS; i++)
		pthread_create(&thread, NULL, wait_for_end, NULL);
	usleep(50000);
	puts("ready");
	fflush(stdout);
	while (read(0, &c, 1) == 1)
		;
	exit(0);
	return arg;
}

int
main(int argc, char **argv)
{
	pthread_t thread;

	(void)argc;
	argv[0] = malloc(200);
	first = pthread_self();
	pthread_create(&thread, NULL, run, NULL);
	pthread_exit(NULL);
}
