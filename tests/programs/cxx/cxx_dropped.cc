// A cache that is destroyed with objects in use says so in one line, and keeps
// their memory.
//
// test cflags: -idirafter umem -idirafter vmem -Wconversion -Wshadow
// test link: umem
// test stderr: ^umem: umem_cache_destroy: 'dropped' \(0x[0-9a-f]+\) not empty$
#include <cstring>

#include <umem.hpp>

#include "tests/programs/check.h"

int
main()
{
	struct text {
		char of[100];
	};
	text *some[5];
	{
		umem::cache<text> dropped("dropped");

		for (text *&one : some) {
			one = dropped.make().release();
			memset(one->of, 'x', sizeof(one->of));
		}
	}
	umem::cache<text> other;
	for (int i = 0; i < 10000; i++)
		memset(other.make().release()->of, 'y', 100);
	for (text *one : some)
		for (char c : one->of)
			check(c == 'x');
	_exit(0);
}
