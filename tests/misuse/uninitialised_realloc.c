/* Read the bytes that realloc() added to a block before they are written. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	const char *harm = NULL;
	char *p;

	for (int i = 0; i < 2; i++) {
		p = secret_block(1000);
		drop(p);
	}
	p = block(100);
	check((p = (char *)keep(realloc(p, 1000))) != NULL);
	if (sees_secret(p + 100, 900))
		harm = "an earlier owner's data was read";
	judge(harm, 1000);
}
