/*
 * A tracer steps through deferred frees an instruction at a time.  Each step
 * inside a restartable section aborts it; yet each object is freed once.
 *
 *	rcu_step NFREES
 *
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 * test args: 20
 * test env: RCU_ONLY=memb umem
 */
#include <signal.h>
#include <sys/ptrace.h>

#include "tests/programs/rcu/rcu.h"

enum {
	NBATCH = 10
};

static umem_cache_t *cache;

/* Stepped: from one SIGSTOP to the next. */
static void
work(unsigned nfrees)
{
	void *object[NBATCH], *block[NBATCH];

	for (unsigned n = 0; n < nfrees; n += NBATCH) {
		for (int i = 0; i < NBATCH; i++) {
			object[i] = counted_alloc(cache);
			check((block[i] = umem_alloc(90, UMEM_DEFAULT)));
		}
		raise(SIGSTOP);
		for (int i = 0; i < NBATCH; i++) {
			if (umem_cache_free_rcu_flavor(cache, object[i], rcu))
				_exit(1);
			if (umem_free_rcu_flavor(block[i], 90, rcu) != 0)
				_exit(1);
		}
		raise(SIGSTOP);
	}
}

static void
child(unsigned nfrees)
{
	/* The first free makes the magazines, and is not stepped. */
	object_free(cache, counted_alloc(cache));
	sized_free(umem_alloc(90, UMEM_DEFAULT), 90);
	check(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
	work(nfrees);
	barrier();
	umem_cache_destroy(cache);
	check(load(&ncounted_made) == load(&ncounted_gone));
	_exit(0);
}

static void
run(void)
{
	unsigned nfrees = (unsigned)atoi(rcu_args[0]);
	unsigned long nsteps = 0;
	bool stepping = false;
	pid_t pid;
	int status;

	cache = counted_cache(100);
	pid = rcu_fork();
	if (pid == 0)
		child(nfrees);
	for (;;) {
		check(waitpid(pid, &status, 0) == pid);
		if (!WIFSTOPPED(status))
			break;
		if (WSTOPSIG(status) == SIGSTOP)
			stepping = !stepping;
		else
			check(WSTOPSIG(status) == SIGTRAP);
		nsteps += stepping;
		/* A livelock has no end. */
		check(nsteps < 2000000 + nfrees * 10000ul);
		if (ptrace(stepping ? PTRACE_SINGLESTEP : PTRACE_CONT, pid, 0,
			0) != 0)
			skip("no PTRACE_SINGLESTEP here");
	}
	check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	check(nsteps > nfrees * 20);
}
