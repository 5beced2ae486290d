/*
 * A tracer steps through allocations an instruction at a time: each step
 * aborts the section it is in, and yet there is progress.
 *
 *	single_step NPAIRS
 *
 * test modes: rseq own locked
 * test timeout: 120
 * test no stderr: .
 */
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "tests/programs/check.h"

static void
work(unsigned long npairs)
{
	static char *p[4];

	for (size_t i = 0; i < npairs; i++) {
		free(p[i % 4]);
		p[i % 4] = malloc(i % 5 * 60);
		if (p[i % 4] == NULL)
			_exit(1);
	}
}

int
main(int argc, char **argv)
{
	unsigned long npairs = strtoul(argc > 1 ? argv[1] : "50", NULL, 10);
	unsigned long nsteps = 0;
	pid_t pid;
	int status;

	free(malloc(100));
	pid = fork();
	if (pid == 0) {
		/* The child makes its own first calls before it is traced. */
		churn(1, 1000, 1000);
		check(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
		raise(SIGSTOP);
		work(npairs);
		syscall(SYS_exit_group, 0);
	}
	check(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	for (;;) {
		if (ptrace(PTRACE_SINGLESTEP, pid, 0, 0) != 0)
			skip("no PTRACE_SINGLESTEP here");
		check(waitpid(pid, &status, 0) == pid);
		if (!WIFSTOPPED(status))
			break;
		check(WSTOPSIG(status) == SIGTRAP);
		/*
		 * A tenth of it would do, with some upkeep, which is due by
		 * the clock; and a livelock has no end.
		 */
		check(++nsteps < 2000000 + npairs * 10000);
	}
	check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	check(nsteps > npairs * 20);
	return 0;
}
