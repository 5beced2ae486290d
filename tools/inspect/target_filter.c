/*
 * target_filter.c - the filters of system calls of a process: may the library
 * make a copy of it?
 *
 * A copy takes system calls that the program itself may never make, and a
 * filter (seccomp) may end the process for one.  Because containers and
 * services have filters that permit these calls, this command does not refuse
 * every filter.  The kernel shows the programs of the filters to a process with
 * CAP_SYS_ADMIN that has no filter itself.  This file runs the programs with
 * the calls, as the kernel would.  If it cannot, there is no copy.
 *
 * The arguments that this command cannot know are the address of the calling
 * instruction, addresses of variables and process numbers.  A program that
 * reads one of them counts as a refusal.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tools/inspect/target.h"

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif

#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#endif

#define DATA_WORDS (sizeof(struct seccomp_data) / 4)

/* A system call, as a filter sees it: struct seccomp_data as 32-bit words. */
struct filtered_call {
	uint32_t word[DATA_WORDS];
	bool known[DATA_WORDS];
};

static struct filtered_call
call_of(int number)
{
	struct filtered_call call = {0};

	call.word[offsetof(struct seccomp_data, nr) / 4] = (uint32_t)number;
	call.known[offsetof(struct seccomp_data, nr) / 4] = true;
	call.word[offsetof(struct seccomp_data, arch) / 4] = OUR_ARCH;
	call.known[offsetof(struct seccomp_data, arch) / 4] = true;
	return call;
}

static void
set_argument(struct filtered_call *call, unsigned i, uint64_t value)
{
	size_t first = offsetof(struct seccomp_data, args) / 4 + 2 * (size_t)i;

	memcpy(&call->word[first], &value, sizeof(value));
	call->known[first] = call->known[first + 1] = true;
}

/* The state of a running program. */
struct machine {
	uint32_t a, x;
	uint32_t memory[BPF_MEMWORDS];
};

/* Returns false for an operation that no filter may have. */
static bool
run_operation(struct machine *m, const struct sock_filter *f)
{
	uint32_t operand = BPF_SRC(f->code) == BPF_X ? m->x : f->k;

	switch (BPF_OP(f->code)) {
	case BPF_ADD:
		m->a += operand;
		return true;
	case BPF_SUB:
		m->a -= operand;
		return true;
	case BPF_MUL:
		m->a *= operand;
		return true;
	case BPF_DIV:
		m->a = operand != 0 ? m->a / operand : 0;
		return operand != 0;
	case BPF_OR:
		m->a |= operand;
		return true;
	case BPF_AND:
		m->a &= operand;
		return true;
	case BPF_XOR:
		m->a ^= operand;
		return true;
	case BPF_LSH:
		m->a <<= operand & 31;
		return true;
	case BPF_RSH:
		m->a >>= operand & 31;
		return true;
	case BPF_NEG:
		m->a = -m->a;
		return true;
	default:
		return false;
	}
}

/* Returns false if the value is not known. */
static bool
run_load(struct machine *m, const struct sock_filter *f,
    const struct filtered_call *call, uint32_t *to)
{
	switch (BPF_MODE(f->code)) {
	case BPF_IMM:
		*to = f->k;
		return true;
	case BPF_LEN:
		*to = sizeof(struct seccomp_data);
		return true;
	case BPF_MEM:
		*to = m->memory[f->k % BPF_MEMWORDS];
		return true;
	case BPF_ABS:
		if (f->k % 4 != 0 || f->k / 4 >= DATA_WORDS ||
		    !call->known[f->k / 4])
			return false;
		*to = call->word[f->k / 4];
		return true;
	default:
		return false;
	}
}

