/*
 * nofail_fork.c - a UMEM_NOFAIL request fails in a child, after another one
 * failed in its parent, which is in exit()
 *
 * test link: umem
 * test timeout: 30
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/time_limit.h"
#include "umem/umem.h"

#define TOO_MUCH ((size_t)1 << 50)

static int in_exit, ended; /* [atomic] */
static int status = -1;

static int
give_up(void)
{
	return UMEM_CALLBACK_EXIT(7);
}

static void
stay_in_exit(void)
{
	__atomic_store_n(&in_exit, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE))
		usleep(1000);
	_exit(WIFEXITED(status) && WEXITSTATUS(status) == 7 ? 0 : 1);
}

static void *
fork_meanwhile(void *arg)
{
	pid_t child;

	while (!__atomic_load_n(&in_exit, __ATOMIC_ACQUIRE))
		usleep(1000);
	child = fork();
	if (child == 0) {
		limit_time();
		umem_alloc(TOO_MUCH, UMEM_NOFAIL);
		_exit(9);
	}
	waitpid(child, &status, 0);
	__atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
	return arg;
}

int
main(void)
{
	pthread_t thread;

	umem_nofail_callback(give_up);
	atexit(stay_in_exit);
	if (pthread_create(&thread, NULL, fork_meanwhile, NULL) != 0)
		return 2;
	umem_alloc(TOO_MUCH, UMEM_NOFAIL);
	return 3;
}
