/*
 * filters.c - does umem run the programs of filters as the kernel does?
 *
 * Random programs decide about a call in this process, by target_filter.c, and
 * in a child, as its filter.  The last instructions of a program make an error
 * number of the accumulator, so that the child sees its value.  A division by
 * zero ends the child.
 */
#include "tools/inspect/target_filter.c"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/programs/check.h"

enum {
	PROGRAMS = 1500,
	BODY = 30, /* random instructions of a program */
	CELLS = 3, /* words of memory that it uses */
	PROBE = SYS_getppid
};

/* target_filter.c calls it for filters of processes. */
long
live_status(int pid, const char *key)
{
	abort();
}

struct program {
	struct sock_filter code[BODY + 30];
	size_t n;
};

static void
add(struct program *p, unsigned code, uint32_t k, size_t jt, size_t jf)
{
	p->code[p->n++] =
	    (struct sock_filter){(uint16_t)code, (uint8_t)jt, (uint8_t)jf, k};
}

/* Returns a number below n.  Each run has the same numbers. */
static uint32_t
dice(uint32_t n)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005 + 1442695040888963407;
	return (uint32_t)(state >> 33) % n;
}

/* Returns an index of struct seccomp_data: not one of the address. */
static uint32_t
known_word(void)
{
	const uint32_t first = offsetof(struct seccomp_data, args) / 4;
	uint32_t word = dice(2 + DATA_WORDS - first);

	return word < 2 ? word : word - 2 + first;
}

/* Returns a number with which comparisons and operations are of interest. */
static uint32_t
operand(const struct filtered_call *call)
{
	switch (dice(3)) {
	case 0:
		return call->word[known_word()];
	case 1:
		return dice(40);
	default:
		return UINT32_MAX >> dice(32);
	}
}

static void
add_load(struct program *p, const struct filtered_call *call)
{
	unsigned to = dice(2) ? BPF_LD : BPF_LDX;

	switch (dice(6)) {
	case 0:
		add(p, to | BPF_IMM, operand(call), 0, 0);
		break;
	case 1:
		add(p, to | BPF_W | BPF_LEN, 0, 0, 0);
		break;
	case 2:
		add(p, to | BPF_MEM, dice(CELLS), 0, 0);
		break;
	default:
		add(p, BPF_LD | BPF_W | BPF_ABS, 4 * known_word(), 0, 0);
		break;
	}
}

static void
add_operation(struct program *p, const struct filtered_call *call)
{
	static const unsigned all[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV,
	    BPF_OR, BPF_AND, BPF_XOR, BPF_LSH, BPF_RSH};
	unsigned operation = all[dice(array_size(all))];
	uint32_t k = operand(call);

	if (dice(12) == 0) {
		add(p, BPF_ALU | BPF_NEG, 0, 0, 0);
		return;
	}
	if (operation == BPF_DIV && k == 0)
		k = 1;
	if (operation == BPF_LSH || operation == BPF_RSH)
		k %= 32;
	add(p,
	    BPF_ALU | operation |
		(dice(operation == BPF_DIV ? 8 : 2) ? BPF_K : BPF_X),
	    k, 0, 0);
}

static void
add_jump(struct program *p, const struct filtered_call *call, uint32_t left)
{
	static const unsigned all[] = {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET};

	if (dice(10) == 0)
		add(p, BPF_JMP | BPF_JA, dice(left + 1), 0, 0);
	else
		add(p,
		    BPF_JMP | all[dice(array_size(all))] |
			(dice(2) ? BPF_K : BPF_X),
		    operand(call), dice(left + 1), dice(left + 1));
}

