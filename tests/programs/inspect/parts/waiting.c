/*
 * waiting.c - a program with freed objects that wait for a grace period
 *
 * A reader stays in its section until SIGUSR1 comes or standard input ends, so
 * no grace period ends before that.  The program prints
 *	waits ADDRESS KIND	for some of the objects that it frees
 *	leak ADDRESS		for blocks that it loses
 *	kept ADDRESS		for a block that it keeps
 * Some objects wait in magazines of CPUs, some in full ones, and some,
 * which were freed early, for the grace period in progress.  With the argument
 * "change" it writes to an object that waits, and prints "changed ADDRESS".  It
 * needs rcu_budget=1g, because a free beyond the budget waits for the reader.
 */
#include <signal.h>

#define URCU_API_MAP
#include <urcu/urcu-memb.h>
#include <umem_rcu.h>

#include "tests/programs/check.h"

enum {
	MANY = 3000,
	SIZE = 200,
	LARGE = 9 << 20
};

static void *volatile kept;

static void
tell(const char *what, const void *p, const char *kind)
{
	char line[80];
	int n = snprintf(line, sizeof(line), "%s %lx%s\n", what, (long)p, kind);

	check(write(1, line, (size_t)n) == n);
}

/* An object owns a block, which its destructor frees. */
static int
construct(void *object, void *unused, int flags)
{
	(void)unused, (void)flags;
	*(void **)object = memset(malloc(50), 1, 50);
	return 0;
}

static void
destruct(void *object, void *unused)
{
	(void)unused;
	free(*(void **)object);
}

static umem_cache_t *plain, *owners, *changed;

/* In a thread, so that its stack is gone afterwards. */
static void *
free_many(void *arg)
{
	bool first = arg != NULL;
	void *p[100];

	for (int i = 0; i < 100; i++)
		p[i] = umem_cache_alloc(plain, UMEM_DEFAULT);
	for (int i = 0; i < MANY; i++) {
		void *object = umem_cache_alloc(plain, UMEM_DEFAULT);

		check(umem_cache_free_rcu(plain, object) == 0);
		if (i % 1000 == 0)
			tell("waits", object, " object");
	}
	for (int i = 0; i < 100; i++) {
		check(umem_cache_free_rcu(plain, p[i]) == 0);
		p[i] = umem_cache_alloc(owners, UMEM_DEFAULT);
	}
	tell("waits", p[50], " owner");
	for (int i = 0; i < 100; i++)
		check(umem_cache_free_rcu(owners, p[i]) == 0);
	for (int i = 0; i < 5; i++) {
		p[0] = memset(malloc(SIZE), 2, SIZE);
		p[1] = umem_alloc(SIZE, UMEM_DEFAULT);
		p[2] = malloc(LARGE);
		p[3] = umem_alloc(LARGE, UMEM_DEFAULT);
		if (i == 0 && first) {
			tell("waits", p[0], " malloc");
			tell("waits", p[1], " umem");
			tell("waits", p[2], " large");
			tell("waits", p[3], " large");
		}
		check(free_rcu(p[0]) == 0 && umem_free_rcu(p[1], SIZE) == 0 &&
		      free_rcu(p[2]) == 0 && umem_free_rcu(p[3], LARGE) == 0);
	}
	for (int i = 0; i < 3; i++)
		tell("leak", memset(malloc(SIZE), 3, SIZE), "");
	return NULL;
}

/* Nor does the object lie where a stale pointer of free_many() leads. */
static void *
change(void *unused)
{
	char *p = umem_cache_alloc(changed, UMEM_DEFAULT);

	memset(p, 4, SIZE);
	check(umem_cache_free_rcu(changed, p) == 0);
	tell("changed", p, "");
	p[17]++;
	return unused;
}

static pthread_barrier_t turn;
static volatile sig_atomic_t leave;

static void
on_signal(int signal)
{
	(void)signal;
	leave = 1;
}

static void *
reader(void *unused)
{
	rcu_register_thread();
	rcu_read_lock();
	pthread_barrier_wait(&turn);
	while (!leave)
		usleep(1000);
	rcu_read_unlock();
	rcu_unregister_thread();
	return unused;
}

int
main(int argc, char **argv)
{
	pthread_t thread;
	char c;

	plain =
	    umem_cache_create("plain", 120, 0, NULL, NULL, NULL, NULL, NULL, 0);
	owners = umem_cache_create(
	    "owners", 64, 0, construct, destruct, NULL, NULL, NULL, 0);
	changed = umem_cache_create(
	    "changed", SIZE, 0, NULL, NULL, NULL, NULL, NULL, 0);
	kept = malloc(SIZE);
	tell("kept", kept, "");
	signal(SIGUSR1, on_signal);
	pthread_barrier_init(&turn, NULL, 2);
	thread = thread_start(reader, NULL);
	pthread_barrier_wait(&turn);
	thread_end(thread_start(free_many, "first"));
	/* Until the library waits for a grace period with these. */
	usleep(100000);
	thread_end(thread_start(free_many, NULL));
	if (argc > 1 && strcmp(argv[1], "change") == 0)
		thread_end(thread_start(change, NULL));
	check(write(1, "ready\n", 6) == 6);
	while (read(0, &c, 1) != 0)
		;
	leave = 1;
	thread_end(thread);
	if (argc == 1) {
		check(umem_rcu_barrier() == 0);
		umem_cache_destroy(plain);
		umem_cache_destroy(owners);
	}
	return 0;
}
