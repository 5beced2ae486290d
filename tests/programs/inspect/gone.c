/* gone.c - a leak in a program whose first thread has ended; see planted.c */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *volatile kept;

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

	pthread_create(&thread, NULL, planter, NULL);
	pthread_join(thread, NULL);
	kept = malloc(100);
	usleep(50000);
	puts("ready");
	fflush(stdout);
	while (read(0, &c, 1) == 1)
		;
	exit(0);
	return arg;
}

int
main(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, run, NULL);
	pthread_exit(NULL);
}
