// A derived object is deleted by a pointer to its base.  The destructor of the
// base is not virtual, so delete passes the size of the base.
#include <cstdio>
#include <cstdlib>

struct base {
	long a;
};

struct derived : base {
	char more[500];
};

int
main()
{
	base *volatile p = new derived;

	delete p;
	fprintf(stderr, "reached\n");
	return 0;
}
