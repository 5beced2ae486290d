/*
 * prefill.c - objects of a handle when there is no memory, in another thread,
 * and in a child
 *
 * test modes: rseq locked own
 * test link: umem
 * test no stderr: not empty
 */
#include <pthread.h>
#include <sys/resource.h>

#include "tests/programs/check.h"

#define N     500
#define BYTES 5000

struct object {
	char text[BYTES];
	struct object *next;
};

static umem_cache_t *cache;

/* Takes every object of the handle; none of them was allocated before. */
static void *
take_all(void *arg)
{
	umem_prefill_t *handle = (umem_prefill_t *)arg;
	struct object *list = NULL, *object;
	size_t n = 0;

	while (umem_prefill_count(handle) != 0) {
		object = (struct object *)umem_prefill_alloc(handle);
		check(object != NULL);
		stamp(object->text, BYTES, n++);
		object->next = list;
		list = object;
	}
	check(umem_prefill_alloc(handle) == NULL && errno == ENOMEM);
	while (list != NULL) {
		object = list;
		list = object->next;
		check(is_stamped(object->text, BYTES, --n));
		umem_cache_free(cache, object);
	}
	check(n == 0);
	return NULL;
}

/* Until there is none, with more than the handle has. */
static void
exhaust(umem_prefill_t *handle)
{
	struct rlimit limit = {64 * MIB, 64 * MIB};
	struct object *list = NULL, *object;

	check(setrlimit(RLIMIT_DATA, &limit) == 0);
	while ((object = (struct object *)umem_cache_alloc(
		    cache, UMEM_DEFAULT)) != NULL) {
		object->next = list;
		list = object;
	}
	check(errno == ENOMEM);
	errno = 0;
	check(umem_prefill_refill(handle, 100 * N, UMEM_DEFAULT) == -1);
	check(errno == ENOMEM && umem_prefill_count(handle) == N);
	check(umem_cache_prefill(cache, N, UMEM_DEFAULT) == NULL);
	take_all(handle);
	while (list != NULL) {
		object = list;
		list = object->next;
		umem_cache_free(cache, object);
	}
}

int
main(void)
{
	umem_prefill_t *handle;
	pid_t pid;

	limit_time();
	cache = umem_cache_create(
	    "parts", sizeof(struct object), 0, NULL, NULL, NULL, NULL, NULL, 0);
	check(cache != NULL);
	handle = umem_cache_prefill(cache, N, UMEM_DEFAULT);
	check(handle != NULL);
	pid = fork();
	if (pid == 0) {
		take_all(handle);
		exhaust(umem_cache_prefill(cache, N, UMEM_DEFAULT));
		umem_prefill_release(handle);
		_exit(0);
	}
	child_end(pid);
	check(umem_prefill_count(handle) == N);
	thread_end(thread_start(take_all, handle));
	check(umem_prefill_refill(handle, 2 * N, UMEM_DEFAULT) == 0);
	take_all(handle);
	umem_prefill_release(handle);
	umem_cache_destroy(cache);
	return 0;
}
