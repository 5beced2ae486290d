/* 2000 objects freed, and the first of them again. */
#include "tests/misuse/object.h"

int
main(void)
{
	cache = object_cache();
	static void *made[2000];

	for (int i = 0; i < 2000; i++)
		made[i] = get(64);
	for (int i = 0; i < 2000; i++)
		put(made[i]);
	put(made[0]);
	judge_by(NULL, 64, get);
}
