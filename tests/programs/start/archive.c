/*
 * A static program with libumem_malloc.a: its malloc() is umem's, and its
 * threads, children of vfork() and clone(), and fork() are those that the
 * library knows.
 *
 * test link: archive
 * test cflags: -static
 * test modes: rseq own locked
 * test not with: address has a malloc of its own
 * test not with: qemu makes threads and copies by clone(), nothing else
 * test not with: thread has a malloc of its own
 */
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/check.h"
#include "umem/umem.h"

extern char **environ;

static void *
work(void *arg)
{
	churn((uintptr_t)arg, 20000, 5000);
	return NULL;
}

static int
allocate_and_exit(void *arg)
{
	free(malloc(100));
	_exit(*(int *)arg);
}

static int
ended(pid_t pid)
{
	int status;

	check(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

int
main(int argc, char **argv)
{
	static char stack[64 << 10] __attribute__((aligned(16)));
	char *words[] = {argv[0], "exit", NULL};
	struct umem_stats before, after;
	pthread_t thread[4];
	void *block;
	int code = 7;
	pid_t pid;

	if (argc == 2)
		return 0;
	check(umem_stats(&before, sizeof(before)) == 0);
	block = malloc(1 << 20);
	check(block != NULL && umem_stats(&after, sizeof(after)) == 0);
	check(after.live_bytes >= before.live_bytes + (1 << 20));
	free(block);

	for (uintptr_t i = 0; i < 4; i++)
		thread[i] = thread_start(work, (void *)i);
	for (int i = 0; i < 4; i++)
		thread_end(thread[i]);

	if ((pid = vfork()) == 0) {
		free(malloc(77));
		_exit(3);
	}
	check(ended(pid) == 3);
	pid = clone(allocate_and_exit, stack + sizeof(stack),
	    CLONE_VM | CLONE_VFORK | SIGCHLD, &code);
	check(ended(pid) == 7);
	if ((pid = fork()) == 0) {
		thread_end(thread_start(work, NULL));
		_exit(5);
	}
	check(ended(pid) == 5);
	check(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, words, environ) ==
	      0);
	check(ended(pid) == 0);
	work(NULL);
	return 0;
}
