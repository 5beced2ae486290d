/*
 * Updaters replace nodes of every kind while readers look at them: no reader
 * sees a node change before its section ends.
 *
 *	rcu_torture NUPDATES [WORD...]
 *
 *	sleep	each grace period begins and ends late, by random times
 *	pinned	all threads run on one CPU
 *	signals	a timer interrupts the process at 5 kHz
 *	broken	grace periods end at once: a reader must see a change, and the
 *		status is 3.  This shows that the test finds such a fault
 *
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 * test no stderr: not empty
 *
 * test run: plain
 * test args: 2000
 * test run: delayed
 * test args: 500 sleep pinned signals
 * test run: broken
 * test args: 1 broken
 * test exit: 3
 * test not with: address reports the use after free
 */
#include <sched.h>
#include <signal.h>
#include <sys/time.h>

#include "tests/programs/rcu/rcu_kinds.h"

enum {
	NSLOTS = 2 * NKINDS,
	NUPDATERS = 4,
	NREADERS = 3,
	STATUS_SEEN = 3
};

static struct node *slot[NSLOTS];
static unsigned nupdates, nsections, nsignals;
static bool stop, broken;

static unsigned
slot_kind(unsigned s)
{
	return s % NKINDS;
}

static void
on_change(void)
{
	if (broken)
		_exit(STATUS_SEEN);
	check_failed("a node changes in a section", __FILE__, __LINE__);
}

static void *
reader(void *arg)
{
	uint64_t r = (uintptr_t)arg + 77;

	rcu_true->register_thread();
	while (!load(&stop)) {
		unsigned s[4];
		struct node *node[4];
		uint64_t number[4];

		section_begin();
		for (int i = 0; i < 4; i++) {
			s[i] = next_random(&r) % NSLOTS;
			node[i] = load(&slot[s[i]]);
			number[i] =
			    __atomic_load_n(&node[i]->first, __ATOMIC_RELAXED);
		}
		switch (next_random(&r) % 16) {
		case 0:
			usleep(next_random(&r) % 3000);
			break;
		case 1:
			sched_yield();
			break;
		default:
			break;
		}
		for (int i = 0; i < 4; i++)
			if (!node_is(node[i], slot_kind(s[i]), number[i]))
				on_change();
		section_end();
		add(&nsections, 1);
	}
	rcu_true->unregister_thread();
	return NULL;
}

/* Those of an odd number free in a section; a refused free is repeated. */
static void *
updater(void *arg)
{
	uint64_t r = (uintptr_t)arg + 99;
	bool is_reader = (uintptr_t)arg % 2 == 1;

	if (is_reader)
		rcu_true->register_thread();
	for (unsigned i = 0; broken || i < nupdates; i++) {
		unsigned kind = kind_choose(&r);
		unsigned s = kind + (next_random(&r) % 2 ? NKINDS : 0);
		struct node *node = node_alloc(kind);

		if (is_reader)
			section_begin();
		node = __atomic_exchange_n(&slot[s], node, __ATOMIC_SEQ_CST);
		errno = 0;
		while (node_free_rcu(node, kind) != 0) {
			check(is_reader && errno == EAGAIN);
			section_end();
			usleep(100);
			section_begin();
		}
		check(errno == 0 || is_reader);
		if (is_reader)
			section_end();
	}
	if (is_reader)
		rcu_true->unregister_thread();
	return NULL;
}

/* A large block that is freed too early is unmapped. */
static void
on_fault(int signal)
{
	(void)signal;
	_exit(STATUS_SEEN);
}

static void
on_signal(int signal)
{
	(void)signal;
	add(&nsignals, 1);
}

static void
interrupt(void)
{
	struct itimerval every = {{0, 200}, {0, 200}};
	struct sigaction action = {0};

	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART;
	check(sigaction(SIGALRM, &action, NULL) == 0);
	check(setitimer(ITIMER_REAL, &every, NULL) == 0);
}

static void
pin(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	check(sched_setaffinity(0, sizeof(set), &set) == 0);
}

static void
no_grace_period(void)
{
	add(&rcu_nperiods, 1);
}

static void
run(void)
{
	pthread_t readers[NREADERS], updaters[NUPDATERS];
	bool signals = false;

	check(rcu_args[0] != NULL);
	nupdates = (unsigned)atoi(rcu_args[0]);
	rcu_watch();
	for (char **word = rcu_args + 1; *word != NULL; word++) {
		if (strcmp(*word, "sleep") == 0) {
			rcu_sleep_us = 3000;
		} else if (strcmp(*word, "pinned") == 0) {
			pin();
		} else if (strcmp(*word, "signals") == 0) {
			signals = true;
		} else if (strcmp(*word, "broken") == 0) {
			broken = true;
			signal(SIGSEGV, on_fault);
			rcu_copy.update_synchronize_rcu = no_grace_period;
		} else {
			check_failed(*word, __FILE__, __LINE__);
		}
	}
	kinds_setup();
	for (unsigned s = 0; s < NSLOTS; s++)
		slot[s] = node_alloc(slot_kind(s));
	if (signals)
		interrupt();
	for (uintptr_t i = 0; i < NREADERS; i++)
		readers[i] = thread_start(reader, (void *)i);
	for (uintptr_t i = 0; i < NUPDATERS; i++)
		updaters[i] = thread_start(updater, (void *)i);
	for (unsigned i = 0; i < NUPDATERS; i++)
		thread_end(updaters[i]);
	wait_until(load(&nsections) > 50);
	store(&stop, true);
	for (unsigned i = 0; i < NREADERS; i++)
		thread_end(readers[i]);
	for (unsigned s = 0; s < NSLOTS; s++)
		check(node_free_rcu(slot[s], slot_kind(s)) == 0);
	barrier();
	if (signals) {
		struct itimerval none = {{0, 0}, {0, 0}};

		check(setitimer(ITIMER_REAL, &none, NULL) == 0);
		check(nsignals > 0);
		signal(SIGALRM, SIG_DFL);
	}
	check(load(&rcu_nperiods) > 0);
	for (unsigned i = 0; i < NKINDS; i++)
		umem_cache_destroy(kind_caches[i]);
}
