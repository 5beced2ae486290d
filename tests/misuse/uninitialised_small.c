/* A new block of 64 read before it is written. */
#include "tests/misuse/misuse.h"

static char *made[100];

int
main(void)
{
	const char *harm = NULL;

	for (int i = 0; i < 100; i++)
		made[i] = secret_block(64);
	for (int i = 0; i < 100; i++)
		drop(made[i]);
	for (int i = 0; i < 100; i++) {
		check((made[i] = (char *)keep(malloc(64))) != NULL);
		if (sees_secret(made[i], 64))
			harm = "an earlier owner's data was read";
	}
	judge(harm, 64);
}
