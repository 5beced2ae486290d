/*
 * firewalled.c - a program that frees buffers under the firewall
 *
 *	firewalled [read]
 *
 * Prints "KEY ADDRESS" for
 *	block		a block of 100 bytes from make_block(), freed by
 *			give_back()
 *	object		an object of the cache "things", freed by give_thing()
 *	gone		an object of a cache that was destroyed afterwards
 *	old		a block that give_old() has freed before many others
 *	again		a freed block; another block has its address now
 *	beside		a freed block of which a smaller one has the end now
 *	large		a block of 20 MiB that give_back() has freed
 * and "thread NUMBER", the kernel's number of the thread that has freed them.
 * Then it reads the freed block, if told to, or waits for its standard input
 * to end.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "umem/umem.h"

/* More frees than the library remembers. */
#define MANY 5000

/* More blocks than the firewall has addresses for. */
#define AGAIN_MAX 20000

/*
 * Blocks that stay.  Because of them the firewall comes back to a freed address
 * before the library has forgotten the free.
 */
#define KEPT 200

static void *kept[KEPT];

static __attribute__((noinline)) void
give_back(void *p)
{
	free(p);
	__asm__ volatile("");
}

static __attribute__((noinline)) void *
make_block(size_t size)
{
	void *p = malloc(size);

	__asm__ volatile("" : "+r"(p));
	return p;
}

static __attribute__((noinline)) void
give_old(void *p)
{
	free(p);
	__asm__ volatile("");
}

static __attribute__((noinline)) void
give_thing(umem_cache_t *cache, void *p)
{
	umem_cache_free(cache, p);
	__asm__ volatile("");
}

static void
tell(const char *key, void *at)
{
	printf("%s %lx\n", key, (unsigned long)at);
}

static void
free_object(const char *key, const char *name, int destroy)
{
	umem_cache_t *cache =
	    umem_cache_create(name, 200, 0, NULL, NULL, NULL, NULL, NULL, 0);
	void *p = umem_cache_alloc(cache, UMEM_DEFAULT);

	give_thing(cache, p);
	if (destroy)
		umem_cache_destroy(cache);
	tell(key, p);
}

static void
free_many(void)
{
	char *old = malloc(3000);

	give_old(old);
	for (int i = 0; i < MANY; i++)
		free(malloc(50));
	tell("old", old);
}

/* Do they lie in the same 64 KiB? */
static int
is_near(const void *a, const void *b)
{
	return ((uintptr_t)a ^ (uintptr_t)b) >> 16 == 0;
}

/* Frees two blocks, and then allocates one where each of them was. */
static void
use_again(void)
{
	char *again = malloc(50), *beside = malloc(10000);
	int n = 0;

	give_back(again);
	give_back(beside);
	for (int i = 0; i < AGAIN_MAX && n < 2; i++) {
		char *p = malloc(50);

		if (is_near(p, again) || is_near(p, beside))
			n++;
		else
			free(p);
	}
	if (n < 2)
		exit(9);
	tell("again", again);
	tell("beside", beside);
}

int
main(int argc, char **argv)
{
	char *block, c;

	setvbuf(stdout, malloc(4096), _IOFBF, 4096);
	for (int i = 0; i < KEPT; i++)
		kept[i] = malloc(50);
	free_many();
	use_again();
	block = malloc(20 << 20);
	give_back(block);
	tell("large", block);
	free_object("object", "things", 0);
	free_object("gone", "others", 1);
	block = make_block(100);
	give_back(block);
	tell("block", block);
	printf("thread %ld\nready\n", syscall(SYS_gettid));
	fflush(stdout);
	if (argc > 1 && strcmp(argv[1], "read") == 0)
		return ((volatile char *)block)[5];
	return read(0, &c, 1) != 0;
}
