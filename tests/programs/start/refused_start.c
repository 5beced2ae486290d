/*
 * The kernel refuses rseq, membarrier or both from the start.  The library runs
 * in locked mode, its message names the reason, and everything works.
 *
 * test account: no
 * test modes: rseq own locked
 * test no stderr: .
 * test not with: qemu has no seccomp filters
 */
#include <malloc.h>

#include "tests/programs/seccomp.h"

static void *
load(void *arg)
{
	churn((uintptr_t)arg, 5000, 20000);
	return NULL;
}

static void
use(void)
{
	pthread_t thread[8];
	pid_t pid;

	for (uintptr_t i = 0; i < 8; i++)
		thread[i] = thread_start(load, (void *)(i + 1));
	malloc_trim(0);
	pid = fork();
	if (pid == 0) {
		churn(77, 10000, 20000);
		_exit(0);
	}
	child_end(pid);
	for (int i = 0; i < 8; i++)
		thread_end(thread[i]);
	malloc_trim(0);
}

static void
refused(const char *what)
{
	struct umem_mode mode;

	check(umem_mode != NULL && umem_mode(&mode, sizeof(mode)) == 0);
	check(mode.mode == UMEM_MODE_LOCKED);
	if (*what == 'm' && strstr(mode.reason, "membarrier") == NULL &&
	    strstr(mode.reason, "mode=locked") == NULL)
		check(strstr(mode.reason, "refuses rseq") != NULL &&
		      syscall(SYS_rseq, 0, 0, 0, 0) != 0 && errno == ENOSYS);
	if (*what == 'r')
		check(strstr(mode.reason, "refuses rseq") != NULL ||
		      strstr(mode.reason, "mode=locked") != NULL);
	use();
}

int
main(int argc, char **argv)
{
	static const int both[] = {SYS_rseq, SYS_membarrier};
	static const char *const word[] = {"rseq", "membarrier", "rb"};
	static const int errors[] = {ENOSYS, EPERM, EINVAL};

	if (argc > 1) {
		refused(argv[1]);
		return 0;
	}
	for (int i = 0; i < 3; i++) {
		for (int e = 0; e < 3; e++) {
			pid_t pid = fork();

			if (pid == 0) {
				refuse(i == 1 ? both + 1 : both, i == 2 ? 2 : 1,
				    errors[e]);
				start_again(argv, word[i]);
			}
			child_end(pid);
		}
	}
	return 0;
}
