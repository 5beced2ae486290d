/*
 * If glibc does not register rseq, the library does, and prints so.
 *
 * test modes: default
 * test env: GLIBC_TUNABLES=glibc.pthread.rseq=0
 */
#include <sys/syscall.h>

#include "tests/programs/check.h"

static void *
load(void *arg)
{
	churn((uintptr_t)arg, 20000, 20000);
	return NULL;
}

int
main(void)
{
	struct umem_mode mode;
	pthread_t thread[8];

	check(umem_mode != NULL && umem_mode(&mode, sizeof(mode)) == 0);
	if (mode.mode == UMEM_MODE_LOCKED)
		skip(mode.reason);
	check(mode.mode == UMEM_MODE_RSEQ_OWN);
	check(mode.reason[0] != '\0');
	for (uintptr_t i = 0; i < 8; i++)
		thread[i] = thread_start(load, (void *)(i + 1));
	for (int i = 0; i < 8; i++)
		thread_end(thread[i]);
	return 0;
}
