/* Two threads free one block at the same time, again and again. */
#include "tests/misuse/misuse.h"

static char *shared[200];
static pthread_barrier_t start;

static void *
end_all(void *arg)
{
	for (int i = 0; i < 200; i++) {
		pthread_barrier_wait(&start);
		drop(shared[i]);
	}
	return arg;
}

static void *
end_elsewhere(void *arg)
{
	on_cpu(cpu_other());
	return end_all(arg);
}

int
main(void)
{
	pthread_t other;

	for (int i = 0; i < 200; i++)
		shared[i] = block(64);
	check(pthread_barrier_init(&start, NULL, 2) == 0);
	other = thread_start(end_elsewhere, NULL);
	end_all(NULL);
	thread_end(other);
	judge(NULL, 64);
}
