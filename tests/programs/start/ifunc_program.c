/* malloc works in the resolver of an IFUNC of the program.
 *
 * test not with: musl has no indirect functions
 */
#include "tests/programs/check.h"

static char *early;

static int
answer(void)
{
	return 42;
}

/* The loader calls it while it relocates; most of libc is not usable yet. */
static int (*resolve(void))(void)
{
	early = malloc(1000);
	if (early != NULL) {
		for (int i = 0; i < 1000; i++)
			early[i] = 1;
		early = realloc(early, 3000);
		free(malloc(200000));
		free(calloc(10, 10));
	}
	return answer;
}

int which(void) __attribute__((ifunc("resolve")));

int
main(void)
{
	check(which() == 42);
	check(early != NULL && early[0] == 1 && early[999] == 1);
	free(early);
	churn(1, 10000, 100000);
	return 0;
}
