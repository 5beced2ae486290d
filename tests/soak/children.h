/*
 * children.h - children of fork(), vfork(), clone(), and programs
 *
 * fork() is no snapshot of an instant: other threads may change one page
 * before, and another after the kernel has copied it.  So a child looks only at
 * blocks that nobody changes meanwhile, and begins a new table of starts.
 * liburcu permits no calls of it in a child, because readers are registered.
 */
#ifndef TESTS_SOAK_CHILDREN_H
#define TESTS_SOAK_CHILDREN_H

#include <spawn.h>
#include <sys/stat.h>

#include "tests/programs/seccomp.h"
#include "tests/soak/deferred.h"
#include "tests/soak/ranges.h"

enum {
	NOWN = 1500,
	NGUEST = 16
};

enum worker_state {
	EMPTY,
	RUNNING,
	PARKED,
	ENDED
};

struct worker {
	struct actor a;
	unsigned state; /* [atomic] enum worker_state */
	pid_t tid;      /* [atomic] */
	pthread_t thread;
	uint64_t nsteps; /* of its life */
	timer_t timer;
	bool has_timer;
	struct block own[NOWN];
	struct segment segments[NSEGMENTS];
	/* Of a child that shares the memory. */
	struct actor guest;
	struct block guest_own[NGUEST];
	char guest_stack[128 * KIB] __attribute__((aligned(64)));
};

static struct block frozen[NFROZEN];
extern char **environ;

/*
 * exit() in a child waits for ever if another thread of the parent was in
 * dlopen() or dlclose() at the fork(): glibc does not hold its lock of exit
 * functions for fork().
 */
static pthread_mutex_t modules = PTHREAD_MUTEX_INITIALIZER;

static void
child_wait(pid_t pid, const char *kind)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		must(errno == EINTR);
	/* 77: the kernel refuses no calls here. */
	if (status != 0 && status != 77 << 8)
		differs("a child (%s) ends with status 0x%x%s", kind, status,
		    WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM
			? ": it hangs"
			: "");
}

static void
child_end_with(struct actor *a)
{
	__atomic_add_fetch(&board->child_ops, a->ops, __ATOMIC_RELAXED);
}

/* In a new process, in which memory is not scarce any more. */
static void
child_begin(struct worker *w, struct actor *a, uint64_t seed)
{
	struct rlimit space;

	limit_time();
	/* For its core. */
	must(mkdir("child", 0700) == 0 || errno == EEXIST);
	must(chdir("child") == 0 || errno == ENOENT);
	umem_setmtbf(0);
	must(umem_ctl("hard_limit", "none", NULL, 0) == 0);
	must(getrlimit(RLIMIT_AS, &space) == 0);
	space.rlim_cur = space.rlim_max;
	must(setrlimit(RLIMIT_AS, &space) == 0);
	__atomic_store_n(&constructors_fail, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&scarce_now, 0, __ATOMIC_RELAXED);
	must(madvise(starts, (size_t)1 << (WINDOW_BITS - 3), MADV_DONTNEED) ==
	     0);
	for (int i = 0; i < NOWN; i++)
		if (w->own[i].origin != NOTHING)
			starts_set(w->own[i].at, 1, "is there twice");
	*a = (struct actor){0};
	actor_begin(a, NACTORS, seed);
	table_check(frozen, NFROZEN, "frozen block in a child");
	table_check(w->own, NOWN, "block in a child");
}

static void *
child_thread(void *arg)
{
	struct block own[60] = {0};
	struct actor a = {0};

	actor_begin(&a, NACTORS, (uintptr_t)arg);
	for (int i = 0; i < 800; i++)
		table_step(&a, own, 60);
	table_free(&a, own, 60);
	child_end_with(&a);
	return NULL;
}

