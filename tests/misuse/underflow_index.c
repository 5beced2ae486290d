/* An index of -3 in an array of numbers. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	uint32_t *p = (uint32_t *)(void *)row_of(40, malloc, CONTENT);

	scribble(p - 3, sizeof(*p));
	judge_row();
}
