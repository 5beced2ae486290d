/*
 * step.h - a child process that stops before each of its instructions
 *
 * The child is a copy of the test's process, so an address is valid in both.
 * Between two instructions of the child, the test reads and writes the child's
 * memory, and can make the child continue at another instruction.
 *
 * The kernel refuses a tracer if the test itself is traced (strace -f) or if
 * the kernel has no ptrace (qemu-user).  On architectures without a header for
 * registers, and with ThreadSanitizer, there are no steps.  step_start() then
 * reports this on stderr and returns 0, and the caller skips its test.
 */
#ifndef TESTS_UNIT_STEP_H
#define TESTS_UNIT_STEP_H

#include <check.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vmem/arch.h"

#include ARCH_HEADER(step)

#define STEP_REFUSED 77

/* ThreadSanitizer has calls at each access, and a thread that no child has. */
#ifdef __SANITIZE_THREAD__
#define STEP_IS_POSSIBLE false
#else
#define STEP_IS_POSSIBLE (STEP_TRAP != 0)
#endif

/* Called by the child: stops until step_resume(). */
static inline void
step_pause(void)
{
	raise(SIGSTOP);
}

/*
 * Returns true if the child stopped by signal, false if it ended with status 0.
 */
static inline bool
step_wait(pid_t child, int signal)
{
	int status = 0;

	ck_assert_int_eq(waitpid(child, &status, 0), child);
	if (!WIFSTOPPED(status)) {
		ck_assert_int_eq(status, 0);
		return false;
	}
	ck_assert_int_eq(WSTOPSIG(status), signal);
	return true;
}

/*
 * Starts a child that pauses and then calls f.  Returns the child's process id,
 * or 0 if the kernel refuses to trace.
 */
static inline pid_t
step_start(void (*f)(void))
{
	int status = 0;
	pid_t child;

	if (!STEP_IS_POSSIBLE) {
		fprintf(stderr, "not stepped in this build\n");
		return 0;
	}
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(STEP_REFUSED);
		step_pause();
		f();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == STEP_REFUSED) {
		fprintf(stderr, "not stepped: the kernel refuses ptrace\n");
		return 0;
	}
	ck_assert(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	ck_assert_int_eq(
	    ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_EXITKILL), 0);
	return child;
}

/* Executes one instruction; returns false if the child has ended. */
static inline bool
step_one(pid_t child)
{
	ck_assert_int_eq(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
	return step_wait(child, SIGTRAP);
}

/* Runs the child to its next step_pause(); returns false if it has ended. */
static inline bool
step_resume(pid_t child)
{
	ck_assert_int_eq(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
	return step_wait(child, SIGSTOP);
}

/* Ends a child that is stopped. */
static inline void
step_end(pid_t child)
{
	int status;

	kill(child, SIGKILL);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
}

/* Returns the word at an address in the child. */
static inline uint64_t
step_peek(pid_t child, const void *at)
{
	long word;

	errno = 0;
	word = ptrace(PTRACE_PEEKDATA, child, (void *)at, NULL);
	ck_assert_int_eq(errno, 0);
	return (uint64_t)word;
}

static inline void
step_poke(pid_t child, void *at, uint64_t word)
{
	ck_assert_int_eq(ptrace(PTRACE_POKEDATA, child, at, (void *)word), 0);
}

static inline void
step_registers(pid_t child, int request, struct user_regs_struct *registers)
{
	struct iovec io = {registers, sizeof(*registers)};

	ck_assert_int_eq(
	    ptrace(request, child, (void *)(uintptr_t)NT_PRSTATUS, &io), 0);
}

/* Returns the address of the child's next instruction. */
static inline uintptr_t
step_pc(pid_t child)
{
	struct user_regs_struct registers;

	step_registers(child, PTRACE_GETREGSET, &registers);
	return (uintptr_t)*step_pc_of(&registers);
}

static inline void
step_jump(pid_t child, uintptr_t to)
{
	struct user_regs_struct registers;

	step_registers(child, PTRACE_GETREGSET, &registers);
	*step_pc_of(&registers) = to;
	step_registers(child, PTRACE_SETREGSET, &registers);
}

#endif