/* Returns the number of instructions to skip. */
static size_t
run_jump(const struct machine *m, const struct sock_filter *f)
{
	uint32_t operand = BPF_SRC(f->code) == BPF_X ? m->x : f->k;
	bool holds = false;

	switch (BPF_OP(f->code)) {
	case BPF_JA:
		return f->k;
	case BPF_JEQ:
		holds = m->a == operand;
		break;
	case BPF_JGT:
		holds = m->a > operand;
		break;
	case BPF_JGE:
		holds = m->a >= operand;
		break;
	case BPF_JSET:
		holds = (m->a & operand) != 0;
		break;
	}
	return holds ? f->jt : f->jf;
}

/* Runs a program.  Returns its verdict on the call: SECCOMP_RET_*. */
static uint32_t
run_program(
    const struct sock_filter *program, size_t n, struct filtered_call *call)
{
	struct machine m = {0};

	/* It only jumps forward. */
	for (size_t i = 0; i < n; i++) {
		const struct sock_filter *f = &program[i];
		bool is_known = true;

		switch (BPF_CLASS(f->code)) {
		case BPF_LD:
			is_known = run_load(&m, f, call, &m.a);
			break;
		case BPF_LDX:
			is_known = run_load(&m, f, call, &m.x);
			break;
		case BPF_ST:
			m.memory[f->k % BPF_MEMWORDS] = m.a;
			break;
		case BPF_STX:
			m.memory[f->k % BPF_MEMWORDS] = m.x;
			break;
		case BPF_ALU:
			is_known = run_operation(&m, f);
			break;
		case BPF_JMP:
			i += run_jump(&m, f);
			break;
		case BPF_RET:
			return BPF_RVAL(f->code) == BPF_A ? m.a : f->k;
		case BPF_MISC:
			if (BPF_MISCOP(f->code) == BPF_TAX)
				m.x = m.a;
			else
				m.a = m.x;
			break;
		}
		if (!is_known)
			break;
	}
	return SECCOMP_RET_KILL_PROCESS;
}

/*
 * The calls of os_copy_process() and os_reap_copy() (vmem/os.c), of the wait
 * before them, and the only call of the copy.
 */
static bool
program_permits_copy(const struct sock_filter *program, size_t n)
{
	struct filtered_call call[] = {call_of(SYS_clone),
	    call_of(SYS_exit_group), call_of(SYS_wait4), call_of(SYS_futex)};

	set_argument(&call[0], 0, CLONE_FILES | CLONE_FS);
	for (unsigned i = 1; i < 5; i++)
		set_argument(&call[0], i, 0);
	set_argument(&call[1], 0, 0);
	set_argument(&call[2], 1, 0);
	set_argument(&call[2], 2, WNOHANG | __WCLONE);
	set_argument(&call[2], 3, 0);
	set_argument(&call[3], 1, FUTEX_WAIT | FUTEX_PRIVATE_FLAG);
	for (size_t i = 0; i < array_size(call); i++) {
		uint32_t verdict =
		    run_program(program, n, &call[i]) & SECCOMP_RET_ACTION_FULL;

		if (verdict != SECCOMP_RET_ALLOW && verdict != SECCOMP_RET_LOG)
			return false;
	}
	return true;
}

/* All filters of a thread must permit a call. */
static bool
thread_permits_copy(int tid)
{
	static struct sock_filter program[BPF_MAXINSNS];

	for (long i = 0;; i++) {
		long n;

		errno = 0;
		n = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, i, NULL);
		if (n < 0)
			return i > 0 && errno == ENOENT;
		if (n > BPF_MAXINSNS ||
		    ptrace(PTRACE_SECCOMP_GET_FILTER, tid, i, program) != n ||
		    !program_permits_copy(program, (size_t)n))
			return false;
	}
}

bool
live_filters_permit_copy(const struct target *target)
{
	long mode = live_status(target->pid, "Seccomp");

	if (mode != SECCOMP_MODE_FILTER)
		return mode == SECCOMP_MODE_DISABLED;
	for (size_t i = 0; i < target->nthreads; i++)
		if (!target->threads[i].stopped ||
		    !thread_permits_copy(target->threads[i].tid))
			return false;
	return true;
}
