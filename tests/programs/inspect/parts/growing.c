/*
 * growing.c - a program whose memory changes while it is watched
 *
 * A thread allocates and frees blocks of 100 bytes.  Each line of input adds 4
 * MB in blocks of 200 bytes, by keep_more(); a line with a path runs that
 * program instead.  The program ends at the end of input.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	BATCH = 20000,
	BLOCKS = 12000
};

static volatile int stop;
static void **kept;

static __attribute__((noinline)) void
keep_more(void)
{
	for (int i = 0; i < BATCH; i++) {
		void **p = malloc(200);

		memset(p, 1, 200);
		*p = kept;
		kept = p;
	}
}

/* Takes more blocks at once than magazines hold, and frees them. */
static void *
work(void *arg)
{
	static __thread void *block[BLOCKS];

	while (!stop) {
		for (int i = 0; i < BLOCKS; i++)
			block[i] = malloc(100);
		for (int i = 0; i < BLOCKS; i++)
			free(block[i]);
		usleep(1000);
	}
	return arg;
}

int
main(void)
{
	char line[4096];
	pthread_t thread;

	keep_more();
	pthread_create(&thread, NULL, work, NULL);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (*line != '\0')
			execl(line, line, "1000", (char *)NULL);
		keep_more();
		puts("more");
		fflush(stdout);
	}
	stop = 1;
	pthread_join(thread, NULL);
	return 0;
}
