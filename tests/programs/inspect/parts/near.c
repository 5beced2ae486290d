/*
 * near.c - lost blocks, and addresses in the memory around them
 *
 * Prints "leak ADDRESS" for each lost block, then "ready", and waits until its
 * standard input ends.  The program keeps addresses in the same 64 KiB as a
 * lost block: those of the 64 KiB, before the block, and behind it.  It also
 * keeps blocks in memory of earlier blocks that pointed to lost ones.  Every
 * block must be a sample.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NBLOCKS 100
#define UNIT    65536

uintptr_t beside[NBLOCKS][3];
char *volatile kept[2 * NBLOCKS];

static void
tell(const char *what, const void *p)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "%s %lx\n", what, (long)p);

	if (write(1, line, (size_t)n) != n)
		_exit(9);
}

static char *
lose(size_t bytes)
{
	char *p = malloc(bytes);

	memset(p, 0x5a, bytes);
	tell("leak", p);
	return p;
}

/* Keeps addresses beside a block, in its unit. */
static void
keep_near(const char *p, size_t bytes, uintptr_t *words)
{
	uintptr_t at = (uintptr_t)p, unit = at / UNIT * UNIT;

	if (at != unit) {
		words[0] = unit;
		words[1] = at - 1;
	}
	/* A block uses at most a quarter more than was requested. */
	words[2] = at + bytes + bytes / 4 + 17;
	if (words[2] >= unit + UNIT)
		words[2] = 0;
}

/*
 * Frees a block that is full of one address, and returns a small block, which
 * is in its place.  The small one uses all of its size class.
 */
static char *
reuse(char *lost)
{
	char **block = malloc(3000), *small;

	for (int i = 0; i < 3000 / (int)sizeof(*block); i++)
		block[i] = lost;
	free(block);
	small = malloc(32);
	memset(small, 0x5a, 32);
	return small;
}

static void *
planter(void *arg)
{
	volatile char deep[65536];

	deep[0] = 0;
	for (int i = 0; i < NBLOCKS; i++) {
		size_t bytes = (size_t)i * 20 + 1;

		keep_near(lose(bytes), bytes, beside[i]);
		kept[2 * i] = reuse(lose(40));
		kept[2 * i + 1] = reuse(lose(2000));
	}
	deep[1] = 0;
	return arg;
}

int
main(void)
{
	pthread_t thread;
	char c;

	pthread_create(&thread, NULL, planter, NULL);
	pthread_join(thread, NULL);
	if (write(1, "ready\n", 6) != 6)
		return 9;
	while (read(0, &c, 1) == 1)
		;
	return 0;
}
