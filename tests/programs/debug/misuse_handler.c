/*
 * A handler of SIGABRT runs after the message.  It may leave by longjmp(), and
 * malloc() works afterwards.
 *
 * test stderr: ^umem: free\(0x[0-9a-f]+\): not an address of the heap$
 * test stderr: ^umem: free\(0x[0-9a-f]+\): block freed twice$
 * test stderr: ^umem: free\(0x[0-9a-f]+\): not the start of a block$
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

int
main(void)
{
	struct sigaction act = {.sa_handler = on_abort};
	char local[64] __attribute__((aligned(16)));
	char *p = malloc(100), *large = malloc(50 * MIB);

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
