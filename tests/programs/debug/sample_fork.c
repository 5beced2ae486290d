/*
 * fork() while every block is a sample and threads are in malloc: the child
 * frees the inherited blocks, takes samples of its own, and forks again.
 *
 * test env: UMEM_OPTIONS=sample=1
 * test no stderr: .
 */
#include "tests/programs/check.h"

enum {
	NTHREADS = 4,
	NFORKS = 60,
	NBLOCKS = 200
};

static volatile bool stop;

static void *
load(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	for (; !stop; seed++)
		churn(seed, 200, 5000);
	return NULL;
}

static void
child(char **block)
{
	for (int i = 0; i < NBLOCKS; i++) {
		for (int j = 0; j < 100; j++)
			check(block[i][j] == (char)i);
		free(block[i]);
	}
	churn(7, 500, 100000);
	if (fork() == 0) {
		churn(8, 200, 100000);
		_exit(0);
	}
	int status;
	check(wait(&status) > 0 && status == 0);
	_exit(0);
}

int
main(void)
{
	pthread_t thread[NTHREADS];
	char *block[NBLOCKS];

	for (int i = 0; i < NBLOCKS; i++) {
		block[i] = malloc(100);
		memset(block[i], i, 100);
	}
	for (uintptr_t i = 0; i < NTHREADS; i++)
		pthread_create(&thread[i], NULL, load, (void *)i);
	for (int i = 0; i < NFORKS; i++) {
		int status;
		pid_t pid = fork();

		check(pid >= 0);
		if (pid == 0)
			child(block);
		check(waitpid(pid, &status, 0) == pid && status == 0);
	}
	stop = true;
	for (int i = 0; i < NTHREADS; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
