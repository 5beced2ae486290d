/* A new block of 20 MiB read before it is written. */
#include "tests/misuse/misuse.h"

static char *made[1];

int
main(void)
{
	const char *harm = NULL;

	for (int i = 0; i < 1; i++)
		made[i] = secret_block(20 * MIB);
	for (int i = 0; i < 1; i++)
		drop(made[i]);
	for (int i = 0; i < 1; i++) {
		check((made[i] = (char *)keep(malloc(20 * MIB))) != NULL);
		if (sees_secret(made[i], 20 * MIB))
			harm = "an earlier owner's data was read";
	}
	judge(harm, 20 * MIB);
}
