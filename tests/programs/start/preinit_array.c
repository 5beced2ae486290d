/* malloc works in the preinit array, before any constructor has run.
 *
 * test not with: musl has no preinit_array
 */
#include "tests/programs/check.h"

static char *early, *large;
static int stage;

static void
preinit(void)
{
	check(stage++ == 0);
	check((early = malloc(1000)) != NULL);
	check((large = calloc(1, 3000000)) != NULL);
	stamp(early, 1000, 1);
	free(malloc(10));
	churn(1, 2000, 100000);
}

__attribute__((section(".preinit_array"), used)) static void (*entry)(
    void) = preinit;

static __attribute__((constructor(101))) void
construct(void)
{
	check(stage++ == 1);
	check((early = realloc(early, 5000)) != NULL);
	churn(2, 2000, 100000);
}

int
main(void)
{
	check(stage == 2);
	check(is_stamped(early, 1000, 1) && is_zero(large, 3000000));
	free(early);
	free(large);
	return 0;
}
