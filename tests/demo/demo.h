/* demo.h - functions that the programs of make demo share */
#ifndef TESTS_DEMO_DEMO_H
#define TESTS_DEMO_DEMO_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A number of the xorshift series; *state is not 0. */
static inline uint64_t
next_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*state = x;
	return x;
}

static inline void *
need(void *p)
{
	if (p == NULL) {
		fputs("no memory\n", stderr);
		exit(1);
	}
	return p;
}

static inline pthread_t
start(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, arg) != 0) {
		fputs("no thread\n", stderr);
		exit(1);
	}
	return thread;
}

#endif
