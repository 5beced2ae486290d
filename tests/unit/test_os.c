/* test_os.c - the library's requests to the kernel, granted and refused */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/machine.h"
#include "vmem/os.h"
#include "vmem/syscall.h"
#include "vmem/vdso.h"

#define BYTES ((size_t)4 * MIB)

/*
 * Is the page readable and writable?  Ask the kernel by a system call, so that
 * the test does not trap.
 */
static bool
readable(void *at)
{
	int fd[2];
	bool is;

	ck_assert_int_eq(pipe(fd), 0);
	is = write(fd[1], at, 1) == 1;
	close(fd[0]);
	close(fd[1]);
	return is;
}

static bool
writable(void *at)
{
	int fd[2];
	bool is;

	ck_assert_int_eq(pipe(fd), 0);
	ck_assert_int_eq(write(fd[1], "x", 1), 1);
	is = read(fd[0], at, 1) == 1;
	close(fd[0]);
	close(fd[1]);
	return is;
}

static bool
mapped(void *at)
{
	return msync(at, os_page_size(), MS_ASYNC) == 0;
}

static bool
resident(void *at)
{
	unsigned char page = 0;

	return os_resident(at, os_page_size(), &page) && (page & 1) != 0;
}

START_TEST(reserved_committed_purged_and_given_back)
{
	size_t page = os_page_size();
	char *at = os_reserve(NULL, BYTES);

	ck_assert_ptr_nonnull(at);
	ck_assert(mapped(at) && mapped(at + BYTES - page));
	ck_assert(!readable(at) && !writable(at));
	ck_assert(os_commit(at + page, 2 * page));
	ck_assert(!readable(at) && !readable(at + 3 * page));
	ck_assert_int_eq(at[page], 0);
	ck_assert(writable(at + page) && writable(at + 3 * page - 1));
	memset(at + page, 7, 2 * page);
	ck_assert(resident(at + page));
	ck_assert(os_purge(at + page, page));
	ck_assert(!resident(at + page));
	ck_assert_int_eq(at[page], 0);
	ck_assert_int_eq(at[2 * page], 7);
	ck_assert(os_decommit(at + page, 2 * page));
	ck_assert(mapped(at + page));
	ck_assert(!readable(at + page));
	ck_assert(os_commit(at, BYTES));
	ck_assert_int_eq(at[2 * page], 0);
	ck_assert(os_unmap(at, BYTES));
	ck_assert(!mapped(at) && !mapped(at + BYTES - page));
}
END_TEST

START_TEST(a_place_that_is_taken_is_refused)
{
	size_t page = os_page_size();
	char *at = os_reserve(NULL, BYTES);

	ck_assert(!os_reserve_at(at, page));
	ck_assert(!os_reserve_at(at - page, 2 * page));
	ck_assert(!os_reserve_at(at + BYTES - page, 2 * page));
	ck_assert(mapped(at));
	ck_assert(os_unmap(at + page, page));
	ck_assert(!os_reserve_at(at + page, 2 * page));
	ck_assert(!mapped(at + page));
	ck_assert(os_reserve_at(at + page, page));
	ck_assert(mapped(at + page));
	ck_assert(!readable(at + page));
}
END_TEST

START_TEST(zeros_read_as_zeros_and_take_no_writing)
{
	char *at = os_reserve_zeros(BYTES);

	ck_assert_ptr_nonnull(at);
	for (size_t i = 0; i < BYTES; i += 4096)
		ck_assert_int_eq(at[i], 0);
	ck_assert(!writable(at));
	ck_assert(os_commit(at, os_page_size()));
	at[0] = 1;
	ck_assert(!writable(at + os_page_size()));
}
END_TEST

