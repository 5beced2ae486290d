/*
 * libc has registered its rseq area with another length than 32 bytes, as glibc
 * 2.41 and later do on Linux 7.2, where __rseq_size is 33.  The children of
 * vfork() and clone() share the thread-local storage of a thread whose area is
 * registered, and allocate beside the other threads.  They must run no section.
 * If the library cannot guess the length, vfork() is fork(), and clone() fails.
 *
 * The program takes the place of libc: it registers areas itself, and defines
 * the names by which libc publishes them.  A program that is linked with an
 * older glibc, which lacks these names, exports them by -rdynamic only.
 *
 * test modes: default
 * test cflags: -rdynamic
 * test not with: qemu has no restartable sequences
 * test not with: musl registers no area itself
 */
#include <sched.h>
#include <signal.h>
#include <stddef.h>

#include "tests/programs/seccomp.h"

#ifdef __aarch64__
#define SIGNATURE 0xd428bc00
#else
#define SIGNATURE 0x53053053
#endif

enum {
	NFORKS = 60,
	/* Outside the lengths that the library can guess. */
	UNKNOWN = 96
};

struct area {
	uint32_t cpu_id_start;
	int32_t cpu_id;
	char rest[120];
};

static __thread struct area area
    __attribute__((aligned(128), tls_model("initial-exec"))) = {.cpu_id = -1};
ptrdiff_t __rseq_offset;
unsigned int __rseq_size;
unsigned int __rseq_flags;

static unsigned length; /* of all registrations */
static bool shares;     /* a child is to share the memory */
static unsigned nregistered;
static volatile bool stop;

static bool
register_area(void)
{
	return syscall(SYS_rseq, &area, length, 0, SIGNATURE) == 0;
}

/* Runs before the library starts, which other libraries' constructors cause. */
static char *
thread_pointer(void)
{
#ifdef __x86_64__
	/* gcc 10 lacks the function below. */
	char *pointer;

	__asm__("mov %%fs:0, %0" : "=r"(pointer));
	return pointer;
#else
	return (char *)__builtin_thread_pointer();
#endif
}

static void
take_over(int nargs, char **args)
{
	if (nargs < 3)
		return;
	length = (unsigned)atoi(args[1]);
	if (register_area()) {
		__rseq_offset = (char *)&area - thread_pointer();
		__rseq_size = (unsigned)atoi(args[2]);
	}
}
__attribute__((section(".preinit_array"), used)) static void (*const first)(
    int, char **) = take_over;

static void *
load(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	/* With glibc 2.43, the published area is registered in new threads. */
	check(area.cpu_id >= 0 || register_area());
	__atomic_add_fetch(&nregistered, 1, __ATOMIC_RELEASE);
	while (!stop)
		churn(++seed, 500, 3000);
	return NULL;
}

static int
child(void *is_shared)
{
	*(volatile bool *)is_shared = true;
	if (shares && area.cpu_id >= 0)
		_exit(1);
	churn(7, 300, 3000);
	_exit(0);
}

static __attribute__((noinline)) void
test_vfork(void)
{
	static bool is_shared;
	pid_t pid;

	is_shared = false;
	pid = vfork();
	if (pid == 0)
		child(&is_shared);
	child_end(pid);
	check(is_shared == shares);
	check(area.cpu_id >= 0);
}

static void
test_clone(void)
{
	static char stack[1 << 18] __attribute__((aligned(16)));
	static bool is_shared;
	pid_t pid;

	is_shared = false;
	errno = 0;
	pid = clone(child, stack + sizeof(stack),
	    CLONE_VM | CLONE_VFORK | SIGCHLD, &is_shared);
	check(shares ? pid > 0 : pid == -1 && errno == EAGAIN);
	if (pid > 0)
		child_end(pid);
	check(is_shared == shares);
	check(area.cpu_id >= 0);
}

/* filter: the kernel refuses rseq, which is another reason not to stop. */
static void
run(bool filter)
{
	struct umem_mode mode;
	pthread_t thread[3];

	shares = length != UNKNOWN && !filter;
	if (__rseq_size == 0)
		skip("the kernel does not register such a length");
	check(umem_mode(&mode, sizeof(mode)) == 0);
	if (mode.mode != UMEM_MODE_RSEQ_LIBC)
		skip("the library has started too early");
	for (uintptr_t i = 0; i < 3; i++)
		thread[i] = thread_start(load, (void *)(i * 100000));
	while (__atomic_load_n(&nregistered, __ATOMIC_ACQUIRE) < 3)
		churn(1, 5000, 3000);
	if (filter)
		refuse_one(SYS_rseq, ENOSYS);
	for (int i = 0; i < NFORKS; i++) {
		test_vfork();
		test_clone();
		churn((uint64_t)i + 1, 100, 3000);
	}
	stop = true;
	for (int i = 0; i < 3; i++)
		thread_end(thread[i]);
}

static void
again(char *self, char *bytes, char *published, char *filter)
{
	char *args[] = {self, bytes, published, filter, NULL};
	pid_t pid = fork();

	if (pid == 0) {
		setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", 1);
		execv("/proc/self/exe", args);
		_exit(3);
	}
	child_end(pid);
}

int
main(int nargs, char **args)
{
	if (nargs > 2) {
		run(nargs > 3);
		return 0;
	}
	again(args[0], "32", "20", NULL);
	again(args[0], "33", "33", NULL);
	again(args[0], "64", "64", NULL);
	again(args[0], "96", "33", NULL);
	again(args[0], "33", "33", "filter");
	return 0;
}
