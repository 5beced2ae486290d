/* A new block of 5000 read before it is written. */
#include "tests/misuse/misuse.h"

static char *made[20];

int
main(void)
{
	const char *harm = NULL;

	for (int i = 0; i < 20; i++)
		made[i] = secret_block(5000);
	for (int i = 0; i < 20; i++)
		drop(made[i]);
	for (int i = 0; i < 20; i++) {
		check((made[i] = (char *)keep(malloc(5000))) != NULL);
		if (sees_secret(made[i], 5000))
			harm = "an earlier owner's data was read";
	}
	judge(harm, 5000);
}
