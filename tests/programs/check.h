/*
 * check.h - common code of the test programs
 *
 * Only churn() calls malloc, so that a test can report a fault of malloc.  A
 * check that fails ends the process with status 1, in any thread.
 */
#ifndef TESTS_PROGRAMS_CHECK_H
#define TESTS_PROGRAMS_CHECK_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/time_limit.h"
#include "umem/umem.h"

#define check(x) ((x) ? (void)0 : check_failed(#x, __FILE__, __LINE__))
#define KIB      ((size_t)1 << 10)
#define MIB      ((size_t)1 << 20)

#ifdef __cplusplus
extern "C" {
#endif

/* The library's, where the program runs on it; else NULL. */
#pragma weak umem_mode

/* glibc has mallinfo2() from 2.33 on. */
#ifdef __GLIBC_PREREQ
#if !__GLIBC_PREREQ(2, 33)
struct mallinfo2 {
	size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks,
	    uordblks, fordblks, keepcost;
};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* of the structure's name */
struct mallinfo2 mallinfo2(void);
#pragma GCC diagnostic pop
#pragma weak mallinfo2
#endif
#endif

static inline void
check_failed(const char *what, const char *file, int line)
{
	char text[512];
	int n = snprintf(text, sizeof(text), "%s:%d: not true: %s (errno %d)\n",
	    file, line, what, errno);

	if (write(2, text, (size_t)n < sizeof(text) ? (size_t)n : 511) < 0)
		_exit(2);
	_exit(1);
}

/* Ends the test as skipped; why is one line without its end. */
static inline void
skip(const char *why)
{
	if (write(2, why, strlen(why)) < 0 || write(2, "\n", 1) < 0)
		_exit(2);
	_exit(77);
}

/* The compiler must believe that p is used, and that it may be anything. */
static inline void *
keep(void *p)
{
	__asm__ volatile("" : "+r"(p) : : "memory");
	return p;
}

/* A number of the xorshift series; *state is not 0. */
static inline uint64_t
next_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*state = x;
	return x;
}

static inline uint64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Resident memory of this process, in KiB. */
static inline long
rss_kib(void)
{
	char text[128];
	int fd = open("/proc/self/statm", O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	char *end;

	check(n > 0);
	close(fd);
	text[n] = 0;
	strtol(text, &end, 10);
	return strtol(end, NULL, 10) * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Writes a stamp over n bytes, and looks whether it is whole. */
static inline void
stamp(void *p, size_t n, uint64_t seed)
{
	memset(p, (int)(seed * 0x9e3779b97f4a7c15ull >> 56), n);
}

static inline bool
is_stamped(const void *p, size_t n, uint64_t seed)
{
	const unsigned char *at = (const unsigned char *)p;
	uint64_t byte = seed * 0x9e3779b97f4a7c15ull >> 56;
	uint64_t word = byte * 0x0101010101010101ull, found;

	/* Not by memcmp(), which compares bytes with musl. */
	for (; n >= sizeof(word); n -= sizeof(word), at += sizeof(word)) {
		__builtin_memcpy(&found, at, sizeof(found));
		if (found != word)
			return false;
	}
	while (n > 0)
		if (at[--n] != byte)
			return false;
	return true;
}

static inline bool
is_zero(const void *p, size_t n)
{
	const char *at = (const char *)p;

	return n == 0 || (at[0] == 0 && memcmp(at, at + 1, n - 1) == 0);
}

static inline bool
is_aligned(const void *p, size_t align)
{
	return ((uintptr_t)p & (align - 1)) == 0;
}

static inline pthread_t
thread_start(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	check(pthread_create(&thread, NULL, run, arg) == 0);
	return thread;
}

static inline void
thread_end(pthread_t thread)
{
	check(pthread_join(thread, NULL) == 0);
}

/* Waits for a child, which must end with status 0. */
static inline void
child_end(pid_t pid)
{
	int status = -1;

	check(pid > 0);
	while (waitpid(pid, &status, 0) < 0)
		check(errno == EINTR);
	check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/*
 * nops random calls of malloc, calloc, realloc, posix_memalign and free, on
 * blocks of up to max bytes (a fourth of that on average of the logarithm)
 * that only the caller knows; each is stamped when it is got, and the stamp
 * looked at before it goes.  All blocks are freed at the end.
 */
static inline void
churn(uint64_t seed, unsigned nops, size_t max)
{
	enum {
		NSLOTS = 32
	};
	struct {
		char *p;
		size_t n;
		uint64_t mark;
	} slot[NSLOTS];
	uint64_t r = seed * 2654435761u + 1;

	memset(slot, 0, sizeof(slot));
	for (unsigned i = 0; i < nops + NSLOTS; i++) {
		unsigned s = i < nops ? next_random(&r) % NSLOTS : i - nops;
		size_t n = next_random(&r) % max >> next_random(&r) % 16;
		size_t old = slot[s].n;
		char *p = slot[s].p;
		bool was = p != NULL;

		check(p == NULL || is_stamped(p, old, slot[s].mark));
		if (i >= nops) {
			free(p);
			continue;
		}
		switch (next_random(&r) % 6) {
		case 0:
			if (was) {
				p = (char *)realloc(p, n + 1);
				check(p != NULL);
				check(is_stamped(
				    p, old <= n ? old : n + 1, slot[s].mark));
				break;
			}
			/* fall through */
		case 1:
			free(p);
			p = (char *)calloc(1, n);
			check(p != NULL && is_zero(p, n));
			break;
		case 2:
			/* Since 3.24, memcheck reports 0 bytes as an error. */
			free(p);
			check(
			    posix_memalign((void **)&p,
				(size_t)16 << next_random(&r) % 9, n + 1) == 0);
			break;
		case 3:
			free(p);
			slot[s].p = NULL;
			slot[s].n = 0;
			continue;
		default:
			free(p);
			p = (char *)malloc(n);
			check(p != NULL);
			break;
		}
		slot[s].p = p;
		slot[s].n = n;
		slot[s].mark = next_random(&r);
		stamp(p, n, slot[s].mark);
	}
}

/* The cases of a program; the last one has no name. */
struct test_case {
	const char *name;
	void (*run)(void);
};

/* Runs the case that the program's argument names. */
static inline int
run_case(int argc, char **argv, const struct test_case *cases)
{
	check(argc == 2);
	for (; cases->name != NULL; cases++)
		if (strcmp(cases->name, argv[1]) == 0) {
			cases->run();
			return 0;
		}
	check_failed("the case is known", __FILE__, __LINE__);
	return 1;
}

#ifdef __cplusplus
}
#endif

#endif
