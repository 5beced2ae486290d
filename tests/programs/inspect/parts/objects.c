/*
 * objects.c - a program with known objects of caches, for umem users
 *
 * grow_widgets() keeps 5000 objects of 300 bytes, grow_jobs() keeps 10000 of 96
 * with a constructor, lose_widgets() has lost 5000 of 300 and lose_bulk() 4096
 * of 200.  The line "object ADDRESS" has the address of one widget that is
 * kept.  Then the program waits for the end of standard input, and frees all
 * objects that it has not lost.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "umem/umem.h"

enum {
	WIDGETS = 5000,
	JOBS = 10000,
	BULK = 4096
};

static umem_cache_t *widget_cache, *job_cache, *bulk_cache;
void *widgets[WIDGETS], *jobs[JOBS];
static int njobs;

static int
job_construct(void *buf, void *priv, int flags)
{
	(void)priv;
	(void)flags;
	memset(buf, 0, 96);
	njobs++;
	return 0;
}

static void
job_destruct(void *buf, void *priv)
{
	(void)buf;
	(void)priv;
	njobs--;
}

static __attribute__((noinline)) void
grow_widgets(void)
{
	for (int i = 0; i < WIDGETS; i++)
		widgets[i] = umem_cache_alloc(widget_cache, UMEM_DEFAULT);
}

static __attribute__((noinline)) void
grow_jobs(void)
{
	for (int i = 0; i < JOBS; i++)
		jobs[i] = umem_cache_alloc(job_cache, UMEM_DEFAULT);
}

static __attribute__((noinline)) void
lose_widgets(void)
{
	for (int i = 0; i < WIDGETS; i++) {
		void *volatile p = umem_cache_alloc(widget_cache, UMEM_DEFAULT);

		memset(p, 1, 300);
		p = NULL;
	}
}

static __attribute__((noinline)) void
lose_bulk(void)
{
	void *p[64];

	for (int i = 0; i < BULK / 64; i++)
		if (umem_cache_alloc_bulk(bulk_cache, 64, p, UMEM_DEFAULT) !=
		    64)
			_exit(9);
	memset(p, 0, sizeof(p));
	__asm__ volatile("" : : "r"(p) : "memory");
}

int
main(void)
{
	char line[64], c;
	int n;

	widget_cache = umem_cache_create(
	    "widget", 300, 0, NULL, NULL, NULL, NULL, NULL, 0);
	job_cache = umem_cache_create(
	    "job", 96, 0, job_construct, job_destruct, NULL, NULL, NULL, 0);
	bulk_cache =
	    umem_cache_create("bulk", 200, 0, NULL, NULL, NULL, NULL, NULL, 0);
	grow_widgets();
	grow_jobs();
	lose_widgets();
	lose_bulk();
	n = snprintf(line, sizeof(line), "object %lx\nready\n",
	    (unsigned long)widgets[WIDGETS / 2]);
	if (write(1, line, (size_t)n) != n || read(0, &c, 1) != 0)
		return 9;
	for (int i = 0; i < WIDGETS; i++)
		umem_cache_free(widget_cache, widgets[i]);
	umem_cache_free_bulk(job_cache, JOBS, jobs);
	umem_cache_destroy(job_cache);
	return njobs == 0 ? 0 : 1;
}
