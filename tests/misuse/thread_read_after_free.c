/* Freed by one thread, read by another. */
#include "tests/misuse/misuse.h"

static void *
end(void *p)
{
	drop(p);
	return NULL;
}

int
main(void)
{
	char *p = secret_block(64);

	elsewhere(end, p);
	judge(sees_secret(p, 64) ? "read after it was freed" : NULL, 64);
}
