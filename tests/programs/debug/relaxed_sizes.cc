/*
 * relaxed_sizes.cc - a sized free is right although the block has a larger size
 * than its request: a shrink found no memory for a smaller block, or operator
 * new called the new-handler.  With an argument, that is the first such block.
 *
 * test run: plain
 * test run: debugged
 * test modes: default
 * test env: UMEM_DEBUG=default
 * test run: hardened
 * test modes: default
 * test env: UMEM_OPTIONS=hardened
 * test run: aligned
 * test modes: default
 * test args: aligned
 * test env: UMEM_DEBUG=default
 */
#include <new>

#include "tests/programs/check.h"

#pragma weak free_sized
#pragma weak umem_ctl
#pragma weak umem_setmtbf
extern "C" void free_sized(void *p, size_t size);

static unsigned ncalls;

static void
make_room()
{
	ncalls++;
	check(umem_ctl("hard_limit", "none", NULL, 0) == 0);
}

static void
shrink(size_t from, size_t to)
{
	char *p = (char *)malloc(from), *q;

	check(p != NULL);
	umem_setmtbf(1);
	q = (char *)realloc(p, to);
	umem_setmtbf(0);
	check(q != NULL);
	free_sized(q, to);
}

int
main(int argc, char **argv)
{
	const std::align_val_t align = std::align_val_t(4096);
	const size_t bytes = 24 * MIB + 8;
	void *p;

	if (umem_setmtbf == NULL || free_sized == NULL)
		return 77;
	(void)argv;
	if (argc == 1) {
		shrink(3000, 100);
		shrink(3 * MIB, 100000);
	}
	std::set_new_handler(make_room);
	check(umem_ctl("hard_limit", "8m", NULL, 0) == 0);
	p = operator new(bytes, align);
	check(ncalls == 1);
	operator delete(p, bytes, align);
	return 0;
}
