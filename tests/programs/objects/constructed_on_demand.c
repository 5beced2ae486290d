/*
 * An object is constructed when it is first allocated.  One request calls the
 * constructor once; if the constructor fails, that request fails.  Only objects
 * that were allocated are destructed.  This holds in every debugging mode, so
 * the program runs itself again in each.
 *
 * test link: umem
 * test modes: rseq own locked
 * test no stderr: .
 */
#include <setjmp.h>

#include "tests/programs/check.h"

enum {
	N = 3000,
	NMODES = 6
};
#define LIVE  0x6b6574746c65ull
#define BYTES 200

static umem_cache_t *cache;
static unsigned nconstructed, ndestructed, nrefused, fail_every, nasked;
static void *object[N];

static int
construct(void *p, void *arg, int flags)
{
	(void)arg;
	check(flags == UMEM_DEFAULT);
	if (fail_every != 0 && (nconstructed + nrefused) % fail_every == 0) {
		nrefused++;
		return -1;
	}
	*(uint64_t *)p = LIVE;
	nconstructed++;
	return 0;
}

static void
destruct(void *p, void *arg)
{
	(void)arg;
	check(*(uint64_t *)p == LIVE);
	*(uint64_t *)p = 0;
	ndestructed++;
}

static void
create(umem_constructor_t *constructor)
{
	nconstructed = ndestructed = nrefused = 0;
	cache = umem_cache_create(
	    "kettles", BYTES, 0, constructor, destruct, NULL, NULL, NULL, 0);
	check(cache != NULL);
}

static void
one_request_constructs_one_object(void)
{
	create(construct);
	for (unsigned i = 0; i < N; i++) {
		check(nconstructed == i);
		object[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
		check(object[i] != NULL);
	}
	check(nconstructed == N && ndestructed == 0);
	for (unsigned i = 0; i < N; i++)
		umem_cache_free(cache, object[i]);
	umem_cache_destroy(cache);
	check(ndestructed == N);
}

/* A block of any other cache may have been there before. */
static void
fill_memory_with_other_values(void)
{
	for (unsigned i = 0; i < N; i++) {
		object[i] = umem_alloc(BYTES, UMEM_NOFAIL);
		memset(object[i], 0xa5, BYTES);
	}
	for (unsigned i = 0; i < N; i++)
		umem_free(object[i], BYTES);
	umem_reap();
}

/* The program itself makes the object after the request, and no other. */
static void
only_objects_that_were_handed_out_are_destructed(void)
{
	fill_memory_with_other_values();
	create(NULL);
	for (unsigned i = 0; i < 5; i++) {
		object[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
		check(object[i] != NULL);
		*(uint64_t *)object[i] = LIVE;
	}
	for (unsigned i = 0; i < 5; i++)
		umem_cache_free(cache, object[i]);
	umem_cache_reap_now(cache);
	check(ndestructed == 5);
	object[0] = umem_cache_alloc(cache, UMEM_DEFAULT);
	*(uint64_t *)object[0] = LIVE;
	umem_cache_free(cache, object[0]);
	umem_cache_destroy(cache);
	check(ndestructed == 6);
}

static void
every_failure_is_the_answer_to_one_request(void)
{
	unsigned nfailed = 0, n = 0;

	create(construct);
	for (fail_every = 1; fail_every < 20; fail_every++)
		for (unsigned i = 0; i < 100; i++) {
			unsigned before = nrefused;
			void *p;

			errno = 0;
			p = umem_cache_alloc(cache, UMEM_DEFAULT);
			check((p == NULL) == (nrefused == before + 1));
			check(p != NULL || errno == ENOMEM);
			if (p == NULL)
				nfailed++;
			else
				object[n++] = p;
		}
	fail_every = 0;
	check(nfailed == nrefused && n == nconstructed && nfailed >= 100);
	while (n > 0)
		umem_cache_free(cache, object[--n]);
	umem_cache_destroy(cache);
	check(ndestructed == nconstructed);
}

static int
mend(void)
{
	nasked++;
	fail_every = nasked % 3 != 0;
	return UMEM_CALLBACK_RETRY;
}

static void
each_failure_of_a_request_that_must_not_fail_calls_back(void)
{
	create(construct);
	umem_nofail_callback(mend);
	for (unsigned i = 0; i < 10; i++) {
		fail_every = 1;
		object[i] = umem_cache_alloc(cache, UMEM_NOFAIL);
		check(object[i] != NULL && *(uint64_t *)object[i] == LIVE);
		check(nasked == 3 * (i + 1) && nrefused == nasked);
	}
	fail_every = 0;
	for (unsigned i = 0; i < 10; i++)
		umem_cache_free(cache, object[i]);
	umem_cache_destroy(cache);
	check(ndestructed == 10);
}

static jmp_buf away;
static bool jumps;

static int
construct_or_jump(void *p, void *arg, int flags)
{
	if (jumps)
		longjmp(away, 1);
	return construct(p, arg, flags);
}

static void
a_jump_out_of_the_constructor_loses_nothing(void)
{
	static volatile unsigned n;
	static umem_cache_t *other;

	create(construct_or_jump);
	other =
	    umem_cache_create("cups", 24, 0, NULL, NULL, NULL, NULL, NULL, 0);
	for (n = 0; n < 300; n++) {
		jumps = setjmp(away) == 0;
		object[n] = umem_cache_alloc(cache, UMEM_DEFAULT);
		check(object[n] != NULL && nconstructed == n + 1);
		umem_cache_free(other, umem_cache_alloc(other, UMEM_NOFAIL));
	}
	while (n > 0)
		umem_cache_free(cache, object[--n]);
	umem_cache_destroy(other);
	/* Says "not empty" if the objects count that were not finished. */
	umem_cache_destroy(cache);
	check(ndestructed == nconstructed);
}

static void
run_again(const char *name, const char *value)
{
	pid_t pid = fork();

	if (pid == 0) {
		const char *was = name == NULL ? NULL : getenv(name);
		char both[200];

		snprintf(both, sizeof(both), "%s%s%s", was == NULL ? "" : was,
		    was == NULL ? "" : ",", value);
		if (name != NULL)
			setenv(name, both, 1);
		execl("/proc/self/exe", "constructed_on_demand", value, NULL);
		_exit(99);
	}
	child_end(pid);
}

int
main(int argc, char **argv)
{
	static const char *const modes[NMODES][2] = {{NULL, "as it is"},
	    {"UMEM_OPTIONS", "nomagazines"}, {"UMEM_OPTIONS", "hardened"},
	    {"UMEM_DEBUG", "audit"}, {"UMEM_DEBUG", "guards"},
	    {"UMEM_DEBUG", "firewall=1"}};

	if (argc < 2) {
		for (unsigned i = 0; i < NMODES; i++)
			run_again(modes[i][0], modes[i][1]);
		return 0;
	}
	one_request_constructs_one_object();
	only_objects_that_were_handed_out_are_destructed();
	every_failure_is_the_answer_to_one_request();
	each_failure_of_a_request_that_must_not_fail_calls_back();
	/* With guards, the cache does not remember an unfinished object. */
	if (strcmp(argv[1], "guards") != 0)
		a_jump_out_of_the_constructor_loses_nothing();
	return 0;
}
