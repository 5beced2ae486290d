/*
 * A handler of SIGABRT that returns does not save the program.
 *
 * test signal: 6
 * test stderr: ^umem: free\(0x[0-9a-f]+\): not the start of a block$
 * test stderr: ^handler was called$
 */
#include <signal.h>

#include "tests/programs/check.h"

static void
on_abort(int signal)
{
	static const char text[] = "handler was called\n";

	(void)signal;
	check(write(2, text, sizeof(text) - 1) > 0);
}

int
main(void)
{
	char *p = malloc(100);

	check(p != NULL && signal(SIGABRT, on_abort) != SIG_ERR);
	free(p + 16);
	return 0;
}
