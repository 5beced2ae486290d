/*
 * target_copy.c - a copy of the process, which the library makes on request
 *
 * A search reads all memory of the process.  If the process were stopped during
 * that time, a large server would stand still for seconds.  Therefore the
 * library's upkeep thread makes a copy of the process as fork() does
 * (umem/upkeep/snapshot.c), and this command reads the copy while the process
 * runs.  A process without such a thread, or with a filter of system calls, is
 * stopped.
 *
 * The process is stopped twice: for a moment, to write the request, and for as
 * long as the kernel takes to copy the page tables, which is some 10 ms for
 * each GiB in pages of 4 KiB.  In the second stop only the thread that makes
 * the copy runs.  Because this command traces that thread, the kernel stops
 * the copy before its first instruction and has it traced, too.
 *
 * Memory that the copy does not have for itself, or lacks (shared mappings,
 * MADV_DONTFORK), is copied in the second stop.
 *
 * A page takes memory twice when the process changes it.  If memory runs out,
 * the kernel first ends the copy: its oom_score_adj is 1000.  Because some
 * groups are set to be killed as a whole (memory.oom.group), this command makes
 * no copy if the groups of the process have little memory left, and ends the
 * copy when little is left.
 */
#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/inspect/base/clock.h"
#include "tools/inspect/base/memory.h"
#include "tools/inspect/target/target.h"

/* How long the library may take to get ready, and to make the copy. */
#define READY_SECONDS 0.6
#define COPY_SECONDS  5.0
#define POLL_US       200

/* While the copy exists, the process has at least so much memory left. */
#define LEFT_MIN      (16 * MIB)
#define CHECK_SECONDS 0.2

static uint32_t
request_state(struct target *target, const struct copy_request *request)
{
	uint32_t state = request->none;

	live_peek(target, request->state_at, &state, sizeof(state));
	return state;
}

static bool
set_state(
    struct target *target, const struct copy_request *request, uint32_t state)
{
	return live_poke(target, request->state_at, &state, sizeof(state));
}

/*
 * Has a thread a filter of system calls (seccomp)?  It may end the process for
 * one of the calls by which the library makes and releases a copy.
 */
static bool
has_filter(int tid)
{
	return live_status(tid, "Seccomp") > 0;
}

/* Takes the request back if no thread has taken it. */
static void
take_back(struct target *target, const struct copy_request *request)
{
	target_hold(target, HOLD_ONLY);
	if (request_state(target, request) == request->asked)
		set_state(target, request, request->none);
	target_release(target);
}

bool
target_ask_copy(struct target *target, const struct copy_request *request)
{
	double until = seconds_now() + READY_SECONDS;
	uint32_t state, word;
	bool is_asked = true;

	assert(target->live && !target->held && target->made == NULL);
	if (request->sleeps_on == 0 || has_filter(target->pid))
		return false;
	target_hold(target, HOLD_ONLY);
	/* Any value but these two is damage. */
	state = request_state(target, request);
	if (state != request->ready && state != request->go) {
		is_asked = set_state(target, request, request->asked);
		/*
		 * Makes the upkeep thread look at the request: the kernel lets
		 * a stopped thread compare its futex word once more.
		 */
		if (live_peek(target, request->waking_at, &word, sizeof(word)))
			live_poke(
			    target, request->sleeps_on, &word, sizeof(word));
	}
	target_release(target);
	if (!is_asked)
		return false;
	while ((state = request_state(target, request)) != request->ready) {
		if (state != request->asked)
			return false;
		if (seconds_now() > until) {
			take_back(target, request);
			return false;
		}
		usleep(POLL_US);
	}
	return true;
}

/* Returns the thread that is ready to make the copy, or NULL. */
static struct thread *
ready_thread(struct target *target, const struct copy_request *request)
{
	uint64_t tp = 0;

	live_peek(target, request->thread_at, &tp, sizeof(tp));
	for (size_t i = 0; i < target->nthreads; i++)
		if (target->threads[i].tp == tp && target->threads[i].stopped)
			return &target->threads[i];
	return NULL;
}