static struct program
make_program(const struct filtered_call *call)
{
	struct program p = {.n = 0};
	size_t end;

	/* Other calls of the child are permitted. */
	add(&p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0,
	    0);
	add(&p, BPF_JMP | BPF_JEQ | BPF_K, PROBE, 1, 0);
	add(&p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
	/* The kernel refuses programs that may read memory before a store. */
	for (uint32_t i = 0; i < CELLS; i++)
		add(&p, BPF_ST, i, 0, 0);
	for (end = p.n + BODY; p.n < end;) {
		switch (dice(9)) {
		case 0:
		case 1:
		case 2:
			add_load(&p, call);
			break;
		case 3:
			add(&p, dice(2) ? BPF_ST : BPF_STX, dice(CELLS), 0, 0);
			break;
		case 4:
		case 5:
			add_operation(&p, call);
			break;
		case 6:
		case 7:
			add_jump(&p, call, (uint32_t)(end - p.n - 1));
			break;
		default:
			add(&p, BPF_MISC | (dice(2) ? BPF_TAX : BPF_TXA), 0, 0,
			    0);
			break;
		}
	}
	/* An error number has at most 12 bits; every bit takes part. */
	for (int i = 0; i < 2; i++) {
		add(&p, BPF_MISC | BPF_TAX, 0, 0, 0);
		add(&p, BPF_ALU | BPF_RSH | BPF_K, 11, 0, 0);
		add(&p, BPF_ALU | BPF_XOR | BPF_X, 0, 0, 0);
	}
	add(&p, BPF_ALU | BPF_AND | BPF_K, 0x7ff, 0, 0);
	add(&p, BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO, 0, 0);
	add(&p, BPF_RET | BPF_A, 0, 0, 0);
	return p;
}

static uint32_t
kernel_verdict(struct program *p, const uint64_t *argument, int *got)
{
	struct sock_fprog program = {(unsigned short)p->n, p->code};
	pid_t child;
	int status;

	*got = -1;
	child = fork();
	check(child >= 0);
	if (child == 0) {
		long r;

		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
		    syscall(
			SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
			_exit(errno == ENOSYS ? 77 : 1);
		r = syscall(PROBE, argument[0], argument[1], argument[2],
		    argument[3], argument[4], argument[5]);
		*got = r == 0 ? 0 : errno;
		_exit(0);
	}
	check(waitpid(child, &status, 0) == child);
	if (WIFSIGNALED(status))
		return SECCOMP_RET_KILL_PROCESS;
	if (WEXITSTATUS(status) == 77)
		skip("the kernel has no filters");
	check(status == 0 && *got >= 0);
	return SECCOMP_RET_ERRNO | (uint32_t)*got;
}

static void
compare_with_kernel(void)
{
	int *got = mmap(NULL, sizeof(*got), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned nkilled = 0;

	check(got != MAP_FAILED);
	for (int i = 0; i < PROGRAMS; i++) {
		struct filtered_call call = call_of(PROBE);
		uint64_t argument[6];
		struct program p;
		uint32_t verdict, want;

		for (unsigned k = 0; k < 6; k++) {
			argument[k] = (uint64_t)(UINT32_MAX >> dice(32)) << 32 |
				      dice(40) | (uint64_t)dice(2) << 31;
			set_argument(&call, k, argument[k]);
		}
		p = make_program(&call);
		verdict = run_program(p.code, p.n, &call);
		want = kernel_verdict(&p, argument, got);
		if (verdict != want) {
			printf("program %d: %x instead of %x:\n", i, verdict,
			    want);
			for (size_t at = 0; at < p.n; at++)
				printf("%zu: %04x %u %u %x\n", at,
				    p.code[at].code, p.code[at].jt,
				    p.code[at].jf, p.code[at].k);
			exit(1);
		}
		nkilled += want == SECCOMP_RET_KILL_PROCESS;
	}
	check(nkilled > 0 && nkilled < PROGRAMS / 2);
}

/* Begins a program whose next instruction is for this call only. */
static struct program
program_for(int number)
{
	struct program p = {.n = 0};

	add(&p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0,
	    0);
	add(&p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1);
	return p;
}

/* Is a copy permitted if this call has this verdict, and others are allowed? */
static bool
permits(int number, uint32_t verdict)
{
	struct program p = program_for(number);

	add(&p, BPF_RET | BPF_K, verdict, 0, 0);
	add(&p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
	return program_permits_copy(p.code, p.n);
}

/* The same, if the program reads a word for this call before it allows it. */
static bool
permits_if_read(int number, size_t offset)
{
	struct program p = program_for(number);

	add(&p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
	add(&p, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
	return program_permits_copy(p.code, p.n);
}

int
main(void)
{
	static const int calls[] = {
	    SYS_clone, SYS_exit_group, SYS_wait4, SYS_futex};
	static const uint32_t refusals[] = {SECCOMP_RET_KILL_PROCESS,
	    SECCOMP_RET_KILL_THREAD, SECCOMP_RET_TRAP,
	    SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_TRACE};

	compare_with_kernel();
	for (size_t i = 0; i < array_size(calls); i++) {
		for (size_t k = 0; k < array_size(refusals); k++)
			check(!permits(calls[i], refusals[k]));
		check(permits(calls[i], SECCOMP_RET_LOG));
		check(permits_if_read(
		    calls[i], offsetof(struct seccomp_data, arch)));
		check(!permits_if_read(calls[i],
		    offsetof(struct seccomp_data, instruction_pointer)));
	}
	check(permits(PROBE, SECCOMP_RET_KILL_PROCESS));
	/* A process number, addresses, and an argument that is ignored. */
	check(!permits_if_read(
	    SYS_wait4, offsetof(struct seccomp_data, args[0])));
	check(!permits_if_read(
	    SYS_futex, offsetof(struct seccomp_data, args[0])));
	check(!permits_if_read(
	    SYS_futex, offsetof(struct seccomp_data, args[5])));
	check(
	    permits_if_read(SYS_futex, offsetof(struct seccomp_data, args[1])));
	return 0;
}
