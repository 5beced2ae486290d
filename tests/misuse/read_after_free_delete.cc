// A virtual call through a deleted object.
#include "tests/misuse/misuse.h"

struct base {
	virtual ~base() {}
	virtual bool secret() { return false; }
};

struct derived : base {
	uint64_t value[4];
	bool secret() { return value[3] == 42; }
};

int
main()
{
	derived *p = (derived *)keep(new derived);
	base *old = (base *)keep(p);

	p->value[3] = 42;
	delete (derived *)keep(p);
	judge(((base *)keep(old))->secret() ? "used after it was deleted" : NULL,
	    sizeof(derived));
}