/*
 * Lets the thread run until it has made the copy, or has failed to.  Returns
 * the process number of the copy, or 0.  The thread is stopped again.
 */
static int
run_thread(struct target *target, const struct copy_request *request, int tid)
{
	double until = seconds_now() + COPY_SECONDS;
	unsigned long copy = 0;
	bool interrupted = false;
	int status, got;

	ptrace(PTRACE_CONT, tid, NULL, NULL);
	for (;;) {
		got = waitpid(tid, &status, __WALL | WNOHANG);
		if (got < 0 || (got > 0 && !WIFSTOPPED(status)))
			return 0;
		if (got > 0 && status >> 16 == PTRACE_EVENT_CLONE) {
			ptrace(PTRACE_GETEVENTMSG, tid, NULL, &copy);
			return (int)copy;
		}
		if (got > 0 && status >> 16 != 0)
			return 0;
		if (got > 0)
			ptrace(PTRACE_CONT, tid, NULL,
			    (void *)(intptr_t)WSTOPSIG(status));
		if (!interrupted &&
		    (seconds_now() > until ||
			request_state(target, request) == request->none)) {
			ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
			interrupted = true;
		}
		usleep(POLL_US);
	}
}

bool
target_make_copy(struct target *target, const struct copy_request *request)
{
	struct thread *thread;
	int copy = 0, status;

	assert(target->held && !target->borrowed && target->made == NULL);
	if (request_state(target, request) != request->ready)
		return false;
	thread = ready_thread(target, request);
	/* Since the request, the process may have got a filter. */
	if (thread == NULL || has_filter(thread->tid) ||
	    ptrace(PTRACE_SETOPTIONS, thread->tid, NULL,
		(void *)PTRACE_O_TRACECLONE) != 0)
		return false;
	if (!set_state(target, request, request->go))
		return false;
	copy = run_thread(target, request, thread->tid);
	if (copy == 0 || waitpid(copy, &status, __WALL) != copy ||
	    !WIFSTOPPED(status))
		return false;
	/* The kernel is to end the copy, not the process. */
	memory_kill_first(copy);
	target->made = xalloc(sizeof(*target->made));
	*target->made = (struct target){.name = target->name,
	    .pid = copy,
	    .reader = copy,
	    .live = true,
	    .memory = -1};
	live_read_maps(target->made);
	live_open_memory(target->made);
	return true;
}

bool
target_copy_lacks(const struct target *target, size_t i, bool or_shared)
{
	const struct mapping *m = &target->maps[i];
	uint64_t bytes = m->end - m->start;

	assert(target->made != NULL && i < target->nmaps);
	return (or_shared && m->shared) ||
	       target_mapped(target->made, m->start, bytes) < bytes;
}

void
target_use_copy(struct target *target)
{
	assert(target->held && target->made != NULL);
	target->reads_made = target->was_copied = true;
}

void
target_check_copy(const struct target *target)
{
	static double next;
	double now = seconds_now();
	const char *limit;

	if (now < next)
		return;
	next = now + CHECK_SECONDS;
	if (!memory_is_left_to(target->pid, LEFT_MIN, &limit))
		fail_with(EXIT_ERROR,
		    "%s: ended, because the process has less than %zu MiB of "
		    "memory left (%s); --force to go on in any case",
		    target->name, LEFT_MIN / MIB, limit);
}

void
target_end_copy(struct target *target)
{
	int status;

	if (target->made == NULL)
		return;
	close(target->made->memory);
	kill(target->made->pid, SIGKILL);
	waitpid(target->made->pid, &status, __WALL);
	free(target->made->maps);
	free(target->made);
	target->made = NULL;
	target->reads_made = target->reads_lines = false;
}
