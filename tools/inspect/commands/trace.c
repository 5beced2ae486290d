/*
 * trace.c - run a program and inspect it when it ends
 *
 * The program is a traced child of this command.  Tracing stops it for each
 * thread that it creates, for each signal, and at its end, and costs nothing
 * otherwise.  Every thread that ends stops first, while its memory and
 * registers still exist.  If the whole process is ending (exit() in any thread,
 * a fatal signal), the kernel kills every other thread.  The command then waits
 * until all threads have stopped in this way, inspects them, and lets them end.
 *
 * After an exec, the command inspects the new program.  Children of the program
 * are not traced.
 */
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/inspect/commands/report.h"
#include "tools/inspect/commands/trace.h"
#include "tools/inspect/model/snapshot.h"

/* Maximum time until the system call of a thread is known, in ms. */
#define EXEC_POLLS 100

#define TRACE_OPTIONS                                                          \
	(PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT)

struct traced {
	int tid;
	bool ends; /* it is stopped at its end */
};

static struct traced *threads;
static size_t nthreads, threads_capacity;
static int child;
static bool ending;
static bool started; /* the child has executed the program */

static struct traced *
thread_find(int tid)
{
	for (size_t i = 0; i < nthreads; i++)
		if (threads[i].tid == tid)
			return &threads[i];
	return NULL;
}

static struct traced *
thread_add(int tid)
{
	struct traced *thread = thread_find(tid);

	if (thread != NULL)
		return thread;
	ARRAY_ADD(
	    threads, nthreads, threads_capacity, (struct traced){.tid = tid});
	return &threads[nthreads - 1];
}

static void
thread_remove(int tid)
{
	struct traced *thread = thread_find(tid);

	if (thread != NULL)
		*thread = threads[--nthreads];
}

static void
thread_continue(int tid, int signal)
{
	ptrace(PTRACE_CONT, tid, NULL, (void *)(intptr_t)signal);
}

/* Returns the system call of the stopped thread; -1: none. */
static long
syscall_of(int tid)
{
#if defined(__x86_64__)
	struct user_regs_struct registers;
	struct iovec io = {&registers, sizeof(registers)};

	if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &io) != 0)
		return -1;
	return (long)registers.orig_rax;
#else
	int number = -1;
	struct iovec io = {&number, sizeof(number)};

	if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_ARM_SYSTEM_CALL, &io) != 0)
		return -1;
	return number;
#endif
}

/* Is a running thread in exec()?  It then waits for the other threads. */
static bool
is_in_exec(int tid)
{
	char line[64];

	for (int i = 0; i < EXEC_POLLS; i++) {
		if (proc_read(tid, "syscall", line, sizeof(line)) == 0)
			return false;
		if (strncmp(line, "running", 7) != 0) {
			long number = strtol(line, NULL, 10);

			return number == SYS_execve || number == SYS_execveat;
		}
		usleep(1000);
	}
	return false;
}

/*
 * A thread is at its end.  Is the process ending, too?  Yes, if the thread
 * called exit_group(), or if it is killed, but not because of another thread's
 * exec().
 */
static bool
process_ends(int tid)
{
	long number = syscall_of(tid);

	assert(thread_find(tid) != NULL);
	if (number == SYS_exit_group || nthreads == 1)
		return true;
	if (number == SYS_exit)
		return false;
	for (size_t i = 0; i < nthreads; i++)
		if (!threads[i].ends && is_in_exec(threads[i].tid))
			return false;
	return true;
}

static bool
all_stand(void)
{
	for (size_t i = 0; i < nthreads; i++)
		if (!threads[i].ends)
			return false;
	return true;
}

/* Inspects the program.  Standard output belongs to the program. */
static int
report_child(const struct trace_options *options)
{
	struct report_options leaks = {.of_leaks = true, .details = true};
	struct target *target = target_of_child(child);
	struct model *model;
	int found = EXIT_OK;

	assert(nthreads != 0 && all_stand());
	for (size_t i = 0; i < nthreads; i++)
		target_read_thread(target, threads[i].tid);
	live_read_maps(target);
	model = snapshot_take(target, layout_find(target),
	    (options->leaks ? MODEL_POINTERS : 0) |
		(options->verify ? MODEL_MEMORY : 0));
	fflush(stdout);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	if (options->stat)
		stat_report(model);
	if (options->leaks)
		found = report_print(model, &leaks);
	/* Last, where it is not overlooked. */
	if (options->verify &&
	    verify_report(model, /* tell_clean */ false) != 0)
		found = EXIT_FOUND;
	fflush(stdout);
	return found;
}

