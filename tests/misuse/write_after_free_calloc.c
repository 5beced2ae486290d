/* A word written to a free block: does calloc() give zeros? */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = block(64);

	drop(p);
	scribble(p + 8, 8);
	for (int i = 0; i < 1000; i++) {
		char *q = (char *)keep(calloc(4, 16));

		check(q != NULL);
		if (!is_zero(q, 64))
			judge("calloc() gives what is not zero", 64);
	}
	judge(NULL, 64);
}
