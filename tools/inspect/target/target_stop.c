/*
 * target_stop.c - stops the threads of a live process, and lets them go
 *
 * The command stops every thread by PTRACE_SEIZE and PTRACE_INTERRUPT, in
 * rounds until a round finds no new thread.  It changes nothing in the process,
 * and sends no signal that the process could see.  If a signal arrives at that
 * moment, the thread reports the signal instead of the stop; the command
 * delivers the signal when the thread continues.  However this command ends,
 * the kernel resumes every thread.
 *
 * A thread that is in the kernel and cannot be stopped there (a parent in
 * vfork(), a broken disk) does not run.  The command waits for it for a limited
 * time and then ignores it.  A thread that could run but gets no processor may
 * run at any moment, so without its stop nothing is read.
 *
 * A thread stands still from its PTRACE_INTERRUPT to its PTRACE_DETACH, and
 * each call takes its time in a process with thousands of threads.  Therefore
 * all threads are seized first, which does not stop them.  They are interrupted
 * from the last to the first, and let go from the first to the last: the first
 * thread, which often runs the event loop, stands still for the shortest time.
 * Registers are read only if the caller needs them (enum hold).
 */
#include <assert.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/inspect/base/clock.h"
#include "tools/inspect/target/target.h"

/* How long a thread may take to stop, and how long to get a processor. */
#define STOP_SECONDS    2.0
#define STARVED_SECONDS 10.0

/*
 * Is the thread among the first n?  The kernel lists threads in an order that
 * stays, so *next, the index after the one found last, is tried first.
 */
static bool
is_seized(const struct target *target, size_t n, int tid, size_t *next)
{
	size_t i = *next;

	if (i >= n || target->threads[i].tid != tid)
		for (i = 0; i < n && target->threads[i].tid != tid;)
			i++;
	if (i == n)
		return false;
	*next = i + 1;
	return true;
}

/* Does nothing if the thread has ended meanwhile. */
static void
thread_seize(struct target *target, int tid)
{
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) != 0) {
		if (errno == ESRCH)
			return;
		/* The kernel refuses a thread that has ended, too. */
		if (errno == EPERM &&
		    (target->nthreads != 0 || tid != target->reader))
			return;
		live_fail_permission(target);
	}
	ARRAY_ADD(target->threads, target->nthreads, target->threads_capacity,
	    (struct thread){.tid = tid});
}

/* Seizes and interrupts new threads, and returns their number. */
static size_t
seize_round(struct target *target)
{
	size_t before = target->nthreads, next = 0;
	struct dirent *entry;
	DIR *dir = opendir(proc_path(target->pid, "task"));

	if (dir == NULL)
		live_fail_gone(target);
	while ((entry = readdir(dir)) != NULL) {
		int tid = (int)strtol(entry->d_name, NULL, 10);

		if (tid > 0 && !is_seized(target, before, tid, &next))
			thread_seize(target, tid);
	}
	closedir(dir);
	for (size_t i = target->nthreads; i-- > before;)
		ptrace(PTRACE_INTERRUPT, target->threads[i].tid, NULL, NULL);
	return target->nthreads - before;
}

/* Is the thread in the state R, or unknown, as just before its end? */
static bool
may_run(int tid)
{
	char text[256];

	return proc_read(tid, "stat", text, sizeof(text)) == 0 ||
	       strstr(text, ") R ") != NULL;
}

/* Returns false if the thread has ended. */
static bool
thread_wait(struct thread *thread, double until)
{
	int status;

	for (;;) {
		/* Before the call, because the thread may stop behind it. */
		bool sleeps = seconds_now() > until && !may_run(thread->tid);
		int got = waitpid(thread->tid, &status, __WALL | WNOHANG);

		if (got < 0 || (got > 0 && !WIFSTOPPED(status)))
			return false;
		if (got > 0) {
			thread->stopped = true;
			if (status >> 16 == 0)
				thread->signal = WSTOPSIG(status);
			return true;
		}
		if (seconds_now() > until + STARVED_SECONDS)
			fail_with(EXIT_ERROR,
			    "thread %d gets no processor, so it cannot stop; "
			    "try again",
			    thread->tid);
		if (sleeps)
			return true;
		usleep(50);
	}
}

