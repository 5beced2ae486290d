/*
 * A plug-in brings the flavour bp after libumem_rcu.so.1 has been loaded.
 * fork() does not ask a thread that holds the locks of bp whether it reads.
 * rcu_static.sh builds this with bp in the program (LINKED).
 *
 * test link: rcu
 * test cflags: -rdynamic
 * test modes: default
 * test preload: no
 * test run: name
 * test run: old_name
 * test args: old_name
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <umem_rcu.h>
#ifdef LINKED
#include <urcu/urcu-bp.h>
#endif
#include <urcu/flavor.h>

#include "tests/programs/check.h"

#ifdef LINKED
#define find(name) ((void *)&name)
#else
static void *library;
#define find(name) dlsym(library, #name)
#endif

/* The flavour, and a copy of it that tells when a grace period has begun. */
static const struct rcu_flavor_struct *bp;
static struct rcu_flavor_struct watched;
static bool has_begun;

static void
synchronize(void)
{
	__atomic_store_n(&has_begun, true, __ATOMIC_SEQ_CST);
	bp->update_synchronize_rcu();
}

#ifndef LINKED
/* The name of the function in liburcu before 0.13. */
void
rcu_read_lock_bp(void)
{
	bp->read_lock();
}
#endif

static void
free_one(umem_cache_t *cache)
{
	void *object = umem_cache_alloc(cache, UMEM_DEFAULT);

	check(object != NULL);
	check(umem_cache_free_rcu_flavor(cache, object, &watched) == 0);
}

static void
call(void *found)
{
	void (*f)(void);

	check((*(void **)&f = found) != NULL);
	f();
}

int
main(int argc, char **argv)
{
	umem_cache_t *cache =
	    umem_cache_create("plugin", 64, 0, NULL, NULL, NULL, NULL, NULL, 0);
	pid_t pid;

#ifndef LINKED
	/* Version 8 is that of liburcu 0.13 and later. */
	library = dlopen("liburcu-bp.so.8", RTLD_NOW);
	if (library == NULL)
		skip("no liburcu-bp.so.8");
#endif
	limit_time();
	check(cache != NULL);
	check((bp = find(urcu_bp_flavor)) != NULL);
	watched = *bp;
	watched.update_synchronize_rcu = synchronize;
#ifndef LINKED
	if (argc == 2 && strcmp(argv[1], "old_name") == 0)
		watched.read_lock = rcu_read_lock_bp;
#endif
	/* The library's thread then waits for these locks. */
	call(find(urcu_bp_before_fork));
	free_one(cache);
	wait_until(__atomic_load_n(&has_begun, __ATOMIC_SEQ_CST));
	pid = fork();
	call(pid == 0 ? find(urcu_bp_after_fork_child)
		      : find(urcu_bp_after_fork_parent));
	if (pid == 0) {
		limit_time();
		free_one(cache);
		check(umem_rcu_barrier_flavor(&watched) == 0);
		exit(0);
	}
	child_end(pid);
	check(umem_rcu_barrier_flavor(&watched) == 0);
	umem_cache_destroy(cache);
	return 0;
}
