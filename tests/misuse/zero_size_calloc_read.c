/* A block of calloc() of no bytes, read after an owner of its memory. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	static char *made[1000];
	bool seen = false;

	for (int i = 0; i < 1000; i++)
		made[i] = secret_block(8);
	for (int i = 0; i < 1000; i++)
		drop(made[i]);
	for (int i = 0; i < 1000; i++) {
		char *p = (char *)keep(calloc(number(0), 8));

		check(p != NULL);
		seen |= sees_secret(p, 8);
	}
	judge(seen ? "an earlier owner's data was read" : NULL, 8);
}
