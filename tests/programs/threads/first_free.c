/*
 * Two threads on two CPUs free neighbouring small blocks of a third thread.
 * The blocks that they get next do not lie in one cache line.  A double free
 * in this way is reported as usual.
 *
 * Each try has a child of its own, so that its frees are the first calls of a
 * thread on the second CPU.  If the kernel preempts one of the two threads, it
 * may give both the same CPU index in turn.  Such a try does not count: each
 * size has others, until both threads have run without a break and one of them,
 * whose CPU index was that of the third thread, gets its block back.
 *
 * test modes: default own
 */
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/programs/check.h"

#define LINE 64

enum {
	NTRIES = 200
};

/* The result of a try, as the status of its child. */
enum result {
	RIGHT,
	WRONG,
	DISTURBED,
};

static const size_t sizes[] = {8, 16, 32, 48};
static unsigned narrived;

struct turn {
	unsigned cpu;
	size_t size;
	void *given;
	uintptr_t had[4];
	bool twice, disturbed;
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

/* How often has another thread had the CPU instead of the caller? */
static long
nbreaks(void)
{
	struct rusage usage;

	check(getrusage(RUSAGE_THREAD, &usage) == 0);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

static void *
run(void *arg)
{
	struct turn *turn = arg;
	long before;

	check(stay_on(turn->cpu));
	meet(1);
	before = nbreaks();
	free(turn->given);
	if (turn->twice)
		free(turn->given);
	meet(2);
	for (int i = 0; i < 4; i++)
		turn->had[i] = (uintptr_t)malloc(turn->size);
	meet(3);
	turn->disturbed = nbreaks() != before;
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
gets_back(struct turn *turn)
{
	return turn->had[0] == (uintptr_t)turn->given;
}

static enum result
result_of(struct turn *turn)
{
	both(turn);
	if (turn[0].disturbed || turn[1].disturbed ||
	    (!gets_back(&turn[0]) && !gets_back(&turn[1])))
		return DISTURBED;
	return same_line(&turn[0], &turn[1]) ? WRONG : RIGHT;
}

/*
 * The nth try with blocks of this size.  All have the same two blocks: beside
 * the last blocks of a magazine lie those of the next one, which another CPU
 * may have.
 */
static enum result
try(int n, size_t size, const unsigned *cpu)
{
	struct turn turn[2] = {0};
	int status;
	pid_t pid;

	for (int i = 0; i < 2; i++) {
		turn[i].cpu = cpu[i];
		turn[i].size = size;
		turn[i].given = malloc(size);
	}
	if (n == 0)
		twice(turn);
	pid = fork();
	if (pid == 0)
		_exit(result_of(turn));
	check(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	for (int i = 2; i-- > 0;)
		free(turn[i].given);
	return WEXITSTATUS(status);
}

int
main(void)
{
	unsigned cpu[2], nright = 0;

	if (!two_cpus(cpu))
		skip("one CPU");
	check(stay_on(cpu[0]));
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		enum result result = DISTURBED;

		for (int n = 0; n < NTRIES && result == DISTURBED; n++)
			result = try(n, sizes[i], cpu);
		check(result != WRONG);
		nright += result == RIGHT;
	}
	if (nright == 0)
		skip("no two threads had CPUs of their own for long enough");
	return 0;
}
