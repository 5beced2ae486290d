/* Contexts switched by hand, and moved from thread to thread, allocate.
 *
 * test not with: musl has no ucontext functions
 */
#include <ucontext.h>

#include "tests/programs/check.h"

enum {
	NCONTEXTS = 16,
	NROUNDS = 300,
	STACK = 65536
};

/* A context has one runner at a time; back is where it gives up to. */
struct context {
	ucontext_t self, back;
	uint64_t seed;
	bool done;
	char *carried;
};

static struct context context[NCONTEXTS];
static unsigned next;

static void
body(unsigned n)
{
	struct context *c = &context[n];

	for (int i = 0; i < NROUNDS; i++) {
		check((c->carried = malloc(100 + c->seed % 5000)) != NULL);
		stamp(c->carried, 100, c->seed);
		churn(c->seed + (uint64_t)i, 50, 20000);
		check(swapcontext(&c->self, &c->back) == 0);
		check(is_stamped(c->carried, 100, c->seed));
		free(c->carried);
	}
	c->done = true;
	check(swapcontext(&c->self, &c->back) == 0);
	check(false);
}

/* Runs a context of a queue for a step; the queue is the order of claims. */
static void *
runner(void *arg)
{
	pthread_mutex_t *claim = arg;
	unsigned ndone = 0;

	while (ndone < NCONTEXTS) {
		unsigned n =
		    __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % NCONTEXTS;

		pthread_mutex_lock(&claim[n]);
		if (context[n].done) {
			ndone++;
		} else {
			ndone = 0;
			check(swapcontext(&context[n].back, &context[n].self) ==
			      0);
		}
		pthread_mutex_unlock(&claim[n]);
	}
	return NULL;
}

int
main(void)
{
	static pthread_mutex_t claim[NCONTEXTS];
	pthread_t thread[3];

	for (volatile unsigned i = 0; i < NCONTEXTS; i++) {
		struct context *c = &context[i];

		pthread_mutex_init(&claim[i], NULL);
		check(getcontext(&c->self) == 0);
		c->self.uc_stack.ss_sp = malloc(STACK);
		c->self.uc_stack.ss_size = STACK;
		check(c->self.uc_stack.ss_sp != NULL);
		c->seed = i;
		makecontext(&c->self, (void (*)(void))body, 1, i);
	}
	for (int i = 0; i < 3; i++)
		thread[i] = thread_start(runner, claim);
	for (int i = 0; i < 3; i++)
		thread_end(thread[i]);
	return 0;
}
