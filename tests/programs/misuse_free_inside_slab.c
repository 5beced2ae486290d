/*
 * free() of an address inside a block that is several units of 64 KiB long,
 * in a later unit than the one it begins in, and at that unit's start.
 */
#include "tests/programs/check.h"

int
main(void)
{
	uintptr_t p = (uintptr_t)malloc(300000);

	check(p != 0);
	free((void *)((p + 0x20000) & ~(uintptr_t)0xffff));
	return 0;
}