/* Inspects the program; if that fails, the program must still end. */
static int
look_safely(const struct trace_options *options)
{
	static jmp_buf back;
	int status = setjmp(back);

	assert(status != 0 || fail_target == NULL);
	if (status != 0) {
		fail_target = NULL;
		return status;
	}
	fail_target = &back;
	status = report_child(options);
	fail_target = NULL;
	return status;
}

static void
took_clone(int tid)
{
	unsigned long new = 0;

	if (ptrace(PTRACE_GETEVENTMSG, tid, NULL, &new) != 0)
		return;
	if (live_status((int)new, "Tgid") == child)
		thread_add((int)new);
	else
		ptrace(PTRACE_DETACH, (int)new, NULL, NULL);
}

static void
took_stop(int tid, int signal)
{
	bool group = signal == SIGSTOP || signal == SIGTSTP ||
		     signal == SIGTTIN || signal == SIGTTOU;

	if (live_status(tid, "Tgid") != child) {
		ptrace(PTRACE_DETACH, tid, NULL, NULL);
		return;
	}
	thread_add(tid);
	ptrace(group ? PTRACE_LISTEN : PTRACE_CONT, tid, NULL, NULL);
}

/* Handles a thread that is stopped at its end. */
static void
took_end(int tid, const struct trace_options *options, int *found)
{
	thread_add(tid)->ends = true;
	ending = ending || process_ends(tid);
	if (!ending || !started) {
		thread_remove(tid);
		thread_continue(tid, 0);
		return;
	}
	if (!all_stand())
		return;
	*found = look_safely(options);
	for (size_t i = 0; i < nthreads; i++)
		thread_continue(threads[i].tid, 0);
}

static void
handle_stop(
    int tid, int status, const struct trace_options *options, int *found)
{
	switch (status >> 16) {
	case PTRACE_EVENT_CLONE:
		took_clone(tid);
		thread_continue(tid, 0);
		break;
	case PTRACE_EVENT_EXEC:
		nthreads = 0;
		started = true;
		thread_add(tid);
		thread_continue(tid, 0);
		break;
	case PTRACE_EVENT_EXIT:
		took_end(tid, options, found);
		break;
	case PTRACE_EVENT_STOP:
		took_stop(tid, WSTOPSIG(status));
		break;
	default:
		thread_continue(tid, WSTOPSIG(status));
	}
}

static void
pass_on(int signal)
{
	kill(child, signal);
}

static void
start_child(void (*exec_program)(char **), char **arguments)
{
	int status;

	assert(nthreads == 0);
	child = fork();
	if (child < 0)
		fail_with(EXIT_ERROR, "run: fork: %s", strerror(errno));
	if (child == 0) {
		raise(SIGSTOP);
		exec_program(arguments);
	}
	/* The program receives signals of the terminal itself. */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	signal(SIGTERM, pass_on);
	signal(SIGHUP, pass_on);
	if (waitpid(child, &status, WUNTRACED) != child ||
	    ptrace(PTRACE_SEIZE, child, NULL, (void *)TRACE_OPTIONS) != 0) {
		int error = errno;

		kill(child, SIGKILL);
		fail_with(EXIT_ERROR, "run: cannot trace the program: %s",
		    strerror(error));
	}
	thread_add(child);
	kill(child, SIGCONT);
}

int
trace_run(const struct trace_options *options, void (*exec_program)(char **),
    char **arguments)
{
	int found = EXIT_OK, status = 0;

	assert(options->leaks || options->stat);
	start_child(exec_program, arguments);
	for (;;) {
		int tid = waitpid(-1, &status, __WALL);

		if (tid < 0 && errno == EINTR)
			continue;
		if (tid < 0)
			fail_with(EXIT_ERROR, "run: wait: %s", strerror(errno));
		if (WIFSTOPPED(status)) {
			handle_stop(tid, status, options, &found);
			continue;
		}
		thread_remove(tid);
		if (tid == child)
			break;
	}
	if (WIFSIGNALED(status))
		return 128 + WTERMSIG(status);
	return WEXITSTATUS(status) ? WEXITSTATUS(status) : found;
}
