/*
 * A tracer makes every memory system call of a run fail in turn, alone or with
 * the next few calls.  malloc() returns NULL with ENOMEM or works around the
 * failure, free() never fails nor changes errno, and after the burst the next
 * allocation succeeds.
 *
 * test no stderr: .
 * test not with: qemu has no ptrace()
 */
#include <elf.h>
#include <malloc.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "tests/programs/check.h"

enum {
	NBLOCKS = 60,
	NOPS = 1500,
	SIGNAL_OVER = SIGUSR1
};
static volatile sig_atomic_t over;

static void
on_over(int signal)
{
	(void)signal;
	over = 1;
}

struct block {
	char *p;
	size_t n;
	uint64_t mark;
};

static void
step(struct block *b, uint64_t *r)
{
	size_t n = next_random(r) % (8 * MIB) >> next_random(r) % 23;
	bool safe = over;
	char *p;

	errno = 0;
	if (b->p != NULL && next_random(r) % 3 == 0) {
		p = realloc(b->p, n + 1);
		check(p != NULL || (errno == ENOMEM && !safe));
		if (p == NULL) {
			check(is_stamped(b->p, b->n, b->mark));
			return;
		}
		check(is_stamped(p, b->n < ++n ? b->n : n, b->mark));
	} else {
		check(b->p == NULL || is_stamped(b->p, b->n, b->mark));
		errno = 4321;
		free(b->p);
		check(errno == 4321);
		b->p = NULL;
		p = next_random(r) % 2 == 0 ? malloc(n) : calloc(n, 1);
		check(p != NULL || (errno == ENOMEM && !safe));
		if (p == NULL)
			return;
	}
	b->p = p;
	b->n = n;
	b->mark = *r;
	stamp(p, n, b->mark);
}

static void
work(void)
{
	static struct block block[NBLOCKS];
	uint64_t r = 4711;

	for (int i = 0; i < NOPS; i++) {
		step(&block[next_random(&r) % NBLOCKS], &r);
		if (i % 300 == 299) {
			errno = 77;
			malloc_trim(0);
			check(errno == 77);
		}
	}
	for (int i = 0; i < NBLOCKS; i++) {
		errno = 78;
		free(block[i].p);
		check(errno == 78);
	}
}

static bool
is_memory_call(uint64_t number)
{
	return number == SYS_mmap || number == SYS_munmap ||
	       number == SYS_mprotect || number == SYS_madvise ||
	       number == SYS_mremap || number == SYS_brk ||
	       number == SYS_membarrier;
}

static pid_t
traced_child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		/* Memory that was there already would avoid the calls. */
		check(signal(SIGNAL_OVER, on_over) != SIG_ERR);
		check(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
		raise(SIGSTOP);
		work();
		_exit(0);
	}
	return pid;
}

/* At the entry of a call: turn it into one that fails with ENOSYS. */
static void
spoil(pid_t pid)
{
#ifdef __x86_64__
	check(ptrace(PTRACE_POKEUSER, pid, 15 * 8, (void *)-1L) == 0);
#else
	int no = -1;
	struct iovec part = {&no, sizeof(no)};

	check(ptrace(PTRACE_SETREGSET, pid, NT_ARM_SYSTEM_CALL, &part) == 0);
#endif
}

/* At its exit: the error that it is to have. */
static void
set_error(pid_t pid, long error)
{
#ifdef __x86_64__
	check(ptrace(PTRACE_POKEUSER, pid, 10 * 8, (void *)-error) == 0);
#else
	uint64_t x[34];
	struct iovec part = {x, sizeof(x)};

	check(ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &part) == 0);
	x[0] = (uint64_t)-error;
	check(ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &part) == 0);
#endif
}

/*
 * Calls first to first + n - 1 of the child fail.  Returns how many there
 * were in its life.
 */
static unsigned
run(unsigned first, unsigned n)
{
	pid_t pid = traced_child();
	unsigned count = 0;
	bool spoilt = false;
	int deliver = 0;
	int status;

	check(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	if (ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD) != 0)
		skip("no ptrace here");
	for (;;) {
		struct __ptrace_syscall_info info;

		check(ptrace(PTRACE_SYSCALL, pid, 0, deliver) == 0);
		deliver = 0;
		check(waitpid(pid, &status, 0) == pid);
		if (!WIFSTOPPED(status))
			break;
		if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
			deliver = WSTOPSIG(status);
			continue;
		}
		check(ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info),
			  &info) > 0);
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY &&
		    is_memory_call(info.entry.nr)) {
			count++;
			spoilt = count >= first && count < first + n;
			if (spoilt)
				spoil(pid);
		} else if (info.op == PTRACE_SYSCALL_INFO_EXIT && spoilt) {
			spoilt = false;
			set_error(pid, ENOMEM);
			if (count + 1 == first + n)
				deliver = SIGNAL_OVER;
		}
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		fprintf(stderr, "calls %u to %u failing: status %x\n", first,
		    first + n - 1, status);
		check(false);
	}
	return count;
}

int
main(void)
{
	unsigned n = run(0, 0);
	uint64_t end = now_ms() + 3000;

	check(n > 20);
	for (unsigned i = 1; i <= n && now_ms() < end; i++)
		run(i, 1);
	for (unsigned i = 1; i <= n && now_ms() < end + 1500; i += 3)
		run(i, 2 + i % 7);
	run(1, 1000000);
	return 0;
}
