/*
 * Blocks that are samples.
 *
 * test run: fork
 * test args: fork
 * test env: UMEM_OPTIONS=sample=1
 * test no stderr: .
 * test run: debugged
 * test args: debugged
 * test modes: default
 * test env: UMEM_OPTIONS=sample
 * test env: UMEM_DEBUG=default
 * test stderr: ^umem: sample: off, since every block is checked$
 * test run: overrun
 * test args: overrun
 * test env: UMEM_OPTIONS=sample=1
 * test signal: 11
 * test stderr: ^inside is fine$
 * test run: after_free
 * test args: after_free
 * test env: UMEM_OPTIONS=sample=1
 * test signal: 11
 * test stderr: ^freed$
 * test run: free_twice
 * test args: free_twice
 * test not with: qemu runs architectures without stacks
 * test env: UMEM_OPTIONS=sample=1
 * test signal: 6
 * test stderr: ^umem: free\(0x[0-9a-f]+\): block freed twice$
 * test stderr: ^umem: allocated by thread [0-9]+, [0-9]+\.[0-9] s ago:$
 * test stderr: ^umem:     sample`guarded_block\+0x[0-9a-f]+$
 * test stderr: ^umem: freed by thread [0-9]+, [0-9]+\.[0-9] s ago:$
 * test stderr: ^umem:     sample`first_free\+0x[0-9a-f]+$
 */
#include "tests/programs/check.h"

#pragma weak umem_sample

enum {
	NTHREADS = 4,
	NFORKS = 60,
	NBLOCKS = 200
};

static volatile bool stop;

static void *
load(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	for (; !stop; seed++)
		churn(seed, 200, 5000);
	return NULL;
}

static void
use_inherited(char **block)
{
	for (int i = 0; i < NBLOCKS; i++) {
		for (int j = 0; j < 100; j++)
			check(block[i][j] == (char)i);
		free(block[i]);
	}
	churn(7, 500, 100000);
	if (fork() == 0) {
		churn(8, 200, 100000);
		_exit(0);
	}
	int status;
	check(wait(&status) > 0 && status == 0);
	_exit(0);
}

/*
 * fork() while every block is a sample and threads are in malloc: the child
 * frees the inherited blocks, takes samples of its own, and forks again.
 */
static void
fork_with_samples(void)
{
	pthread_t thread[NTHREADS];
	char *block[NBLOCKS];

	for (int i = 0; i < NBLOCKS; i++) {
		block[i] = malloc(100);
		memset(block[i], i, 100);
	}
	for (uintptr_t i = 0; i < NTHREADS; i++)
		pthread_create(&thread[i], NULL, load, (void *)i);
	for (int i = 0; i < NFORKS; i++) {
		int status;
		pid_t pid = fork();

		check(pid >= 0);
		if (pid == 0)
			use_inherited(block);
		check(waitpid(pid, &status, 0) == pid && status == 0);
	}
	stop = true;
	for (int i = 0; i < NTHREADS; i++)
		pthread_join(thread[i], NULL);
}

/* With UMEM_DEBUG there is no sampling, and a message says so. */
static void
debugged(void)
{
	free(malloc(100));
	errno = 0;
	check(umem_sample(1) == -1 && errno == ENOTSUP);
}

/*
 * A block that ends where pages end: the program cannot write behind its end or
 * read it after it was freed, and the report of a second free has both stacks.
 */

/* 96 bytes at the end of a unit of 64 KiB but one page of 4. */
__attribute__((noinline)) char *
guarded_block(void)
{
	for (int i = 0; i < 100000; i++) {
		char *p = malloc(96);

		if (((uintptr_t)p + 96) % (64 * KIB) == 60 * KIB)
			return p;
		free(p);
	}
	check(!"a guarded block in so many");
	return NULL;
}

static void
write_text(const char *text)
{
	check(write(2, text, strlen(text)) == (ssize_t)strlen(text));
}

static void
overrun(void)
{
	volatile char *p = guarded_block();

	p[95] = 1;
	write_text("inside is fine\n");
	p[96] = 1;
}

static void
read_after_free(void)
{
	volatile char *p = guarded_block();

	p[0] = 1;
	free((char *)p);
	write_text("freed\n");
	p[0];
}

__attribute__((noinline)) void
first_free(char *p)
{
	free(p);
	__asm__ volatile("");
}

static void
free_twice(void)
{
	char *p = guarded_block();

	first_free(p);
	free(p);
}

static const struct test_case cases[] = {{"fork", fork_with_samples},
    {"debugged", debugged}, {"overrun", overrun},
    {"after_free", read_after_free}, {"free_twice", free_twice}, {NULL, NULL}};

int
main(int argc, char **argv)
{
	return run_case(argc, argv, cases);
}
