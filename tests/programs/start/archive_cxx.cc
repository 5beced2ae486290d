// A static program in C++ with libumem_malloc.a: operator new calls the
// new-handler, throws, and returns NULL where it must not throw.
//
// test link: archive
// test cflags: -static
// test not with: address has a malloc of its own
// test not with: thread has a malloc of its own
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tests/programs/check.h"

static int ncalls;

static void
give_up_the_third_time()
{
	if (++ncalls == 3)
		std::set_new_handler(nullptr);
}

// Whether a function throws std::bad_alloc.
template <typename F>
static bool
throws_bad_alloc(F f)
{
	try {
		f();
	} catch (const std::bad_alloc &) {
		return true;
	}
	return false;
}

int
main()
{
	volatile size_t huge = static_cast<size_t>(1) << 61;
	std::map<std::string, std::vector<int>> map;

	std::set_new_handler(give_up_the_third_time);
	// Without keep(), a compiler may leave out the allocation.
	check(throws_bad_alloc(
	    [&] { delete[] static_cast<char *>(keep(new char[huge])); }));
	check(ncalls == 3);
	check(throws_bad_alloc([&] {
		std::vector<double> v(huge / 8);

		keep(v.data());
	}));
	check(keep(new (std::nothrow) char[huge]) == nullptr);
	std::thread([&] {
		for (int i = 0; i < 1000; i++)
			map[std::to_string(i)].assign(100, i);
	}).join();
	for (int i = 0; i < 1000; i++)
		check(map[std::to_string(i)][99] == i);
	return 0;
}
