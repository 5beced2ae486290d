/* The end of a block that only malloc_usable_size() knows of. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = secret_block(112);

	drop(p);
	p = block(97);
	judge(sees_secret(p + 97, malloc_usable_size(p) - 97)
		  ? "an earlier owner's data was read"
		  : NULL,
	    97);
}
