// new of 6 numbers, and the seventh set.
#include "tests/misuse/misuse.h"

static void *
six(size_t size)
{
	return new uint64_t[size / sizeof(uint64_t)];
}

static void
end(void *p)
{
	delete[] (uint64_t *)p;
}

int
main()
{
	char *p = row_of(6 * sizeof(uint64_t), six, CONTENT);

	scribble(p + 6 * sizeof(uint64_t), sizeof(uint64_t));
	judge_row_by(malloc, end);
}
