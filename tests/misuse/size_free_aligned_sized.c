/* free_aligned_sized() with an alignment and a size that are another's. */
#include "tests/misuse/misuse.h"

static void *
on_line(size_t size)
{
	return aligned_alloc(64, size);
}

int
main(void)
{
	char *p = row_of(128, on_line, CONTENT);

	need(free_aligned_sized);
	own_row();
	free_aligned_sized(p, 4096, 8192);
	also_search(128);
	judge(NULL, 8192);
}
