// A program that replaces one operator, by malloc() or free(), has no kinds.
//
// test env: UMEM_OPTIONS=hardened
#include <new>
#include <string>

#include "tests/programs/check.h"

static int ndeleted;

void
operator delete(void *p) noexcept
{
	ndeleted++;
	free(p);
}

void
operator delete(void *p, size_t) noexcept
{
	ndeleted++;
	free(p);
}

int
main()
{
	for (size_t n = 1; n < 1 << 25; n *= 7) {
		char *one = (char *)keep(operator new(n));
		char *array = (char *)keep(new char[n]);
		char *plain = (char *)keep(malloc(n));

		memset(one, 1, n);
		memset(array, 2, n);
		operator delete(one);
		delete[] array;
		operator delete(plain);
	}
	for (int i = 0; i < 100; i++) {
		std::string text(100 + i, 'x');

		check(*(char *)keep(&text[i]) == 'x');
	}
	check(ndeleted >= 100);
	return 0;
}
