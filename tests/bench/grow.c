/*
 * grow.c - growing buffers by realloc
 *
 *	grow.one	one buffer, half as large again each time, to 64 MiB
 *	grow.eight	eight in turn, to 8 MiB each
 *	grow.append	one buffer, 64 KiB more each time, to 32 MiB
 *	grow.small	1000 in turn, half as large again each time, to 4 KiB
 *	grow.block	a block of 16 MiB, filled and freed
 *
 * in processor time, ms for all of it.  The program writes the new part of a
 * buffer after each realloc.
 *
 * Source: strings, buffers and arrays grow in this way in most programs.
 *
 * Usage: grow [scale]
 */
#include "tests/bench/bench.h"

#define NMOST 1000

struct growth {
	size_t nbuffers;
	size_t first; /* bytes */
	size_t last;
	size_t step; /* bytes each time; 0: half as much again */
};

static size_t
larger(const struct growth *growth, size_t bytes)
{
	bytes += growth->step > 0 ? growth->step : bytes / 2;
	return bytes < growth->last ? bytes : growth->last;
}

static void
grow_once(const struct growth *growth)
{
	static char *buffer[NMOST];
	size_t old = 0, bytes = growth->first;

	for (;;) {
		for (size_t i = 0; i < growth->nbuffers; i++) {
			buffer[i] = realloc(buffer[i], bytes);
			if (buffer[i] == NULL)
				bench_die("realloc");
			memset(buffer[i] + old, 1, bytes - old);
		}
		if (bytes == growth->last)
			break;
		old = bytes;
		bytes = larger(growth, bytes);
	}
	for (size_t i = 0; i < growth->nbuffers; i++) {
		free(buffer[i]);
		buffer[i] = NULL;
	}
}

static void
grow(void *arg, size_t n)
{
	while (n-- > 0)
		grow_once(arg);
}

static void
measure(const char *name, struct growth growth, double scale)
{
	bench_print(
	    bench_ns_each(grow, &growth, scale) / 1e6, "ms", "grow.%s", name);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);

	measure("one", (struct growth){1, 16, 64 << 20, 0}, scale);
	measure("eight", (struct growth){8, 16, 8 << 20, 0}, scale);
	measure("append", (struct growth){1, 65536, 32 << 20, 65536}, scale);
	measure("small", (struct growth){NMOST, 16, 4096, 0}, scale);
	measure("block", (struct growth){1, 16 << 20, 16 << 20, 0}, scale);
	return 0;
}
