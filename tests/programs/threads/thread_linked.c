/*
 * thread_linked.c - thread=yes with libumem.so.1: memory that is free goes back
 * without a call of the program's
 *
 * test link: umem
 * test env: UMEM_OPTIONS=thread=yes
 * test timeout: 30
 * test no stderr: .
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "umem/umem.h"

#define NBLOCKS 1000
#define BYTES   100000

static long
resident_mib(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long all, resident;

	if (file == NULL || fscanf(file, "%ld %ld", &all, &resident) != 2)
		return -1;
	fclose(file);
	return resident * sysconf(_SC_PAGESIZE) >> 20;
}

int
main(void)
{
	static void *block[NBLOCKS];
	long full, left = 0;

	for (int i = 0; i < NBLOCKS; i++) {
		block[i] = umem_alloc(BYTES, UMEM_NOFAIL);
		memset(block[i], 1, BYTES);
	}
	full = resident_mib();
	for (int i = 0; i < NBLOCKS; i++)
		umem_free(block[i], BYTES);
	for (int i = 0; i < 100; i++) {
		usleep(100000);
		left = resident_mib();
		if (full > 90 && left < 30)
			return 0;
	}
	fprintf(
	    stderr, "%ld MiB with all blocks, %ld after 10 s\n", full, left);
	return 1;
}
