/* A new block of 1 MiB read before it is written. */
#include "tests/misuse/misuse.h"

static char *made[4];

int
main(void)
{
	const char *harm = NULL;

	for (int i = 0; i < 4; i++)
		made[i] = secret_block(MIB);
	for (int i = 0; i < 4; i++)
		drop(made[i]);
	for (int i = 0; i < 4; i++) {
		check((made[i] = (char *)keep(malloc(MIB))) != NULL);
		if (sees_secret(made[i], MIB))
			harm = "an earlier owner's data was read";
	}
	judge(harm, MIB);
}
