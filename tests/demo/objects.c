/*
 * objects.c - the cost of an object from a cache, and of malloc() with
 * initialisation each time
 *
 * The object is a connection with two locks, a condition and a table of 32
 * list heads.  Prints nanoseconds for one allocation and free: of malloc(),
 * and of the cache.
 */
#include <umem/umem.h>

#include "tests/demo/demo.h"

enum {
	ROUNDS = 2000000
};

struct list {
	struct list *next, *previous;
};

struct connection {
	pthread_mutex_t lock, send_lock;
	pthread_cond_t changed;
	struct list table[32];
	int number;
};

static int
construct(void *buf, void *priv, int flags)
{
	struct connection *c = buf;

	(void)priv, (void)flags;
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->send_lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	for (int i = 0; i < 32; i++)
		c->table[i].next = c->table[i].previous = &c->table[i];
	return 0;
}

static void
destruct(void *buf, void *priv)
{
	struct connection *c = buf;

	(void)priv;
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->send_lock);
	pthread_mutex_destroy(&c->lock);
}

static void
use(struct connection *c, int i)
{
	pthread_mutex_lock(&c->lock);
	*(volatile int *)&c->number = i;
	pthread_mutex_unlock(&c->lock);
}

static double
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int
main(void)
{
	umem_cache_t *cache =
	    need(umem_cache_create("connection", sizeof(struct connection), 0,
		construct, destruct, NULL, NULL, NULL, 0));
	double begin = now_ns(), middle, end;

	for (int i = 0; i < ROUNDS; i++) {
		struct connection *c = need(malloc(sizeof(*c)));

		construct(c, NULL, 0);
		use(c, i);
		destruct(c, NULL);
		free(c);
	}
	middle = now_ns();
	for (int i = 0; i < ROUNDS; i++) {
		struct connection *c = umem_cache_alloc(cache, UMEM_NOFAIL);

		use(c, i);
		umem_cache_free(cache, c);
	}
	end = now_ns();
	printf(
	    "%.1f %.1f\n", (middle - begin) / ROUNDS, (end - middle) / ROUNDS);
	umem_cache_destroy(cache);
	return 0;
}