START_TEST(pages_move_and_leave_zeros)
{
	size_t page = os_page_size();
	char *from = os_map(16 * page), *to = os_map(16 * page);
	/* _i == 0: the intermediate range is free; otherwise it is in use. */
	char *via = os_reserve(NULL, 8 * page);

	if (_i == 0)
		os_unmap(via, 8 * page);
	memset(from, 3, 16 * page);
	memset(to, 4, 16 * page);
	if (!os_move(to + 2 * page, via, from, 8 * page)) {
		/* If the kernel cannot move the pages, nothing has changed. */
		ck_assert_int_eq(from[0], 3);
		ck_assert_int_eq(to[2 * page - 1], 4);
		return;
	}
	ck_assert_int_eq(to[2 * page - 1], 4);
	ck_assert_int_eq(to[2 * page], 3);
	ck_assert_int_eq(to[10 * page - 1], 3);
	ck_assert_int_eq(to[10 * page], 4);
	ck_assert_int_eq(from[0], 0);
	ck_assert_int_eq(from[8 * page - 1], 0);
	ck_assert_int_eq(from[8 * page], 3);
	from[0] = 5;
	ck_assert_int_eq(to[2 * page], 3);
	/* The source can lose its pages again. */
	ck_assert(os_purge(from, page));
	ck_assert_int_eq(from[0], 0);
	from[0] = 5;
	os_fail_nth(1, 1);
	ck_assert(!os_move(to, via, from, page));
	os_fail_nth(0, 0);
	ck_assert_int_eq(to[0], 4);
	ck_assert_int_eq(from[0], 5);
}
END_TEST

START_TEST(a_refused_move_leaves_the_source)
{
	size_t page = os_page_size();
	char *from = os_map(16 * page), *to = os_map(16 * page);
	bool moved;

	memset(from, 3, 16 * page);
	memset(to, 4, 16 * page);
	/* Some kernels can move two mappings in one call. */
	ck_assert_int_eq(mprotect(from + 8 * page, page, PROT_READ), 0);
	moved = os_move(to, NULL, from, 16 * page);
	for (size_t i = 0; i < 16 * page; i++)
		ck_assert(moved ? from[i] == 0 && to[i] == 3
				: from[i] == 3 && to[i] == 0);
}
END_TEST

START_TEST(locked_memory_stays_where_it_is)
{
	size_t page = os_page_size();
	char *from = os_map(16 * page), *to = os_map(16 * page);

	memset(from, 3, 16 * page);
	/* The call locks what is touched later: 1 is MLOCK_ONFAULT. */
	if (syscall(SYS_mlock2, to, 16 * page, 1) != 0)
		return;
	ck_assert(!os_move(to, NULL, from, 16 * page));
	ck_assert_int_eq(from[0], 3);
	ck_assert_int_eq(to[0], 0);
}
END_TEST

