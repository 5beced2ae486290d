/*
 * malloc_stats() writes to standard error, and nothing else does.
 *
 * test modes: default
 */
#include <malloc.h>

#include "tests/programs/check.h"

int
main(void)
{
	int out[2], err[2], old = dup(2);
	static char text[1 << 16];
	ssize_t n;

	check(old >= 0 && pipe2(out, O_NONBLOCK) == 0 &&
	      pipe2(err, O_NONBLOCK) == 0);
	fflush(stdout);
	check(dup2(out[1], 1) == 1 && dup2(err[1], 2) == 2);
	keep(malloc(1000));
	malloc_stats();
	fflush(stderr);
	fflush(stdout);
	check(dup2(old, 2) == 2);
	check(read(out[0], text, sizeof(text)) < 0 && errno == EAGAIN);
	n = read(err[0], text, sizeof(text) - 1);
	check(n > 20);
	check(write(2, text, (size_t)n) == n);
	check(strpbrk(text, "123456789") != NULL);
	return 0;
}
