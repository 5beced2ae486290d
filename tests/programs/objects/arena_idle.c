/*
 * arena_idle.c - vmem_alloc() can use the idle integers of quantum caches: it
 * fails only if the free integers of the arena do not fit the request
 *
 * test link: umem
 * test no stderr: .
 */
#include "tests/programs/check.h"
#include "vmem/vmem.h"

enum {
	NTHREADS = 3,
	NEACH = 64,
	NIDS = NTHREADS * NEACH,
	NOPS = 150000
};

static vmem_t *arena;
static uint8_t owned[2 * NIDS]; /* [atomic] 1: an identifier that is in use */
static uint32_t nfailed;        /* [atomic] */
static uint32_t stop;           /* [atomic] */

static uintptr_t
take(void)
{
	uintptr_t id = (uintptr_t)vmem_alloc(arena, 1, VM_NOSLEEP);

	if (id == 0) {
		check(errno == ENOMEM);
		__atomic_add_fetch(&nfailed, 1, __ATOMIC_RELAXED);
		return 0;
	}
	check(id < 2 * NIDS);
	check(__atomic_exchange_n(&owned[id], 1, __ATOMIC_RELAXED) == 0);
	return id;
}

static void
give(uintptr_t id)
{
	if (id == 0)
		return;
	check(__atomic_exchange_n(&owned[id], 0, __ATOMIC_RELAXED) == 1);
	vmem_free(arena, (void *)id, 1);
}

/* Has up to NEACH identifiers, which are sometimes freed all. */
static void *
user(void *arg)
{
	uint64_t r = (uintptr_t)arg;
	uintptr_t held[NEACH] = {0};

	for (unsigned i = 0; i < NOPS; i++) {
		unsigned at = next_random(&r) % NEACH;

		if (held[at] == 0) {
			held[at] = take();
		} else {
			give(held[at]);
			held[at] = 0;
		}
		if (next_random(&r) % 1024 != 0)
			continue;
		for (unsigned j = 0; j < NEACH; j++)
			if (held[j] == 0)
				held[j] = take();
		for (unsigned j = 0; j < NEACH; j++) {
			give(held[j]);
			held[j] = 0;
		}
	}
	for (unsigned j = 0; j < NEACH; j++)
		give(held[j]);
	return NULL;
}

static void *
reaper(void *arg)
{
	while (__atomic_load_n(&stop, __ATOMIC_RELAXED) == 0) {
		umem_reap();
		usleep(100);
	}
	return arg;
}

/* No thread of the parent holds up its child. */
static void *
forker(void *arg)
{
	while (__atomic_load_n(&stop, __ATOMIC_RELAXED) == 0) {
		pid_t pid = fork();

		if (pid == 0) {
			void *id = NULL;

			limit_time();
			for (int i = 0; i < 2 * NIDS; i++)
				id = vmem_alloc(arena, 1, VM_NOSLEEP);
			_exit(id == NULL ? 0 : 3);
		}
		child_end(pid);
	}
	return arg;
}

/* The users need just as much as there is. */
static void
nearly_all_is_used(void *(*beside)(void *))
{
	pthread_t threads[NTHREADS], other = 0;

	nfailed = stop = 0;
	if (beside != NULL)
		other = thread_start(beside, NULL);
	for (uintptr_t i = 0; i < NTHREADS; i++)
		threads[i] = thread_start(user, (void *)(i + 1));
	for (unsigned i = 0; i < NTHREADS; i++)
		thread_end(threads[i]);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	if (beside != NULL)
		thread_end(other);
	if (nfailed != 0)
		fprintf(stderr, "%u failures\n", nfailed);
	check(nfailed == 0);
	vmem_destroy(arena);
}

static vmem_t *
arena_of(size_t n, size_t qcache_max)
{
	return vmem_create("ids", (void *)1, n, 1, NULL, NULL, NULL, qcache_max,
	    VM_NOSLEEP | VMC_IDENTIFIER);
}

