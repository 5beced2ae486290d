// A derived object deleted by a pointer to its base, whose destructor is not
// virtual: the size is another class's.
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
