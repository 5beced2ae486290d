/*
 * vfork and exec, posix_spawn and system, while threads allocate.  The child
 * of a vfork runs on the parent's memory until it execs.
 */
#include <spawn.h>

#include "tests/programs/check.h"

extern char **environ;
static volatile bool stop;

static void *
load(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	while (!stop)
		churn(++seed, 500, 5000);
	return NULL;
}

int
main(int argc, char **argv)
{
	pthread_t thread[3];
	char *args[] = {argv[0], (char *)"inner", NULL};

	if (argc > 1) {
		churn(1, 500, 5000);
		return 0;
	}
	for (uintptr_t i = 0; i < 3; i++)
		thread[i] = thread_start(load, (void *)(i * 1000));
	for (int i = 0; i < 100; i++) {
		char *p = malloc(1000);
		pid_t pid;

		check(p != NULL);
		stamp(p, 1000, 1);
		if (i % 2) {
			check(posix_spawn(&pid, argv[0], NULL, NULL, args,
				  environ) == 0);
		} else if ((pid = vfork()) == 0) {
			execv(argv[0], args);
			_exit(3);
		}
		child_end(pid);
		check(is_stamped(p, 1000, 1));
		free(p);
	}
	check(system("exit 3") == 3 << 8);
	stop = true;
	for (int i = 0; i < 3; i++)
		thread_end(thread[i]);
	return 0;
}
