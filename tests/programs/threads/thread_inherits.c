/*
 * The threads of the library, for upkeep and for a domain of RCU, are ordinary
 * ones, even if a real-time thread creates them that is bound to one CPU and
 * has another nice value and name.  update_thread.c lists their attributes.
 *
 * test modes: default
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 * test timeout: 60
 * test not with: musl has no sched_setscheduler()
 */
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "tests/programs/rcu/rcu.h"

enum {
	SLACK_NS = 71000,
	STACK_MIN = 1 << 20
};

static cpu_set_t at_start;
static size_t stack_bytes; /* [atomic] of the upkeep thread */
static int inner_nice;     /* that a thread of the library may have, beside 0 */

/* The file "name" of a task, with a zero at its end. */
static void
task_read(int tid, const char *name, char *text, size_t n)
{
	char path[64];
	int fd;
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", tid, name);
	fd = open(path, O_RDONLY);
	got = fd < 0 ? -1 : read(fd, text, n - 1);
	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = 0;
}

/* The task with this name, or 0. */
static int
task_named(const char *name)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	char text[32];
	int found = 0;

	if (dir == NULL)
		skip("no /proc here");
	while (found == 0 && (entry = readdir(dir)) != NULL) {
		int tid = atoi(entry->d_name);

		task_read(tid, "comm", text, sizeof(text));
		text[strcspn(text, "\n")] = 0;
		if (tid != 0 && strcmp(text, name) == 0)
			found = tid;
	}
	closedir(dir);
	return found;
}

/* Each signal that a thread can block, in the form of the kernel. */
static uint64_t
blocked_signals(int tid)
{
	static char text[4096];
	char *at;

	task_read(tid, "status", text, sizeof(text));
	at = strstr(text, "SigBlk:");
	return at == NULL ? 0 : strtoull(at + 7, NULL, 16);
}

static void
look_at(const char *name)
{
	struct sched_param param;
	cpu_set_t cpus;
	uint64_t all =
	    ~((uint64_t)1 << (SIGKILL - 1) | (uint64_t)1 << (SIGSTOP - 1) |
		/* Those of libc itself. */
		(uint64_t)3 << (32 - 1));
	char text[64];
	int tid = 0, nice_value;

	wait_until((tid = task_named(name)) != 0);
	check(tid != 0);
	/* The thread itself gives up what it has of its creator. */
	wait_until(getpriority(PRIO_PROCESS, (id_t)tid) != -7 &&
		   sched_getscheduler(tid) == SCHED_OTHER &&
		   sched_getaffinity(tid, sizeof(cpus), &cpus) == 0 &&
		   CPU_EQUAL(&cpus, &at_start));
	nice_value = getpriority(PRIO_PROCESS, (id_t)tid);
	check(nice_value == 0 || nice_value == inner_nice);
	check(sched_getscheduler(tid) == SCHED_OTHER);
	check(sched_getparam(tid, &param) == 0 && param.sched_priority == 0);
	check(sched_getaffinity(tid, sizeof(cpus), &cpus) == 0);
	check(CPU_EQUAL(&cpus, &at_start));
	check((blocked_signals(tid) & all) == all);
	task_read(tid, "timerslack_ns", text, sizeof(text));
	/* The file is empty without the right to change it. */
	check(text[0] == 0 || atoi(text) == SLACK_NS || atoi(text) == 0);
}

/* A reclaim callback, which umem_reap() has the upkeep thread call. */
static void
note_stack(void *arg)
{
	pthread_attr_t attr;
	size_t bytes;

	(void)arg;
	if (pthread_getattr_np(pthread_self(), &attr) != 0)
		return;
	if (pthread_attr_getstacksize(&attr, &bytes) == 0)
		store(&stack_bytes, bytes);
	pthread_attr_destroy(&attr);
}

static void *
look(void *arg)
{
	const char *preload = getenv("LD_PRELOAD");
	umem_cache_t *cache = umem_cache_create(
	    "noting", 100, 0, NULL, NULL, note_stack, NULL, NULL, 0);

	check(cache != NULL);
	object_free(cache, umem_cache_alloc(cache, UMEM_DEFAULT));
	look_at("umem rcu");
	barrier();
	/* Otherwise the library does not see the program's threads. */
	if (preload != NULL && strstr(preload, "umem_malloc") != NULL) {
		look_at("umem");
		umem_reap();
		wait_until(load(&stack_bytes) != 0);
		check(load(&stack_bytes) >= STACK_MIN);
	}
	umem_cache_destroy(cache);
	return arg;
}

/* Makes the calling thread as unlike an ordinary one as it may be. */
static void
become_special(void)
{
	struct sched_param param = {.sched_priority = 10}, none = {0};
	cpu_set_t one;
	sigset_t some;
	int cpu = 0;

	while (!CPU_ISSET(cpu, &at_start))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	check(sched_setaffinity(0, sizeof(one), &one) == 0);
	/* A negative value is the privileged one, which can be given up. */
	setpriority(PRIO_PROCESS, 0, -7);
	if (sched_setscheduler(0, SCHED_FIFO, &param) != 0)
		check(sched_setscheduler(0, SCHED_BATCH, &none) == 0);
	check(prctl(PR_SET_TIMERSLACK, SLACK_NS) == 0);
	check(prctl(PR_SET_NAME, "special") == 0);
	sigemptyset(&some);
	sigaddset(&some, SIGUSR1);
	check(pthread_sigmask(SIG_SETMASK, &some, NULL) == 0);
}

static void
run(void)
{
	check(sched_getaffinity(0, sizeof(at_start), &at_start) == 0);
	inner_nice = getpriority(PRIO_PROCESS, 0);
	become_special();
	/* The first thread is the reason for an upkeep thread. */
	thread_end(thread_start(look, NULL));
}