/* Make the kernel refuse the call "nr" with this argument. */
static bool
refuse(unsigned nr, unsigned argument, unsigned value)
{
	struct sock_filter code[] = {
	    BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 3),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
		offsetof(struct seccomp_data, args[argument])),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {array_size(code), code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

/* With as many mappings as the kernel permits, it cannot split one. */
START_TEST(memory_that_cannot_be_unmapped_is_released)
{
	size_t page = os_page_size();
	char *at = os_map(64 * page);

	memset(at, 3, 64 * page);
	if (!refuse(SYS_munmap, 1, (unsigned)(41 * page)))
		return;
	ck_assert(!os_unmap(at + 4 * page, 41 * page));
	ck_assert(resident(at + 3 * page) && resident(at + 45 * page));
	ck_assert(!resident(at + 4 * page) && !resident(at + 44 * page));
}
END_TEST

/*
 * Before Linux 6.17, mremap() to a fixed target that leaves the source mapped
 * may unmap the target and then fail.  mremap() to a fixed target without that
 * flag hardly ever fails.
 */
START_TEST(pages_move_without_a_move_that_may_lose_the_target)
{
	static const unsigned flags[] = {
	    MREMAP_MAYMOVE | MREMAP_FIXED | /* MREMAP_DONTUNMAP */ 4,
	    MREMAP_MAYMOVE | MREMAP_FIXED};
	size_t page = os_page_size();
	char *from = os_map(8 * page), *to = os_map(8 * page);

	if (!os_move(to, NULL, from, 8 * page))
		return;
	memset(from, 3, 8 * page);
	if (!refuse(SYS_mremap, 3, flags[_i]))
		return;
	ck_assert(os_move(to, NULL, from, 8 * page));
	for (size_t i = 0; i < 8 * page; i++)
		ck_assert(from[i] == 0 && to[i] == 3);
	memset(from, 5, 8 * page);
	ck_assert_int_eq(to[0], 3);
}
END_TEST

/* Make one request of each kind; return a bit for each granted request. */
static unsigned
one_of_each(void)
{
	static char *at;
	size_t page = os_page_size();
	unsigned granted = 0;

	if (at == NULL)
		at = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	granted |= (unsigned)(os_reserve(NULL, page) != NULL) << 0;
	granted |= (unsigned)(os_reserve_zeros(page) != NULL) << 1;
	granted |= (unsigned)os_commit(at, page) << 2;
	granted |= (unsigned)(os_map(page) != NULL) << 3;
	granted |= (unsigned)os_purge(at, page) << 4;
	granted |= (unsigned)os_decommit(at + page, page) << 5;
	granted |= (unsigned)os_unmap(at + 3 * page, page) << 6;
	return granted;
}

START_TEST(the_nth_request_fails_and_no_other)
{
	enum {
		NREQUESTS = 7
	};
	unsigned before = os_requests();

	errno = 77;
	ck_assert_uint_eq(one_of_each(), (1u << NREQUESTS) - 1);
	ck_assert_uint_eq(os_requests() - before, NREQUESTS);
	for (unsigned burst = 1; burst < 5; burst++)
		for (unsigned nth = 1; nth <= NREQUESTS + 1; nth++) {
			unsigned want = (1u << NREQUESTS) - 1;

			for (unsigned i = 0; i < burst; i++)
				want &= ~(1u << (nth - 1 + i));
			before = os_requests();
			os_fail_nth(nth, burst);
			ck_assert_uint_eq(one_of_each(), want);
			ck_assert_uint_eq(os_requests() - before, NREQUESTS);
			os_fail_nth(0, 0);
			ck_assert_uint_eq(one_of_each(), (1u << NREQUESTS) - 1);
		}
	ck_assert_int_eq(errno, 77);
}
END_TEST

START_TEST(errno_is_left_alone)
{
	size_t page = os_page_size();
	uint32_t word = 0;

	errno = 77;
	ck_assert_ptr_null(os_reserve(NULL, (size_t)1 << 62));
	ck_assert_ptr_null(os_map((size_t)1 << 62));
	ck_assert(!os_reserve_at((void *)(UINTPTR_MAX - page + 1), page));
	ck_assert(!os_commit((void *)page, page));
	ck_assert(!os_unmap((void *)1, page));
	ck_assert(!os_purge((void *)1, page));
	ck_assert(!os_move((void *)1, (void *)page, (void *)1, page));
	ck_assert(!os_rseq_register((void *)1, 1, 1));
	ck_assert(!os_rseq_unregister((void *)1, 1, 1));
	os_name((void *)1, page, "x");
	os_write(-1, "x", 1);
	os_futex_wait(&word, 1, 0);
	os_futex_wait(&word, 0, 1);
	ck_assert_uint_eq(os_auxv(9999), 0);
	ck_assert_int_eq(errno, 77);
}
END_TEST

START_TEST(figures_of_the_machine_are_right)
{
	cpu_set_t allowed, one;
	struct rlimit limit = {(rlim_t)1 << 56, RLIM_INFINITY};

	ck_assert_uint_eq(os_page_size(), (size_t)sysconf(_SC_PAGESIZE));
	ck_assert_uint_eq(os_auxv(AT_PAGESZ), os_page_size());
	ck_assert_int_eq(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
	ck_assert_uint_eq(os_cpus_allowed(), (unsigned)CPU_COUNT(&allowed));
	ck_assert_uint_ge(
	    os_cpu_slots(), (unsigned)sysconf(_SC_NPROCESSORS_CONF));
	unsigned cpu = os_cpu();
	ck_assert_uint_lt(cpu, os_cpu_slots());
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	ck_assert_uint_eq(os_cpu(), cpu);
	ck_assert_uint_eq(os_cpus_allowed(), 1);
	ck_assert_uint_eq(os_process_id(), (uint32_t)getpid());
	ck_assert_uint_eq(os_thread_id(), (uint32_t)gettid());
	ck_assert_uint_ge(
	    os_ram(), (size_t)sysconf(_SC_PHYS_PAGES) * os_page_size() / 2);
	ck_assert_uint_eq(os_limit(RLIMIT_AS), SIZE_MAX);
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
	ck_assert_uint_eq(os_limit(RLIMIT_AS), (size_t)1 << 56);
	ck_assert_uint_eq(os_random(), os_random());
}
END_TEST

START_TEST(time_goes_on_by_the_clock)
{
	uint64_t from = os_now_ns(), to;

	usleep(100000);
	to = os_now_ns();
	ck_assert_uint_ge(to - from, 80000000);
	ck_assert_uint_lt(to - from, 10000000000);
}
END_TEST

/* The kernel's function, or the system call, tells the time that libc tells. */
START_TEST(the_clock_is_that_of_libc)
{
	struct timespec now;
	uint64_t before = os_exact_ns(), libc;

	ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &now), 0);
	libc = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	ck_assert_uint_le(before, libc);
	ck_assert_uint_le(libc, os_exact_ns());
	ck_assert_uint_le(os_now_ns(), os_exact_ns());
}
END_TEST

