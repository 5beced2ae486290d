/*
 * peak.c - memory of a server after its busiest minute
 *
 * Four threads hold 64 MiB each in blocks of 16 to 1039 bytes, free all but one
 * in a thousand of them in random order, as sessions end, and then wait for
 * work.  Three seconds later the program prints its resident memory at the peak
 * and now, in KiB.
 */
#include "tests/demo/demo.h"

enum {
	NTHREADS = 4,
	MOST = 64 << 20,
	NBLOCKS = MOST / 528
};

static pthread_barrier_t freed, ends;

static void *
fill_and_free(void *arg)
{
	uint64_t state = 1 + (uintptr_t)arg;
	char **block = need(malloc(NBLOCKS * sizeof(*block)));

	for (int i = 0; i < NBLOCKS; i++) {
		size_t bytes = 16 + next_random(&state) % 1024;

		block[i] = need(malloc(bytes));
		memset(block[i], 1, bytes);
	}
	for (int i = NBLOCKS - 1; i > 0; i--) {
		int other = (int)(next_random(&state) % (unsigned)(i + 1));
		char *p = block[i];

		block[i] = block[other];
		block[other] = p;
	}
	for (int i = 0; i < NBLOCKS; i++)
		if (i % 1000 != 0)
			free(block[i]);
	pthread_barrier_wait(&freed);
	pthread_barrier_wait(&ends);
	for (int i = 0; i < NBLOCKS; i += 1000)
		free(block[i]);
	free(block);
	return NULL;
}

static long
status_kib(const char *name)
{
	FILE *file = need(fopen("/proc/self/status", "r"));
	char line[256];
	long kib = -1;

	while (fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, name, strlen(name)) == 0)
			kib = atol(line + strlen(name));
	fclose(file);
	return kib;
}

int
main(void)
{
	pthread_t thread[NTHREADS];

	pthread_barrier_init(&freed, NULL, NTHREADS + 1);
	pthread_barrier_init(&ends, NULL, NTHREADS + 1);
	for (uintptr_t i = 0; i < NTHREADS; i++)
		thread[i] = start(fill_and_free, (void *)i);
	pthread_barrier_wait(&freed);
	sleep(3);
	printf("%ld %ld\n", status_kib("VmHWM:"), status_kib("VmRSS:"));
	pthread_barrier_wait(&ends);
	for (int i = 0; i < NTHREADS; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
