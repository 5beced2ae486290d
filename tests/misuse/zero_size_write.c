/* A block of no bytes, and a word written to it. */
#include "tests/misuse/misuse.h"

static char *made[1000];

int
main(void)
{
	char *victim = NULL;

	for (int i = 0; i < 1000; i++) {
		made[i] = (char *)keep(malloc(i % 2 == 0 ? 0 : 8));
		check(made[i] != NULL);
		if (i % 2 != 0)
			put_bytes(made[i], CONTENT, 8);
	}
	victim = made[500];
	scribble(victim, 8);
	for (int i = 1; i < 1000; i += 2)
		if (made[i][0] != CONTENT || made[i][7] != CONTENT)
			judge("another block was changed", 8);
	drop(victim);
	judge(NULL, 8);
}
