/*
 * Two threads on two CPUs free neighbouring small blocks of a third thread.
 * The blocks that they get next do not lie in one cache line.  A double free
 * in this way is reported as usual.
 *
 * Each size has a child of its own, so that its frees are the first calls of a
 * thread on the second CPU.  If the kernel preempts one of the two threads, it
 * may give both the same CPU index in turn.  So the test passes if one of the
 * sizes is right; each size has one try.
 *
 * test modes: default
 */
#include <sched.h>
#include <sys/wait.h>

#include "tests/programs/check.h"

#define LINE 64

static const size_t sizes[] = {8, 16, 32, 48};
static unsigned narrived;

struct turn {
	unsigned cpu;
	size_t size;
	void *given;
	uintptr_t had[4];
	bool twice;
};

static bool
stay_on(unsigned cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	return sched_setaffinity(0, sizeof(one), &one) == 0;
}

/* Both have come here for the nth time; neither sleeps meanwhile. */
static void
meet(unsigned n)
{
	__atomic_add_fetch(&narrived, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&narrived, __ATOMIC_SEQ_CST) < 2 * n)
		;
}

static void *
run(void *arg)
{
	struct turn *turn = arg;

	check(stay_on(turn->cpu));
	meet(1);
	free(turn->given);
	if (turn->twice)
		free(turn->given);
	meet(2);
	for (int i = 0; i < 4; i++)
		turn->had[i] = (uintptr_t)malloc(turn->size);
	meet(3);
	return NULL;
}

/* The first two CPUs that this process may use; false: it has one. */
static bool
two_cpus(unsigned *cpu)
{
	cpu_set_t all;
	unsigned n = 0;

	check(sched_getaffinity(0, sizeof(all), &all) == 0);
	for (unsigned i = 0; i < CPU_SETSIZE && n < 2; i++)
		if (CPU_ISSET(i, &all))
			cpu[n++] = i;
	return n == 2;
}

static bool
same_line(struct turn *a, struct turn *b)
{
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < 4; j++)
			if (a->had[i] / LINE == b->had[j] / LINE)
				return true;
	return false;
}

static void
both(struct turn *turn)
{
	pthread_t thread[2];

	narrived = 0;
	for (int i = 0; i < 2; i++)
		thread[i] = thread_start(run, &turn[i]);
	for (int i = 0; i < 2; i++)
		thread_end(thread[i]);
}

static void
twice(struct turn *turn)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		turn[1].twice = true;
		both(turn);
		_exit(0);
	}
	check(waitpid(pid, &status, 0) == pid);
	check(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static bool
is_right(size_t size, const unsigned *cpu)
{
	struct turn turn[2] = {0};
	int status;
	pid_t pid;

	for (int i = 0; i < 2; i++) {
		turn[i].cpu = cpu[i];
		turn[i].size = size;
		turn[i].given = malloc(size);
	}
	twice(turn);
	pid = fork();
	if (pid == 0) {
		both(turn);
		_exit(same_line(&turn[0], &turn[1]));
	}
	check(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status) == 0;
}

int
main(void)
{
	unsigned cpu[2], nright = 0;

	if (!two_cpus(cpu))
		skip("one CPU");
	check(stay_on(cpu[0]));
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		nright += is_right(sizes[i], cpu);
	check(nright > 0);
	return 0;
}
