/* Destructors of thread-specific data allocate, and pass blocks on. */
#include "tests/programs/check.h"

enum {
	NKEYS = 8,
	NTHREADS = 400
};
static pthread_key_t key[NKEYS];
static unsigned nruns;

/* Gives itself a new value until the last round glibc grants. */
static void
gone(void *value)
{
	char *p = value;

	check(is_stamped(p, 500, 5));
	free(p);
	churn(3, 100, 20000);
	check((p = malloc(500)) != NULL);
	stamp(p, 500, 5);
	if (__atomic_fetch_add(&nruns, 1, __ATOMIC_RELAXED) % 3)
		check(pthread_setspecific(key[nruns % NKEYS], NULL) == 0);
	free(p);
}

static void *
run(void *arg)
{
	(void)arg;
	for (int i = 0; i < NKEYS; i++) {
		char *p = malloc(500);

		check(p != NULL);
		stamp(p, 500, 5);
		check(pthread_setspecific(key[i], p) == 0);
	}
	return NULL;
}

int
main(void)
{
	for (int i = 0; i < NKEYS; i++)
		check(pthread_key_create(&key[i], gone) == 0);
	for (int i = 0; i < NTHREADS / 4; i++) {
		pthread_t thread[4];

		for (int k = 0; k < 4; k++)
			thread[k] = thread_start(run, NULL);
		for (int k = 0; k < 4; k++)
			thread_end(thread[k]);
	}
	check(nruns > NTHREADS);
	return 0;
}
