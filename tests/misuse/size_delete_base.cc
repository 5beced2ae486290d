// A large object deleted as its small base, without a virtual destructor.
#include "tests/misuse/misuse.h"

struct base {
	uint64_t value[2];
};

struct derived : base {
	uint64_t more[50];
};

int
main()
{
	base *p = (base *)keep(new derived);

	delete (base *)keep(p);
	also_search(sizeof(derived));
	judge(NULL, sizeof(base));
}
