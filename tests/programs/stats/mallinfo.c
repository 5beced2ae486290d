/* mallinfo2() and mallinfo() report the bytes in use, and their changes. */
#include <malloc.h>

#include "tests/programs/check.h"

static size_t
in_use(void)
{
	struct mallinfo2 m = mallinfo2();

	/* Large blocks may be counted apart, as glibc's mmapped ones. */
	check(m.uordblks + m.fordblks <= m.arena + m.hblkhd ||
	      m.uordblks + m.fordblks <= m.arena);
	return m.uordblks + m.hblkhd;
}

/* Does the number in use grow by bytes, within a fifth? */
static void
try(size_t n, size_t count)
{
	static char *block[20000];
	size_t before = in_use(), between, after;

	check(count <= 20000);
	for (size_t i = 0; i < count; i++)
		check((block[i] = malloc(n)) != NULL);
	between = in_use();
	printf("%zu of %zu: from %zu to %zu\n", count, n, before, between);
	check(between >= before + n * count * 8 / 10);
	check(between <= before + n * count * 13 / 10 + 200000);
	for (size_t i = 0; i < count; i++)
		free(block[i]);
	after = in_use();
	printf("freed: %zu\n", after);
	check(after <= before + n * count / 10 + 200000);
}

int
main(void)
{
	struct mallinfo old;
	struct mallinfo2 now;

	try(64, 20000);
	try(1000, 20000);
	try(10000, 1000);
	try(200000, 100);
	try(3000000, 10);
	try(40000000, 3);
	now = mallinfo2();
	old = mallinfo();
	check((unsigned)old.arena == (unsigned)now.arena);
	check((unsigned)old.uordblks == (unsigned)now.uordblks);
	check((unsigned)old.hblkhd == (unsigned)now.hblkhd);
	return 0;
}
