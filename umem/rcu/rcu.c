/*
 * rcu.c - libumem_rcu.so.1: deferred frees for the flavours of liburcu
 *
 * The work is done in libumem (umem/rcu/defer.c), which does not know liburcu.
 * This library translates: a flavour is known to libumem by the address of its
 * struct rcu_flavor_struct, and by four functions of it.  It calls a flavour
 * through that structure only, so it depends on none of liburcu's libraries,
 * and the malloc library never loads them.
 *
 * libumem's functions come from whichever of libumem.so.1 and
 * libumem_malloc.so.1 the process has first, and free() from the process's
 * malloc.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <urcu/flavor.h>

#include "umem/rcu/defer_api.h"
#include "umem/umem_rcu.h"
#include "vmem/base.h"

/* Weak: defined where the process has the flavour bp from the start. */
extern void urcu_bp_read_lock(void) __attribute__((weak));

/*
 * A plug-in may bring bp after this library.  A static program may not export
 * its names.  liburcu before 0.13 has two names for the function.
 */
static bool
flavor_is_bp(const struct rcu_flavor_struct *flavor)
{
	Dl_info info;

	if (flavor->read_lock == NULL || flavor->read_lock == urcu_bp_read_lock)
		return flavor->read_lock != NULL;
	return dladdr((void *)(uintptr_t)flavor->read_lock, &info) != 0 &&
	       info.dli_sname != NULL &&
	       (strcmp(info.dli_sname, "urcu_bp_read_lock") == 0 ||
		   strcmp(info.dli_sname, "rcu_read_lock_bp") == 0);
}

static void
grace_of(const void *key, struct umem_grace *grace)
{
	const struct rcu_flavor_struct *flavor = key;

	grace->synchronize = flavor->update_synchronize_rcu;
	grace->reading = flavor->read_ongoing;
	grace->offline = flavor->thread_offline;
	grace->online = flavor->thread_online;
	grace->forks = flavor_is_bp(flavor);
}

public int
umem_cache_free_rcu_flavor(
    umem_cache_t *cache, void *object, const struct rcu_flavor_struct *flavor)
{
	return umem_defer_object(cache, object, flavor, grace_of);
}

public int
umem_free_rcu_flavor(
    void *buf, size_t size, const struct rcu_flavor_struct *flavor)
{
	return umem_defer_sized(buf, size, flavor, grace_of);
}

public int
free_rcu_flavor(void *p, const struct rcu_flavor_struct *flavor)
{
	return umem_defer_block(p, free, malloc_usable_size, flavor, grace_of);
}

public int
umem_rcu_barrier_flavor(const struct rcu_flavor_struct *flavor)
{
	return umem_defer_barrier(flavor);
}

public int
umem_cache_rcu_flavor(
    umem_cache_t *cache, const struct rcu_flavor_struct *flavor)
{
	return umem_defer_attach(cache, flavor, grace_of);
}
