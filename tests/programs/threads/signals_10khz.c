/*
 * Timer signals at 10 kHz for each of several threads, as a profiler sends
 * them: every section that is interrupted starts anew, and all get on.
 *
 * test not with: musl has no name for the thread of a timer
 */
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "tests/programs/check.h"

static unsigned nsignals;
static volatile int spin;

static void
on_signal(int signal)
{
	int saved = errno;

	(void)signal;
	__atomic_fetch_add(&nsignals, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 50; i++)
		spin = i;
	errno = saved;
}

static void *
worker(void *arg)
{
	struct sigevent event = {0};
	struct itimerspec every = {{0, 100000}, {0, 100000}};
	timer_t timer;

	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = SIGUSR1;
	event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	check(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	check(timer_settime(timer, 0, &every, NULL) == 0);
	for (uint64_t i = 0; i < 150; i++)
		churn((uintptr_t)arg + i, 5000, i % 10 ? 2000 : 200000);
	check(timer_delete(timer) == 0);
	return NULL;
}

int
main(void)
{
	struct sigaction action = {0};
	struct itimerval profile = {{0, 100}, {0, 100}};
	pthread_t thread[4];

	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART;
	check(sigaction(SIGUSR1, &action, NULL) == 0);
	check(sigaction(SIGPROF, &action, NULL) == 0);
	check(setitimer(ITIMER_PROF, &profile, NULL) == 0);
	for (uintptr_t i = 0; i < 4; i++)
		thread[i] = thread_start(worker, (void *)(i * 1000));
	for (int i = 0; i < 4; i++)
		thread_end(thread[i]);
	memset(&profile, 0, sizeof(profile));
	check(setitimer(ITIMER_PROF, &profile, NULL) == 0);
	printf("%u signals\n", nsignals);
	check(nsignals > 500);
	return 0;
}
