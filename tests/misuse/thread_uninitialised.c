/* A new block holds data that another thread wrote to it before. */
#include "tests/misuse/misuse.h"

static void *
confide(void *arg)
{
	(void)arg;
	for (int i = 0; i < 100; i++)
		drop(secret_block(64));
	drop(secret_block(100000));
	return NULL;
}

int
main(void)
{
	elsewhere(confide, NULL);
	also_search(100000);
	judge(NULL, 64);
}
