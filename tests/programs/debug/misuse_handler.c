/*
 * A handler of SIGABRT runs after the message.  It may leave by longjmp(), and
 * malloc() works afterwards.  A handler that returns does not save the program.
 *
 * test stderr: ^umem: free\(0x[0-9a-f]+\): not the start of a block$
 *
 * test run: leaves
 * test stderr: ^umem: free\(0x[0-9a-f]+\): not an address of the heap$
 * test stderr: ^umem: free\(0x[0-9a-f]+\): block freed twice$
 * test run: returns
 * test args: returns
 * test signal: 6
 * test stderr: ^handler was called$
 */
#include <setjmp.h>
#include <signal.h>

#include "tests/programs/check.h"

static sigjmp_buf back;
static volatile int ncalls;

static void
on_abort(int signal)
{
	(void)signal;
	ncalls++;
	siglongjmp(back, 1);
}

static void
on_abort_return(int signal)
{
	static const char text[] = "handler was called\n";

	(void)signal;
	check(write(2, text, sizeof(text) - 1) > 0);
}

static int
freed_inside(void)
{
	char *p = malloc(100);

	check(p != NULL && signal(SIGABRT, on_abort_return) != SIG_ERR);
	free(p + 16);
	return 0;
}

int
main(int argc, char **argv)
{
	struct sigaction act = {.sa_handler = on_abort};
	char local[64] __attribute__((aligned(16)));
	char *p = malloc(100), *large = malloc(50 * MIB);

	(void)argv;
	if (argc > 1)
		return freed_inside();
	check(p != NULL && large != NULL);
	check(sigaction(SIGABRT, &act, NULL) == 0);
	if (sigsetjmp(back, 1) == 0)
		free(keep(local));
	check(ncalls == 1);
	free(p);
	if (sigsetjmp(back, 1) == 0)
		free(p);
	check(ncalls == 2);
	if (sigsetjmp(back, 1) == 0)
		free(large + 64 * KIB);
	check(ncalls == 3);
	free(large);
	churn(1, 100000, 100000);
	return 0;
}
