/*
 * libumem_rcu.so.1 and a flavour by dlopen(), from a program that is linked
 * with neither; dlclose() leaves the library at its work.
 *
 * test modes: default
 * test not with: musl opens no library with thread-local storage of the start
 * test preload: no
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <urcu/flavor.h>

#include "tests/programs/check.h"

enum {
	N = 2000
};

static void *
open_library(const char *name)
{
	char path[4096];
	void *library;

	snprintf(path, sizeof(path), "%s/%s", getenv("B"), name);
	library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (library == NULL)
		dprintf(2, "%s\n", dlerror());
	check(library != NULL);
	return library;
}

/* Version 8 is that of liburcu 0.13 and later. */
static void *
open_liburcu(void)
{
	void *library = dlopen("liburcu-memb.so.8", RTLD_NOW | RTLD_GLOBAL);

	if (library == NULL)
		library = dlopen("liburcu-memb.so.6", RTLD_NOW | RTLD_GLOBAL);
	check(library != NULL);
	return library;
}

static void
try(const char *memory)
{
	void *umem = open_library(memory);
	void *library = open_library("libumem_rcu.so.1");
	void *liburcu = open_liburcu();
	int (*free_later)(void *, size_t, const struct rcu_flavor_struct *);
	int (*wait_for_all)(const struct rcu_flavor_struct *);
	void *(*alloc)(size_t, int);
	const struct rcu_flavor_struct *flavor;

	check((*(void **)&alloc = dlsym(umem, "umem_alloc")) != NULL);
	check((*(void **)&free_later =
		      dlsym(library, "umem_free_rcu_flavor")) != NULL);
	check((*(void **)&wait_for_all =
		      dlsym(library, "umem_rcu_barrier_flavor")) != NULL);
	flavor = dlsym(liburcu, "urcu_memb_flavor");
	check(flavor != NULL);
	for (int i = 0; i < N; i++) {
		void *p = alloc(100, UMEM_DEFAULT);

		check(p != NULL);
		memset(p, 1, 100);
		check(free_later(p, 100, flavor) == 0);
		if (i == N / 2)
			check(dlclose(library) == 0);
	}
	usleep(30000);
	check(wait_for_all(flavor) == 0);
	check(free_later(alloc(100, UMEM_DEFAULT), 100, flavor) == 0);
}

static void
child_of(const char *memory)
{
	pid_t pid = fork();

	if (pid == 0) {
		limit_time();
		try(memory);
		exit(0);
	}
	child_end(pid);
}

int
main(void)
{
	if (getenv("B") == NULL)
		skip("no build folder in $B");
	child_of("libumem.so.1");
	child_of("libumem_malloc.so.1");
	return 0;
}