/* Waits in the order in which the threads were interrupted. */
static void
threads_wait(struct target *target)
{
	double until = seconds_now() + STOP_SECONDS;
	size_t n = 0;

	for (size_t i = target->nthreads; i-- > 0;) {
		struct thread *thread = &target->threads[i];

		if (!thread->stopped && !thread_wait(thread, until))
			thread->tid = 0;
	}
	for (size_t i = 0; i < target->nthreads; i++)
		if (target->threads[i].tid != 0)
			target->threads[n++] = target->threads[i];
	target->nthreads = n;
}

static int
words_get(int tid, unsigned long set, uint64_t *to, size_t capacity)
{
	struct iovec io = {to, capacity * sizeof(*to)};

	if (ptrace(PTRACE_GETREGSET, tid, (void *)set, &io) != 0)
		return 0;
	return (int)(io.iov_len / sizeof(*to));
}

void
live_read_thread(struct thread *thread, bool all)
{
	static uint64_t words[4096];
	size_t n = (size_t)words_get(thread->tid, NT_PRSTATUS, words, 64);
	int more = 0;

	if (n <= REGISTER_PC)
		return;
	thread->stopped = true;
	thread->sp = words[REGISTER_SP];
	thread->pc = words[REGISTER_PC];
#ifdef REGISTER_TP
	thread->tp = words[REGISTER_TP];
#else
	uint64_t masks[2]; /* of data addresses and of code addresses */

	words_get(thread->tid, NT_ARM_TLS, &thread->tp, 1);
	if (words_get(thread->tid, NT_ARM_PAC_MASK, masks, 2) == 2)
		thread->signature = masks[1];
#endif
	/* During a copy, a pointer may be in a vector register only. */
	if (all)
		more = words_get(thread->tid, REGISTERS_WIDE, words + n, 4000);
	if (all && more == 0)
		more = words_get(thread->tid, NT_PRFPREG, words + n, 1000);
	n += (size_t)more;
	assert(n <= array_size(words) && thread->words == NULL);
	thread->words = xalloc(n * sizeof(*words));
	memcpy(thread->words, words, n * sizeof(*words));
	thread->nwords = n;
}

static void
threads_read(struct target *target, bool all)
{
	for (size_t i = 0; i < target->nthreads; i++) {
		struct thread *thread = &target->threads[i];

		if (thread->stopped)
			live_read_thread(thread, all);
		else
			print_warning(
			    "%s: thread %d does not stop; its registers are "
			    "not known",
			    target->name, thread->tid);
	}
}

static void
threads_detach(struct target *target)
{
	for (size_t i = 0; i < target->nthreads; i++)
		ptrace(PTRACE_DETACH, target->threads[i].tid, NULL,
		    (void *)(intptr_t)target->threads[i].signal);
}

void
live_hold(struct target *target, enum hold what)
{
	live_open_memory(target);
	target->stopped_at = seconds_now();
	for (size_t i = 0; i < target->nthreads; i++)
		free(target->threads[i].words);
	target->nthreads = 0;
	while (seize_round(target) != 0)
		threads_wait(target);
	if (target->nthreads == 0)
		live_fail_gone(target);
	assert(!target->held);
	if (!live_is_same_program(target)) {
		threads_detach(target);
		fail_with(EXIT_ERROR,
		    "%s: the process has begun another program meanwhile",
		    target->name);
	}
	alloc_bound_by(target_resident(target));
	if (what == HOLD_ONLY)
		return;
	threads_read(target, what == HOLD_REGISTERS);
	live_read_maps(target);
}

void
live_release(struct target *target)
{
	assert(target->held && target->nthreads != 0);
	threads_detach(target);
}
