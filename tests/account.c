/*
 * account.c - checks at the end of a program that each byte has its place
 *
 * tests/run_tests.sh preloads it with the library.  When the program exits, the
 * parts of the heap in umem_stats() must add up.  Because a thread that is at
 * work meanwhile makes the figures those of different moments, and may have
 * SLAB_CHAIN_BYTES of slabs in hand, the sum may be wrong by 1 % and 1 MiB for
 * each thread if there are other threads, of which the library's own is one.
 * A child of fork() inherits the memory that other threads were about to use,
 * which no one can use there: large blocks and slabs that they had just
 * allocated or were about to free.  Each of them has one large block, in most
 * tests up to 12 MiB, or slabs of SLAB_CHAIN_BYTES.  The sum may be wrong by
 * 5 % and 16 MiB; the header "account: N" permits N MiB.  A sum that is
 * wrong ends the process with status 3.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "umem/umem.h"

/* Absent in a program that does not run on the library. */
#pragma weak umem_stats

static bool is_forked;

static void
account_forked(void)
{
	is_forked = true;
}

__attribute__((constructor)) static void
account_start(void)
{
	pthread_atfork(NULL, NULL, account_forked);
}

/* Returns the number of threads, at least 2 if it is unknown. */
static unsigned
threads_count(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned n = 0;

	if (dir == NULL)
		return 2;
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n - 2;
}

__attribute__((destructor)) static void
account_check(void)
{
	const char *wanted = getenv("ACCOUNT");
	long lost = wanted != NULL ? atol(wanted) : 16;
	struct umem_stats s;
	long wrong, most;
	unsigned nthreads;
	char line[512];
	int n;

	if (umem_stats == NULL || (wanted != NULL && strcmp(wanted, "no") == 0))
		return;
	nthreads = threads_count();
	if (umem_stats(&s, sizeof(s)) != 0)
		return;
	wrong = (long)(s.heap_bytes - s.live_bytes - s.cached_bytes -
		       s.waiting_bytes - s.dirty_bytes - s.sampled_bytes);
	most = is_forked
		   ? (long)(s.heap_bytes / 20) + (lost << 20)
		   : (long)(s.heap_bytes / 100) + (long)nthreads * (1 << 20);
	if (nthreads == 1 && !is_forked)
		most = 0;
	if (labs(wrong) <= most &&
	    s.mapped_bytes == s.heap_bytes + s.own_bytes &&
	    s.cached_bytes == s.cpu_bytes + s.depot_bytes + s.slab_bytes)
		return;
	n = snprintf(line, sizeof(line),
	    "account: heap %zu is not live %zu + cached %zu + waiting %zu + "
	    "dirty %zu + sampled %zu, but %ld more; %u threads\n",
	    s.heap_bytes, s.live_bytes, s.cached_bytes, s.waiting_bytes,
	    s.dirty_bytes, s.sampled_bytes, wrong, nthreads);
	if (write(2, line, (size_t)n) == n)
		_exit(3);
}