START_TEST(the_kernels_clock_is_found)
{
	vdso_clock *clock = vdso_find_clock();
	struct timespec now = {0};

	/* Emulators and valgrind have a vDSO without the function, or none. */
	if (getauxval(AT_SYSINFO_EHDR) == 0)
		return;
	/* Elsewhere the library does not know its name. */
	if (strlen(VDSO_CLOCK) == 0) {
		ck_assert_ptr_null(clock);
		return;
	}
	ck_assert_ptr_nonnull(clock);
	ck_assert_int_eq(clock(CLOCK_MONOTONIC, &now), 0);
	ck_assert_int_gt(now.tv_sec, 0);
	ck_assert_int_lt(clock(-1000, &now), 0);
}
END_TEST

static uint32_t word;

static void *
wake_later(void *arg)
{
	usleep(50000);
	__atomic_store_n(&word, 1, __ATOMIC_RELEASE);
	os_futex_wake(&word, 1);
	return arg;
}

START_TEST(a_wait_ends_by_a_wake_by_a_change_or_by_time)
{
	pthread_t thread;
	uint64_t from = os_now_ns();

	os_futex_wait(&word, 1, 0); /* a value that the word does not have */
	os_futex_wait(&word, 0, 50000000);
	ck_assert_uint_ge(os_now_ns() - from, 30000000);
	pthread_create(&thread, NULL, wake_later, NULL);
	while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) == 0)
		os_futex_wait(&word, 0, 0);
	pthread_join(thread, NULL);
}
END_TEST

static void
do_nothing(int signal)
{
	(void)signal;
}

static void *
slow_reader(void *arg)
{
	size_t n = 0;
	char text[4096];
	ssize_t got;

	while ((got = read(*(int *)arg, text, sizeof(text))) > 0) {
		for (ssize_t i = 0; i < got; i++)
			if (text[i] != 'y')
				return NULL;
		n += (size_t)got;
		usleep(500);
	}
	return (void *)n;
}

