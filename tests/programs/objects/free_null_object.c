/*
 * umem_cache_free() of NULL and umem_cache_destroy() of NULL do nothing, in
 * every state of the cache's magazines and in every mode of debugging, so the
 * program runs itself again in each.
 *
 * test link: umem
 * test modes: rseq own locked
 * test no stderr: .
 */
#include "tests/programs/check.h"

enum {
	N = 600
};

static void
free_null(umem_cache_t *cache, unsigned n)
{
	errno = 77;
	for (unsigned i = 0; i < n; i++)
		umem_cache_free(cache, NULL);
	check(errno == 77);
}

/* No request of n gets NULL, and no two get the same object. */
static void
all_are_objects(umem_cache_t *cache, unsigned n)
{
	static char *object[N];

	for (unsigned i = 0; i < n; i++) {
		object[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
		check(object[i] != NULL);
		memset(object[i], 0, 40);
	}
	for (unsigned i = 0; i < n; i++)
		check((*object[i])++ == 0);
	for (unsigned i = 0; i < n; i++) {
		umem_cache_free(cache, object[i]);
		free_null(cache, i % 3);
	}
}

static void
null_is_no_object(int flags)
{
	umem_cache_t *cache = umem_cache_create(
	    "kettles", 40, 0, NULL, NULL, NULL, NULL, NULL, flags);

	check(cache != NULL);
	/* Without a magazine; then beside few objects; then beside many. */
	free_null(cache, 3);
	all_are_objects(cache, 1);
	free_null(cache, 3);
	all_are_objects(cache, 5);
	free_null(cache, N);
	all_are_objects(cache, N);
	free_null(cache, 1);
	all_are_objects(cache, N);
	umem_cache_reap_now(cache);
	free_null(cache, 1);
	umem_cache_destroy(cache);
}

static void
run_again(const char *name, const char *value)
{
	pid_t pid = fork();

	if (pid == 0) {
		const char *was = getenv(name);
		char both[200];

		snprintf(both, sizeof(both), "%s%s%s", was == NULL ? "" : was,
		    was == NULL ? "" : ",", value);
		setenv(name, both, 1);
		execl("/proc/self/exe", "free_null_object", value, NULL);
		_exit(99);
	}
	child_end(pid);
}

int
main(int argc, char **argv)
{
	(void)argv;
	errno = 77;
	umem_cache_destroy(NULL);
	check(errno == 77);
	null_is_no_object(0);
	null_is_no_object(UMC_NOMAGAZINE);
	if (argc > 1)
		return 0;
	run_again("UMEM_OPTIONS", "nomagazines");
	run_again("UMEM_OPTIONS", "hardened");
	run_again("UMEM_DEBUG", "default");
	return 0;
}
