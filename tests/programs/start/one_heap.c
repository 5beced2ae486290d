/*
 * A program that was linked with libumem.so.1 runs on our malloc: the functions
 * of both libraries, and all memory, come from one library.  The other one does
 * not start: it would take the one rseq area that a thread can have.
 *
 * test modes: rseq own locked
 * test not with: musl libumem alone has no mallinfo2()
 * test link: umem
 * test preload: yes
 * test no stderr: .
 */
#include <dlfcn.h>
#include <malloc.h>
#include <sys/syscall.h>

#include "tests/programs/check.h"

static const char *
library_of(void *p)
{
	Dl_info info;

	check(dladdr(p, &info) != 0);
	return info.dli_fname;
}

static void
check_mode(void)
{
	const char *options = getenv("UMEM_OPTIONS");
	struct umem_mode mode;

	check(umem_mode(&mode, sizeof(mode)) == 0);
	if (options == NULL || strcmp(options, "mode=own") != 0 ||
	    (syscall(SYS_rseq, NULL, 0, 0, 0) != 0 && errno == ENOSYS))
		return;
	fprintf(stdout, "mode %d: %s\n", mode.mode, mode.reason);
	check(mode.mode == UMEM_MODE_RSEQ_OWN);
}

static long
mapped_kib(void)
{
	char text[64] = {0};
	int fd = open("/proc/self/statm", O_RDONLY);

	check(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	return strtol(text, NULL, 10) * (sysconf(_SC_PAGESIZE) / 1024);
}

static pthread_barrier_t forked;

static void *
wait_for_fork(void *arg)
{
	pthread_barrier_wait(&forked);
	return arg;
}

/*
 * A library that has started locks itself, if there are threads.  One that
 * starts for it reserves 64 MiB.  QEMU maps memory of its own meanwhile.
 */
static void
check_fork(void)
{
	pthread_t thread;
	long before;
	pid_t pid;

	check(pthread_barrier_init(&forked, NULL, 2) == 0);
	thread = thread_start(wait_for_fork, NULL);
	before = mapped_kib();
	pid = fork();
	if (pid == 0)
		_exit(0);
	child_end(pid);
	check(getenv("EMULATED") != NULL || mapped_kib() < before + 32 * 1024);
	pthread_barrier_wait(&forked);
	thread_end(thread);
}

int
main(void)
{
	struct mallinfo2 before, after;
	static void *p[1000];

	check(strcmp(library_of((void *)malloc),
		  library_of((void *)umem_alloc)) == 0);
	check(strstr(library_of((void *)umem_cache_create), "umem_malloc") !=
	      NULL);
	check_mode();
	check_fork();
	before = mallinfo2();
	for (int i = 0; i < 1000; i++)
		check((p[i] = umem_alloc(1000, UMEM_DEFAULT)) != NULL);
	after = mallinfo2();
	check(after.uordblks >= before.uordblks + 1000000);
	for (int i = 0; i < 1000; i++) {
		check(malloc_usable_size(p[i]) >= 1000);
		umem_free(p[i], 1000);
	}
	after = mallinfo2();
	check(after.uordblks < before.uordblks + 100000);
	churn(1, 10000, 10000);
	return 0;
}