static void
child_with_threads(struct actor *a, struct worker *w)
{
	pthread_t thread[3];

	for (int i = 0; i < 3; i++)
		thread[i] = thread_start(
		    child_thread, (void *)(uintptr_t)next_random(&a->random));
	for (int i = 0; i < 500; i++)
		table_step(a, w->own, NOWN);
	if (draw(a, 3) == 0) {
		pid_t pid = fork();

		if (pid == 0) {
			child_begin(w, a, next_random(&a->random));
			table_free(a, w->own, NOWN);
			child_thread(NULL);
			child_end_with(a);
			_exit(0);
		}
		must(pid > 0);
		count(forks);
		child_wait(pid, "of a child");
	}
	for (int i = 0; i < 3; i++)
		thread_end(thread[i]);
}

/*
 * So many blocks that slabs are used up which other threads were about to
 * change at the fork().
 */
static void
child_filled(struct actor *a, struct worker *w)
{
	enum {
		MOST = 6000
	};
	static struct block more[MOST];

	memset(more, 0, sizeof(more));
	for (int i = 0; i < MOST; i++)
		if (i % 4 == 0)
			object_get(a, &more[i], draw_cache(a));
		else
			get_malloc(a, &more[i]);
	table_check(more, MOST, "block of a child");
	table_free(a, w->own, NOWN);
	table_free(a, more, MOST);
}

/* From now on the kernel refuses some of these calls; which, is random. */
static void
child_refused(struct actor *a, struct worker *w)
{
	static const int calls[] = {SYS_mmap, SYS_munmap, SYS_mprotect,
	    SYS_madvise, SYS_mremap, SYS_brk, SYS_membarrier};
	int some[7];
	unsigned n = 0;

	for (int i = 0; i < 7; i++)
		if (draw(a, 2))
			some[n++] = calls[i];
	scarce_begin();
	if (draw(a, 2))
		refuse(some, n, ENOMEM);
	else
		refuse_unseen(some, n, ENOMEM);
	for (int i = 0; i < 1500; i++)
		table_step(a, w->own, NOWN);
	malloc_trim(0);
}