START_TEST(a_wait_goes_on_while_signals_are_handled)
{
	struct itimerval often = {{0, 1000}, {0, 1000}};
	uint64_t from = os_now_ns();
	uint32_t nothing = 0;

	signal(SIGALRM, do_nothing);
	ck_assert_int_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
	ck_assert(!os_futex_await(&nothing, 0, 50000000));
	ck_assert_uint_ge(os_now_ns() - from, 30000000);
	ck_assert(os_futex_await(&nothing, 1, 50000000));
}
END_TEST

/* Write more than the pipe can hold, interrupted by signals. */
START_TEST(a_write_is_whole)
{
	struct sigaction action = {0};
	struct itimerval timer = {{0, 1000}, {0, 1000}};
	static char text[400000];
	pthread_t thread;
	sigset_t alarms;
	void *n;
	int fd[2];

	ck_assert_int_eq(pipe(fd), 0);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGVTALRM);
	sigaddset(&alarms, SIGALRM);
	action.sa_handler = do_nothing;
	sigaction(SIGALRM, &action, NULL);
	pthread_sigmask(SIG_BLOCK, &alarms, NULL);
	pthread_create(&thread, NULL, slow_reader, &fd[0]);
	pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
	memset(text, 'y', sizeof(text));
	setitimer(ITIMER_REAL, &timer, NULL);
	os_write(fd[1], text, sizeof(text));
	memset(&timer, 0, sizeof(timer));
	setitimer(ITIMER_REAL, &timer, NULL);
	close(fd[1]);
	pthread_join(thread, &n);
	ck_assert_uint_eq((uintptr_t)n, sizeof(text));
}
END_TEST

START_TEST(an_abort_aborts)
{
	os_abort();
}
END_TEST

/* SIGABRT blocked, ignored, and with a handler that returns. */
START_TEST(an_abort_aborts_whatever_the_program_did)
{
	struct sigaction action = {0};
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	action.sa_handler = _i == 0 ? SIG_IGN : do_nothing;
	sigaction(SIGABRT, &action, NULL);
	os_abort();
}
END_TEST

START_TEST(membarrier_can_be_refused)
{
	bool ready = os_membarrier_ready();

	os_fail_nth(1, 2);
	ck_assert(!os_membarrier_ready());
	ck_assert(!os_membarrier_rseq());
	os_fail_nth(0, 0);
	ck_assert_int_eq(os_membarrier_rseq(), ready);
}
END_TEST

static int
tell_process(void *is_process)
{
	*(bool *)is_process = os_is_process();
	return 0;
}