/* Every integer can be allocated, although caches of other sizes have some. */
static void
all_of_few(void)
{
	for (size_t n = 1; n <= 40; n++) {
		void *id[40];

		arena = arena_of(n, 4);
		for (size_t i = 0; i < n; i++)
			check((id[i] = vmem_alloc(arena, 1, VM_NOSLEEP)));
		check(vmem_alloc(arena, 1, VM_NOSLEEP) == NULL);
		check(errno == ENOMEM);
		for (size_t i = 0; i < n; i++)
			vmem_free(arena, id[i], 1);
		/* Other sizes, also uncached ones, get the freed integers. */
		for (size_t size = 1; size <= n; size++) {
			void *run = vmem_alloc(arena, size, VM_NOSLEEP);

			check(run != NULL);
			vmem_free(arena, run, size);
			run = vmem_xalloc(
			    arena, n, 0, 0, 0, NULL, NULL, VM_NOSLEEP);
			check(run != NULL);
			vmem_xfree(arena, run, n);
		}
		vmem_destroy(arena);
	}
}

/* Slabs that are partly used do not keep their idle chunks to themselves. */
static void
between_used_ones(void)
{
	enum {
		N = 64
	};
	uint8_t used[N + 1] = {0};

	arena = arena_of(N, 4);
	for (unsigned i = 0; i < N; i++)
		check(vmem_alloc(arena, 1, VM_NOSLEEP) != NULL);
	for (uintptr_t id = 1; id <= N; id++) {
		used[id] = id % 4 == 0;
		if (!used[id])
			vmem_free(arena, (void *)id, 1);
	}
	for (unsigned i = 0; i < N / 4; i++) {
		uintptr_t id = (uintptr_t)vmem_alloc(arena, 3, VM_NOSLEEP);

		check(id != 0 && id + 2 <= N);
		check(!used[id] && !used[id + 1] && !used[id + 2]);
		used[id] = used[id + 1] = used[id + 2] = 2;
	}
	check(vmem_alloc(arena, 1, VM_NOSLEEP) == NULL);
	for (uintptr_t id = 1; id <= N; id++)
		if (used[id] == 1)
			vmem_free(arena, (void *)id, 1);
		else if (id % 4 == 1)
			vmem_free(arena, (void *)id, 3);
	/* Whole again. */
	check(vmem_alloc(arena, N, VM_NOSLEEP) != NULL);
	vmem_free(arena, (void *)1, N);
	vmem_destroy(arena);
}

/* A request finds the idle integers of an arena from which its own imports. */
static void
in_arenas_above(void)
{
	enum {
		N = 64
	};
	vmem_t *below, *lowest;
	void *id[N];

	arena = arena_of(N, 4);
	below = vmem_create("below", NULL, 0, 1, vmem_alloc, vmem_free, arena,
	    4, VM_NOSLEEP | VMC_IDENTIFIER);
	/* Of a larger quantum, so that its imports are aligned. */
	lowest = vmem_create("lowest", NULL, 0, 2, vmem_alloc, vmem_free, below,
	    8, VM_NOSLEEP | VMC_IDENTIFIER);
	check(arena != NULL && below != NULL && lowest != NULL);
	for (unsigned i = 0; i < N; i++)
		check((id[i] = vmem_alloc(below, 1, VM_NOSLEEP)) != NULL);
	for (unsigned i = 0; i < N; i++)
		vmem_free(below, id[i], 1);
	id[0] = vmem_alloc(lowest, 2, VM_NOSLEEP);
	check(id[0] != NULL);
	vmem_free(lowest, id[0], 2);
	/* Destroyed caches return all. */
	vmem_destroy(lowest);
	vmem_destroy(below);
	for (unsigned i = 0; i < N; i++)
		check((id[i] = vmem_alloc(arena, 1, VM_NOSLEEP)) != NULL);
	for (unsigned i = 0; i < N; i++)
		vmem_free(arena, id[i], 1);
	vmem_destroy(arena);
}

int
main(void)
{
	arena = arena_of(NIDS, 1);
	nearly_all_is_used(NULL);
	arena = arena_of(NIDS, 4);
	nearly_all_is_used(reaper);
	arena = arena_of(NIDS, 4);
	nearly_all_is_used(forker);

	vmem_t *source = arena_of(NIDS, 0);

	arena = vmem_create("imported", NULL, 0, 1, vmem_alloc, vmem_free,
	    source, 1, VM_NOSLEEP | VMC_IDENTIFIER);
	nearly_all_is_used(NULL);
	check(vmem_size(source, VMEM_ALLOC) == 0);
	vmem_destroy(source);

	all_of_few();
	between_used_ones();
	in_arenas_above();
	return 0;
}
