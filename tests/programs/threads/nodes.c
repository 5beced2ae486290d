/*
 * Machines with several memory nodes: threads free the blocks of other nodes,
 * and allocate again.  The new blocks are in memory of the thread's own node.
 * Skipped where the library does not tell nodes apart: umem_malloc(3).
 *
 * test modes: rseq
 */
#include <sched.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "tests/programs/check.h"

#define MPOL_F_MEMS_ALLOWED 4
#define MPOL_DEFAULT        0

enum {
	NTHREADS = 8,
	NNODES = 4, /* that the library tells apart */
	ROUNDS = 10
};

static struct {
	size_t bytes;
	int n;        /* blocks of a thread */
	double least; /* part that must be on the thread's own node */
} kind[] = {{64, 8000, 0.99}, {256, 4000, 0.99}, {1024, 2000, 0.99},
    {8192, 400, 0.99}, {100000, 40, 0.95}, {3000000, 5, 0.95}};

static pthread_barrier_t barrier;
static int cpu_of[NTHREADS], node_of[NTHREADS];
static void **blocks[NTHREADS];
static int nright[NTHREADS]; /* on the thread's own node */

static void
pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	check(sched_setaffinity(0, sizeof(set), &set) == 0);
}

static int
node_now(void)
{
	unsigned cpu, node;

	check(syscall(SYS_getcpu, &cpu, &node, NULL) == 0);
	return (int)node;
}

/* The node of the page at p, which has been touched. */
static int
node_at(void *p)
{
	int status = -1;

	check(syscall(SYS_move_pages, 0, 1, &p, NULL, &status, 0) == 0);
	return status;
}

static void *
worker(void *arg)
{
	int self = (int)(intptr_t)arg;

	pin(cpu_of[self]);
	for (size_t k = 0; k < sizeof(kind) / sizeof(*kind); k++) {
		int n = kind[k].n;

		for (int round = 0; round <= ROUNDS; round++) {
			/* The next thread is on another node. */
			void **other = blocks[(self + 1) % NTHREADS];

			pthread_barrier_wait(&barrier);
			for (int i = 0; round > 0 && i < n; i++)
				free(other[i]);
			pthread_barrier_wait(&barrier);
			for (int i = 0; i < n; i++) {
				blocks[self][i] = malloc(kind[k].bytes);
				check(blocks[self][i] != NULL);
				memset(blocks[self][i], 1, kind[k].bytes);
			}
		}
		nright[self] = 0;
		for (int i = 0; i < n; i++)
			nright[self] +=
			    node_at(blocks[self][i]) == node_of[self];
		pthread_barrier_wait(&barrier);
		for (int i = 0; i < n; i++)
			free(blocks[self][i]);
		if (self == 0) {
			int sum = 0;

			for (int t = 0; t < NTHREADS; t++)
				sum += nright[t];
			printf("%zu bytes: %.2f %%\n", kind[k].bytes,
			    100.0 * sum / (n * NTHREADS));
			check(sum >= kind[k].least * n * NTHREADS);
		}
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

/* One CPU after the other, of each node in turn. */
static bool
find_cpus(void)
{
	static int cpus[NNODES][CPU_SETSIZE], ncpus[NNODES];
	int nodes[NNODES], nnodes = 0;
	cpu_set_t all;

	check(sched_getaffinity(0, sizeof(all), &all) == 0);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all)) {
			int node;

			pin(i);
			node = node_now();
			if (node >= NNODES)
				continue;
			if (ncpus[node] == 0)
				nodes[nnodes++] = node;
			cpus[node][ncpus[node]++] = i;
		}
	for (int t = 0; t < NTHREADS && nnodes != 0; t++) {
		int node = nodes[t % nnodes];

		cpu_of[t] = cpus[node][t / nnodes % ncpus[node]];
		node_of[t] = node;
	}
	return nnodes > 1;
}

static void
check_kernel(void)
{
	unsigned long allowed[1024 / 64] = {0};
	unsigned major, minor;
	struct utsname name;
	int policy = -1, status;
	void *p = &policy;

	check(uname(&name) == 0);
	check(sscanf(name.release, "%u.%u", &major, &minor) == 2);
	if (major < 6 || (major == 6 && minor < 3))
		skip("the kernel does not tell the node");
	if (syscall(SYS_get_mempolicy, NULL, allowed, 1024, NULL,
		MPOL_F_MEMS_ALLOWED) != 0 ||
	    syscall(SYS_get_mempolicy, &policy, NULL, 0, NULL, 0) != 0 ||
	    syscall(SYS_move_pages, 0, 1, &p, NULL, &status, 0) != 0)
		skip("a filter refuses calls for nodes");
	if (policy != MPOL_DEFAULT || (allowed[0] & (allowed[0] - 1)) == 0)
		skip("memory is not that of each node");
}

int
main(void)
{
	pthread_t thread[NTHREADS];

	check_kernel();
	if (!find_cpus())
		skip("one memory node");
	for (int t = 0; t < NTHREADS; t++) {
		blocks[t] = malloc(sizeof(void *) * 8000);
		check(blocks[t] != NULL);
	}
	pthread_barrier_init(&barrier, NULL, NTHREADS);
	for (int t = 0; t < NTHREADS; t++)
		thread[t] = thread_start(worker, (void *)(intptr_t)t);
	for (int t = 0; t < NTHREADS; t++)
		pthread_join(thread[t], NULL);
	return 0;
}