/* This process has one thread: a copy by clone() may allocate. */
static void
child_copied(struct actor *a, struct worker *w)
{
	for (int i = 0; i < 3; i++) {
		pid_t pid =
		    (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

		if (pid == 0) {
			for (int n = 0; n < 500; n++)
				table_step(a, w->own, NOWN);
			table_free(a, w->own, NOWN);
			_exit(0);
		}
		must(pid > 0);
		count(clones);
		for (int n = 0; n < 200; n++)
			table_step(a, w->own, NOWN);
		child_wait(pid, "a copy by clone()");
	}
}

static void
child_limited(struct actor *a, struct worker *w)
{
	struct rlimit space;
	bool by_kernel = draw(a, 2);

	scarce_begin();
	if (by_kernel) {
		must(getrlimit(RLIMIT_AS, &space) == 0);
		space.rlim_cur = (rlim_t)draw(a, 256) * MIB;
		must(setrlimit(RLIMIT_AS, &space) == 0);
	} else {
		must(umem_ctl("hard_limit", "4m", NULL, 0) == 0);
	}
	for (int i = 0; i < 1500; i++)
		table_step(a, w->own, NOWN);
}

static void
event_fork(struct worker *w)
{
	static const char *const kinds[] = {"of fork(), with threads",
	    "of fork(), with threads", "of fork(), refused calls",
	    "of fork(), copies", "of fork(), limited", "of fork(), filled",
	    "of fork(), filled", "of fork(), plain"};
	uint64_t seed = next_random(&w->a.random);
	unsigned kind = draw(&w->a, 8);
	bool exits = draw(&w->a, 3) == 0;
	struct actor a;
	pid_t pid;

	count(forks);
	if (exits)
		pthread_mutex_lock(&modules);
	pid = fork();
	if (pid == 0) {
		child_begin(w, &a, seed);
		switch (kind) {
		case 0:
		case 1:
			child_with_threads(&a, w);
			break;
		case 2:
			child_refused(&a, w);
			break;
		case 3:
			child_copied(&a, w);
			break;
		case 4:
			child_limited(&a, w);
			break;
		case 5:
		case 6:
			child_filled(&a, w);
			break;
		default:
			for (int i = 0; i < 1000; i++)
				table_step(&a, w->own, NOWN);
		}
		table_free(&a, w->own, NOWN);
		child_end_with(&a);
		/* Some end the long way. */
		if (exits)
			exit(0);
		_exit(0);
	}
	if (exits)
		pthread_mutex_unlock(&modules);
	if (pid < 0) {
		must(errno == EAGAIN || errno == ENOMEM);
		return;
	}
	for (int i = 0; i < 50; i++)
		table_step(&w->a, w->own, NOWN);
	child_wait(pid, kinds[kind]);
}

/* The life of a child that shares the memory. */
static __attribute__((noinline)) void
guest_live(struct worker *w, bool nested)
{
	char *const args[] = {NULL};

	for (int i = 0; i < 100; i++)
		table_step(&w->guest, w->guest_own, NGUEST);
	switch (draw(&w->guest, 4)) {
	case 0:
		raise(SIGUSR1);
		break;
	case 1:
		execve("/nonexistent/file", args, args);
		break;
	case 2:
		if (!nested) {
			pid_t pid = vfork();

			if (pid == 0) {
				guest_live(w, true);
				_exit(0);
			}
			if (pid > 0)
				child_wait(pid, "of vfork() in a child");
		}
		break;
	default:
		break;
	}
	for (int i = 0; i < 50; i++)
		table_step(&w->guest, w->guest_own, NGUEST);
}

static int
guest_run(void *arg)
{
	guest_live(arg, false);
	return 0;
}

/* The parent frees the blocks that its child has left. */
static void
guest_end(struct worker *w, pid_t pid, const char *kind)
{
	if (pid > 0)
		child_wait(pid, kind);
	else
		must(errno == EAGAIN || errno == ENOMEM);
	count(sharing_ended);
	table_free(&w->guest, w->guest_own, NGUEST);
	w->a.ops += w->guest.ops;
	w->a.bytes += w->guest.bytes;
	w->guest.ops = w->guest.bytes = 0;
}

static __attribute__((noinline)) void
event_vfork(struct worker *w)
{
	pid_t pid;

	actor_begin(&w->guest, NACTORS, next_random(&w->a.random));
	count(vforks);
	count(sharing_begun);
	pid = vfork();
	if (pid == 0) {
		guest_live(w, false);
		_exit(0);
	}
	guest_end(w, pid, "of vfork()");
}

static void
event_clone(struct worker *w)
{
	actor_begin(&w->guest, NACTORS, next_random(&w->a.random));
	count(clones);
	count(sharing_begun);
	guest_end(w,
	    clone(guest_run, w->guest_stack + sizeof(w->guest_stack),
		CLONE_VM | CLONE_VFORK | SIGCHLD, w),
	    "of clone()");
}

static void
event_exec(struct worker *w)
{
	char seed[32];
	char *args[] = {(char *)"soak", (char *)"inner", seed, NULL};
	pid_t pid = -1;
	volatile int error = 0;

	snprintf(seed, sizeof(seed), "%u", (unsigned)draw(&w->a, 1000000));
	/* A program does not start under a low RLIMIT_AS. */
	if (!scarce_hold()) {
		scarce_release();
		return;
	}
	count(execs);
	if (draw(&w->a, 2)) {
		error = posix_spawn(
		    &pid, "/proc/self/exe", NULL, NULL, args, environ);
		must(error == 0 || error == EAGAIN || error == ENOMEM);
	} else {
		count(sharing_begun);
		pid = vfork();
		if (pid == 0) {
			execv("/proc/self/exe", args);
			_exit(errno == ENOMEM ? 0 : 3);
		}
		count(sharing_ended);
	}
	if (error == 0 && pid > 0)
		child_wait(pid, "a program");
	scarce_release();
}

/* The program of event_exec(). */
static int
inner(uint64_t seed)
{
	struct block own[60] = {0};
	struct actor a = {0};

	soak_seed = seed;
	actor_begin(&a, 0, seed);
	starts_make();
	ranges_make();
	caches_make();
	for (int i = 0; i < 3000; i++)
		table_step(&a, own, 60);
	table_free(&a, own, 60);
	caches_end();
	ranges_end();
	return 0;
}

#endif
