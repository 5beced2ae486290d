/*
 * seccomp.h - the kernel refuses system calls from now on
 *
 * A filter cannot be removed: it stays until the process ends, also across
 * exec().  refused_bursts.c tests calls that fail only for a while.
 */
#ifndef TESTS_PROGRAMS_SECCOMP_H
#define TESTS_PROGRAMS_SECCOMP_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/programs/check.h"

/*
 * Every thread of the process gets error for any of n calls.  The library does
 * not see it coming, as it does by prctl().
 */
static inline void
refuse_unseen(const int *calls, unsigned n, int error)
{
	struct sock_filter code[40];
	struct sock_fprog program = {.filter = code};
	unsigned at = 0;

	check(n < 30);
	code[at++] = (struct sock_filter)BPF_STMT(
	    BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (unsigned i = 0; i < n; i++)
		code[at++] = (struct sock_filter)BPF_JUMP(
		    BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], n - i, 0);
	code[at++] =
	    (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	code[at++] = (struct sock_filter)BPF_STMT(
	    BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error);
	program.len = (unsigned short)at;
	check(syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
		skip("no seccomp filters here");
}

static inline void
refuse(const int *calls, unsigned n, int error)
{
	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	refuse_unseen(calls, n, error);
}

static inline void
refuse_one(int call, int error)
{
	refuse(&call, 1, error);
}

/*
 * Any call but these n ends the process: for the calling thread, or for all
 * threads by a call that prctl() does not see.
 */
static inline void
allow_only(const int *calls, unsigned n, bool all)
{
	struct sock_filter code[40];
	struct sock_fprog program = {.filter = code};
	unsigned at = 0;

	check(n < 30);
	code[at++] = (struct sock_filter)BPF_STMT(
	    BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (unsigned i = 0; i < n; i++)
		code[at++] =
		    (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
			(unsigned)calls[i], (uint8_t)(n - i), 0);
	code[at++] = (struct sock_filter)BPF_STMT(
	    BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	code[at++] =
	    (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = (unsigned short)at;
	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	if (all ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		      SECCOMP_FILTER_FLAG_TSYNC, &program) != 0
		: prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) !=
		      0)
		skip("no seccomp filters here");
}

/* What malloc() of libc and the tests need, in all threads. */
static inline void
allow_only_malloc(void)
{
	static const int calls[] = {SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap,
	    SYS_mprotect, SYS_madvise, SYS_futex, SYS_write, SYS_exit,
	    SYS_exit_group, SYS_rt_sigprocmask, SYS_nanosleep,
	    SYS_clock_nanosleep};

	allow_only(calls, sizeof(calls) / sizeof(*calls), /* all */ true);
}

/* This program again, with the refusals in force from its start. */
static inline void
start_again(char **argv, const char *word)
{
	execl("/proc/self/exe", argv[0], word, NULL);
	check_failed("exec", __FILE__, __LINE__);
}

#endif
