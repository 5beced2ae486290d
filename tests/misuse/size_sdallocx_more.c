/* sdallocx() of a block of 100 with 1000. */
#include "tests/misuse/misuse.h"

extern void sdallocx(void *, size_t, int) __attribute__((weak));

int
main(void)
{
	char *p = row_of(100, malloc, CONTENT);

	need(sdallocx);
	own_row();
	sdallocx(p, 1000, 0);
	also_search(100);
	judge(NULL, 1000);
}
