/*
 * resized.c - a program with a vector that grows by realloc()
 *
 * vector_begin() allocates 40 MiB, before the program is ready.  Each line of
 * input lets vector_grow() enlarge it to twice its size in steps of 1 MiB, in
 * place if the memory behind it is free.  The program ends at the end of input.
 */
#include <stdio.h>
#include <stdlib.h>

enum {
	MIB = 1 << 20
};

static char *volatile vector;

static __attribute__((noinline)) void
vector_begin(size_t bytes)
{
	vector = malloc(bytes);
	vector[0] = 1;
}

static __attribute__((noinline)) void
vector_grow(size_t bytes)
{
	vector = realloc(vector, bytes);
	vector[0]++;
}

int
main(void)
{
	size_t bytes = 40 * MIB;
	char line[8];

	vector_begin(bytes);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		for (size_t end = 2 * bytes; bytes < end;)
			vector_grow(bytes += MIB);
		printf("grown %zu\n", bytes);
		fflush(stdout);
	}
	return 0;
}