START_TEST(a_child_that_shares_memory_is_not_the_process)
{
	static char stack[1 << 16] __attribute__((aligned(16)));
	bool is_process = true;
	int status;
	pid_t pid;

	os_note_process();
	ck_assert(os_is_process());
	pid = clone(tell_process, stack + sizeof(stack),
	    CLONE_VM | CLONE_VFORK | SIGCHLD, &is_process);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(!is_process);
	pid = fork();
	if (pid == 0) {
		os_process_after_fork();
		_exit(os_is_process() ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(a_copy_that_no_handler_saw_is_a_process)
{
	int status;
	pid_t pid;

	os_note_process();
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0)
		_exit(os_is_process() ? 0 : 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert(os_is_process());
}
END_TEST

START_TEST(a_confined_process_asks_for_little)
{
	static char page[1 << 16] __attribute__((aligned(1 << 16)));
	unsigned char pages[16];
	void *at;

	page[0] = 1;
	ck_assert(os_resident(page, os_page_size(), pages));
	ck_assert(!os_is_confined());
	os_confine();
	ck_assert(os_is_confined());
	ck_assert(!os_resident(page, os_page_size(), pages));
	ck_assert(!os_membarrier_rseq());
	os_thread_name("confined");
	at = os_map(1 << 16);
	ck_assert_ptr_nonnull(at);
	os_name(at, 1 << 16, "confined");
	ck_assert(os_purge(at, 1 << 16));
	ck_assert(os_unmap(at, 1 << 16));
}
END_TEST

START_TEST(a_release_has_a_number)
{
	ck_assert_uint_eq(
	    os_version_of("6.12.48+deb13-arm64"), OS_VERSION(6, 12, 48));
	ck_assert_uint_eq(
	    os_version_of("7.0.0-31-generic"), OS_VERSION(7, 0, 0));
	ck_assert_uint_eq(os_version_of("7.1-rc3"), OS_VERSION(7, 1, 0));
	ck_assert_uint_eq(os_version_of("6.19"), OS_VERSION(6, 19, 0));
	ck_assert_uint_eq(os_version_of("7"), OS_VERSION(7, 0, 0));
	ck_assert_uint_eq(os_version_of("5.10.99999"), OS_VERSION(5, 10, 1023));
	ck_assert_uint_eq(os_version_of(""), 0);
	ck_assert_uint_eq(os_version_of("lenient"), 0);
	ck_assert_uint_ge(os_kernel_version(), OS_VERSION(4, 18, 0));
}
END_TEST

START_TEST(a_thread_is_named)
{
	char name[16] = "";
	int fd;

	os_thread_name("umem test");
	fd = open("/proc/self/comm", O_RDONLY);
	if (fd < 0)
		return;
	ck_assert_int_gt(read(fd, name, sizeof(name) - 1), 0);
	ck_assert_str_eq(name, "umem test\n");
	close(fd);
}
END_TEST

static void
add_process_tests(TCase *tcase)
{
	tcase_add_test_raise_signal(tcase, an_abort_aborts, SIGABRT);
	tcase_add_loop_test_raise_signal(
	    tcase, an_abort_aborts_whatever_the_program_did, SIGABRT, 0, 2);
}

Suite *
os_suite(void)
{
	Suite *suite = suite_create("os");
	TCase *tcase = tcase_create("os");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, reserved_committed_purged_and_given_back);
	tcase_add_test(tcase, a_place_that_is_taken_is_refused);
	tcase_add_test(tcase, zeros_read_as_zeros_and_take_no_writing);
	tcase_add_loop_test(tcase, pages_move_and_leave_zeros, 0, 2);
	tcase_add_test(tcase, a_refused_move_leaves_the_source);
	tcase_add_test(tcase, locked_memory_stays_where_it_is);
	tcase_add_test(tcase, memory_that_cannot_be_unmapped_is_released);
	tcase_add_test(tcase, the_nth_request_fails_and_no_other);
	tcase_add_test(tcase, errno_is_left_alone);
	tcase_add_test(tcase, time_goes_on_by_the_clock);
	tcase_add_test(tcase, the_clock_is_that_of_libc);
	tcase_add_test(tcase, a_wait_ends_by_a_wake_by_a_change_or_by_time);
	tcase_add_test(tcase, a_wait_goes_on_while_signals_are_handled);
	tcase_add_test(tcase, a_write_is_whole);
	tcase_add_test(tcase, membarrier_can_be_refused);
	tcase_add_test(tcase, a_copy_that_no_handler_saw_is_a_process);
	tcase_add_test(tcase, a_confined_process_asks_for_little);
	tcase_add_test(tcase, a_release_has_a_number);
	tcase_add_test(tcase, a_thread_is_named);
	add_process_tests(tcase);
	if (!machine_is_emulated()) {
		tcase_add_loop_test(tcase,
		    pages_move_without_a_move_that_may_lose_the_target, 0, 2);
		tcase_add_test(tcase, figures_of_the_machine_are_right);
		tcase_add_test(tcase, the_kernels_clock_is_found);
		tcase_add_test(
		    tcase, a_child_that_shares_memory_is_not_the_process);
	}
	suite_add_tcase(suite, tcase);
	return suite;
}
