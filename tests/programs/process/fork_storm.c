/* Many forks at once from several threads, and generations of children. */
#include "tests/programs/check.h"

static void *
storm(void *arg)
{
	for (uint64_t i = 0; i < 100; i++) {
		uint64_t seed = (uintptr_t)arg * 1000 + i;
		char *p = malloc(100 + i);
		pid_t pid = fork();

		check(p != NULL);
		if (pid == 0) {
			limit_time();
			churn(seed, 300, 50000);
			free(p);
			_exit(0);
		}
		churn(seed, 300, 50000);
		free(p);
		child_end(pid);
	}
	return NULL;
}

/* A chain: each child is the parent of the next. */
static void
generation(int n)
{
	pid_t pid;

	churn((uint64_t)n, 500, 50000);
	if (n == 0)
		return;
	if ((pid = fork()) == 0) {
		limit_time();
		generation(n - 1);
		exit(0);
	}
	churn((uint64_t)n, 500, 50000);
	child_end(pid);
}

int
main(void)
{
	pthread_t thread[4];

	for (uintptr_t i = 0; i < 4; i++)
		thread[i] = thread_start(storm, (void *)i);
	generation(60);
	for (int i = 0; i < 4; i++)
		thread_end(thread[i]);
	return 0;
}
