/*
 * malloc works before main, in exit handlers, and in the last destructors.
 * Each stage frees the blocks that the stage before allocated.
 *
 * test not with: musl has no on_exit()
 * test stderr: ^stage 3$
 * test stderr: ^stage 6$
 * test stderr: ^stage 8$
 * test stderr: ^stage 9$
 */
#include "tests/programs/check.h"

enum {
	N = 20
};
static char *block[N];
static int nblocks;

/* Frees the blocks of the stage before, and allocates new ones. */
static void
stage(int number)
{
	for (int i = 0; i < nblocks; i++) {
		check(is_stamped(block[i], (size_t)1 << i, (uint64_t)i));
		free(block[i]);
	}
	for (int i = 0; i < N; i++) {
		check((block[i] = malloc((size_t)1 << i)) != NULL);
		stamp(block[i], (size_t)1 << i, (uint64_t)i);
	}
	nblocks = N;
	churn((uint64_t)number, 2000, 100000);
	dprintf(2, "stage %d\n", number);
}

static __attribute__((constructor(101))) void
first(void)
{
	stage(1);
}

static __attribute__((constructor)) void
second(void)
{
	stage(2);
}

static __attribute__((destructor(101))) void
last(void)
{
	stage(8);
}

static __attribute__((destructor)) void
before_last(void)
{
	stage(7);
}

/* After the destructors of the program and its libraries. */
static void
very_last(void)
{
	stage(9);
}

__attribute__((section(".fini_array.00000"), used)) static void (*entry)(
    void) = very_last;

static void
at_exit(void)
{
	stage(6);
}

static void
on_exit_handler(int status, void *arg)
{
	check(status == 0 && arg == block);
	stage(5);
}

static void
thread_local_gone(void *value)
{
	free(value);
	stage(4);
}

int
main(void)
{
	pthread_key_t key;

	check(atexit(at_exit) == 0);
	check(on_exit(on_exit_handler, block) == 0);
	check(pthread_key_create(&key, thread_local_gone) == 0);
	check(pthread_setspecific(key, malloc(10)) == 0);
	stage(3);
	return 0;
}
