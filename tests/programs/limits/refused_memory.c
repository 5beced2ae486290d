/*
 * Memory system calls fail from some moment on, one kind at a time and all of
 * them.  malloc() returns NULL with ENOMEM sooner or later, free() never fails
 * nor changes errno, nothing aborts, and the blocks in use keep their content.
 *
 * test account: no
 * test no stderr: .
 * test not with: qemu has no seccomp filters
 */
#include <malloc.h>
#include <sys/mman.h>

#include "tests/programs/seccomp.h"

enum {
	NBLOCKS = 1000,
	NTHREADS = 4
};
static const int calls[] = {SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise,
    SYS_mremap, SYS_brk, SYS_prctl};

struct block {
	char *p;
	size_t n;
	uint64_t mark;
};
static struct block block[NBLOCKS];

static size_t
random_size(uint64_t *r)
{
	return next_random(r) % (2 * MIB) >> next_random(r) % 21;
}

static void
fill(uint64_t seed)
{
	for (int i = 0; i < NBLOCKS; i++) {
		block[i].n = random_size(&seed);
		block[i].mark = seed;
		check((block[i].p = malloc(block[i].n)) != NULL);
		stamp(block[i].p, block[i].n, seed);
	}
}

static void
drop(struct block *b)
{
	check(b->p == NULL || is_stamped(b->p, b->n, b->mark));
	errno = 4321;
	free(b->p);
	check(errno == 4321);
	b->p = NULL;
}

static void
replace(struct block *b, uint64_t *r)
{
	size_t n = random_size(r);
	char *p;

	errno = 0;
	if (b->p != NULL && next_random(r) % 2 == 0) {
		p = realloc(b->p, n + 1);
		if (p == NULL) {
			check(errno == ENOMEM);
			check(is_stamped(b->p, b->n, b->mark));
			return;
		}
		check(is_stamped(p, b->n < n ? b->n : n, b->mark));
		n++;
	} else {
		drop(b);
		errno = 0;
		p = next_random(r) % 2 == 0 ? malloc(n) : calloc(1, n);
		if (p == NULL) {
			check(errno == ENOMEM);
			return;
		}
	}
	b->p = p;
	b->n = n;
	b->mark = *r;
	stamp(p, n, b->mark);
}

static void *
small(void *arg)
{
	uint64_t r = (uintptr_t)arg;

	for (int i = 0; i < 5000; i++) {
		size_t n = next_random(&r) % 500;
		char *p = malloc(n);

		check(p != NULL || errno == ENOMEM);
		if (p != NULL)
			stamp(p, n, r);
		errno = 99;
		free(p);
		check(errno == 99);
	}
	return NULL;
}

static void
child(unsigned first, unsigned n)
{
	pthread_t thread[NTHREADS];
	uint64_t r = 88;

	fill(first + 1);
	for (int i = 0; i < NBLOCKS; i += 3)
		drop(&block[i]);
	refuse(calls + first, n, ENOMEM);
	for (int i = 0; i < 3 * NBLOCKS; i++) {
		replace(&block[next_random(&r) % NBLOCKS], &r);
		if (i % 1000 == 0) {
			errno = 55;
			malloc_trim(0);
			check(errno == 55);
		}
	}
	/* Threads, where they can be made at all. */
	for (uintptr_t i = 0; i < NTHREADS; i++)
		if (pthread_create(&thread[i], NULL, small, (void *)(i + 1)))
			thread[i] = 0;
	for (int i = 0; i < NTHREADS; i++)
		if (thread[i] != 0)
			thread_end(thread[i]);
	for (int i = 0; i < NBLOCKS; i++)
		drop(&block[i]);
	malloc_trim(0);
	for (int i = 0; i < NBLOCKS; i++)
		replace(&block[i], &r);
	if (first == 0) {
		errno = 0;
		check(malloc((size_t)1 << 40) == NULL && errno == ENOMEM);
	}
}

static void
child_of(unsigned first, unsigned n)
{
	pid_t pid = fork();

	if (pid == 0) {
		child(first, n);
		_exit(0);
	}
	child_end(pid);
}

int
main(void)
{
	enum {
		NCALLS = sizeof(calls) / sizeof(calls[0])
	};

	for (unsigned i = 0; i < NCALLS; i++)
		child_of(i, 1);
	child_of(0, NCALLS);
	return 0;
}
