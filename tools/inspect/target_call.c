/*
 * target_call.c - a process with one thread, read while it waits in a system
 * call
 *
 * Nobody makes a copy of such a process (target_copy.c), because its thread
 * does not call the library.  But its memory stays as it is until the call
 * returns.  So this file lets the stopped thread continue until it waits in a
 * call, and has the kernel stop it when the call returns (PTRACE_SYSCALL).  The
 * command reads the memory meanwhile, and lets the thread go at the end.
 *
 * If the call returns before that, the thread is stopped, and the command may
 * read on for LATE_SECONDS.  Then the call is lost: the command lets the thread
 * go, and must begin again.
 *
 * A signal ends the wait, too.
 *
 * The registers are read twice, when the thread enters the call and when it is
 * stopped at the end, because on aarch64 the first have a wrong x7.
 */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/inspect/target.h"

/* How long to search for a call that waits, and how long it has waited then. */
#define SEARCH_SECONDS 0.05
#define WAIT_SECONDS   0.002

/* How long a thread may stand still whose call has returned. */
#define LATE_SECONDS 0.05

/* How long a thread may take to stop. */
#define STOP_SECONDS 2.0
#define POLL_US      50

/* WSTOPSIG() at the begin and at the end of a call. */
#define CALL_SIGNAL (SIGTRAP | 0x80)

/* Waits for a stop of the thread.  Returns false if there is none by then. */
static bool
thread_stops(struct target *target, double until, int *status)
{
	int got;

	while ((got = waitpid(
		    target->threads[0].tid, status, __WALL | WNOHANG)) == 0) {
		if (seconds_now() >= until)
			return false;
		usleep(POLL_US);
	}
	if (got < 0 || !WIFSTOPPED(*status))
		live_fail_gone(target);
	return true;
}

/* Is the thread asleep, so that it changes no memory? */
static bool
is_asleep(const struct target *target)
{
	char path[64], text[512];
	const char *state;
	size_t n;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", target->threads[0].tid);
	file = fopen(path, "r");
	if (file == NULL)
		return false;
	n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[n] = '\0';
	/* The name before it may have any characters. */
	state = strrchr(text, ')');
	return state != NULL && strncmp(state, ") S", 3) == 0;
}

/* Is this no stop for a call?  Then it notes the signal and the registers. */
static bool
is_ordinary_stop(struct target *target, int status)
{
	struct thread *thread = &target->threads[0];

	if (status >> 16 == 0 && WSTOPSIG(status) == CALL_SIGNAL)
		return false;
	thread->signal = status >> 16 == 0 ? WSTOPSIG(status) : 0;
	live_read_thread(target, thread);
	return true;
}

/*
 * Stops the thread outside of a call.  is_stopped: it is stopped for a call.  A
 * stop for a call takes the place of one by PTRACE_INTERRUPT.
 */
static void
thread_stop(struct target *target, bool is_stopped)
{
	struct thread *thread = &target->threads[0];
	double until = seconds_now() + STOP_SECONDS;
	int status;

	do {
		ptrace(PTRACE_INTERRUPT, thread->tid, NULL, NULL);
		if (is_stopped)
			ptrace(PTRACE_CONT, thread->tid, NULL, NULL);
		is_stopped = thread_stops(target, until, &status);
	} while (is_stopped && !is_ordinary_stop(target, status));
}

void
target_await_call(struct target *target)
{
	struct thread *thread = &target->threads[0];
	double until = seconds_now() + SEARCH_SECONDS;
	bool is_inside = false, is_stopped = true;
	int status;

	assert(target->held && !target->borrowed && !target->call.awaited);
	if (target->nthreads != 1 || !thread->stopped || thread->signal != 0 ||
	    ptrace(PTRACE_SETOPTIONS, thread->tid, NULL,
		(void *)PTRACE_O_TRACESYSGOOD) != 0)
		return;
	while (seconds_now() < until) {
		ptrace(PTRACE_SYSCALL, thread->tid, NULL, NULL);
		is_stopped = thread_stops(target,
		    is_inside ? seconds_now() + WAIT_SECONDS : until, &status);
		if (!is_stopped && is_inside && is_asleep(target)) {
			target_note_pause(target);
			target->call.awaited = target->call.was_used = true;
			return;
		}
		if (!is_stopped)
			break;
		if (is_ordinary_stop(target, status))
			return;
		is_inside = !is_inside;
		live_read_thread(target, thread);
	}
	thread_stop(target, is_stopped);
}

void
call_check(struct target *target)
{
	struct call *call = &target->call;

	if (!call->awaited)
		return;
	if (!call->returned) {
		call->returned =
		    thread_stops(target, /* until */ 0, &call->status);
		target->stopped_at = seconds_now();
	}
	if (call->returned && seconds_now() - target->stopped_at > LATE_SECONDS)
		__atomic_store_n(&call->lost, true, __ATOMIC_RELAXED);
}

void
call_end(struct target *target)
{
	struct call *call = &target->call;

	call_check(target);
	if (!call->awaited)
		return;
	call->awaited = false;
	if (!call->returned || !is_ordinary_stop(target, call->status))
		thread_stop(target, call->returned);
}
