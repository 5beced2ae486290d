/* A string of 16 characters in 16 bytes: its end is past the block. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(16, malloc, CONTENT);
	static const char text[] = "ZZZZZZZZZZZZZZZZ";

	strcpy(p, (const char *)keep((void *)(uintptr_t)text));
	judge_row();
}
