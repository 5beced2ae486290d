// umem::arena, an arena as the source of a cache, and figures of the library.
//
// test cflags: -idirafter umem -idirafter vmem -Wconversion -Wshadow
// test link: umem
// test stderr: ^umem: vmem_destroy\('left'\): leaked 3 identifiers$
#include <umem.hpp>

#include "tests/programs/check.h"

namespace
{

template <class F>
int
error_of(F f)
{
	try {
		f();
	} catch (const std::bad_alloc &) {
		return ENOMEM;
	} catch (const std::system_error &error) {
		return error.code().value();
	}
	return 0;
}

void
identifiers()
{
	umem::arena ids("ids", 1, 10);
	std::uintptr_t one = ids.allocate(1), rest = ids.allocate(9);

	check(one >= 1 && one <= 10 && ids.available() == 0);
	check(ids.try_allocate(1) == 0);
	check(error_of([&] { (void)ids.allocate(1); }) == ENOMEM);
	ids.add(1000, 10);
	std::uintptr_t high = ids.allocate_within(2, 4, 1000, 1010);
	check(high % 4 == 0 && ids.contains(high, 2) && !ids.contains(50, 1));
	check(ids.allocated() == 12);
	ids.deallocate_within(high, 2);
	ids.deallocate(rest, 9);
	umem::arena moved(std::move(ids));
	moved.deallocate(one, 1);
	check(ids.get() == nullptr && moved.allocated() == 0);
	umem::arena other("other", 1, 5);
	other = std::move(moved);
	auto &same = other;
	other = std::move(same);
	check(moved.get() == nullptr && other.available() == 20);
	check(error_of([] { umem::arena bad("bad", 1, 10, 3); }) == EINVAL);
}

void
source_of_a_cache()
{
	umem::arena memory = umem::arena::of_heap("memory");
	umem::cache_options options;

	options.source = memory.get();
	umem::cache<long> objects("objects", options);
	auto one = objects.make(7);
	check(*one == 7 && memory.allocated() > 0);
}

} // namespace

int
main()
{
	identifiers();
	source_of_a_cache();
	{
		umem::arena left("left", 1, 100);
		check(left.allocate(3) != 0);
	}
	umem::cache<int> some;
	check(umem::stats().ncaches > 0);
	std::string text = umem::metrics();
	check(text.size() > 100 && text.back() == '\n' &&
	      text.find("# EOF") != std::string::npos);
	return 0;
}
