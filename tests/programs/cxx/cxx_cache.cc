// Objects of umem::cache: made, taken, shared, in bulk; constructors that
// throw, want of memory, moves, threads.
//
// test cflags: -idirafter umem -idirafter vmem -Wconversion -Wshadow
// test link: umem
//
// test run: all
// test no stderr: .
// test run: dropped
// test args: dropped
// test stderr: ^umem: umem_cache_destroy: 'dropped' \(0x[0-9a-f]+\) not empty$
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <umem.hpp>

#include "tests/programs/check.h"

namespace
{

std::atomic<int> nlive{0};
// The constructor of counted throws when it has counted down to 0.
std::atomic<int> countdown{-1};

struct counted {
	explicit counted(int n = 0) : number(n), name("an object with a name")
	{
		if (countdown >= 0 && countdown-- == 0)
			throw std::runtime_error("countdown");
		nlive++;
	}
	counted(const counted &) = delete;
	counted &operator=(const counted &) = delete;
	~counted()
	{
		nlive--;
	}

	int number;
	std::string name;
};

struct alignas(1024) page_part {
	char bytes[1024];
};

struct point {
	int x, y;
};

struct move_only {
	explicit move_only(std::unique_ptr<int> from) : value(std::move(from))
	{
	}
	std::unique_ptr<int> value;
};

template <class F>
bool
throws_bad_alloc(F f)
{
	try {
		f();
	} catch (const std::bad_alloc &) {
		return true;
	}
	return false;
}

template <class F>
bool
throws_countdown(int n, F f)
{
	countdown = n;
	try {
		f();
	} catch (const std::runtime_error &) {
		countdown = -1;
		return true;
	}
	countdown = -1;
	return false;
}

void
made_objects()
{
	umem::cache<counted> objects;
	auto one = objects.make(1);
	auto two = objects.try_make(2);

	check(strstr(objects.name(), "counted") != nullptr);
	check(one->number == 1 && two->number == 2 && nlive == 2);
	check(throws_countdown(0, [&] { (void)objects.make(3); }));
	check(throws_countdown(0, [&] { (void)objects.try_make(3); }));
	check(nlive == 2);
	one.reset();
	check(nlive == 1);
	auto three = objects.make(umem::request{UMEM_NOFAIL}, 3);
	const umem::request nofail{UMEM_NOFAIL};
	auto four = objects.try_make(nofail, 4);
	check(three->number == 3 && four->number == 4);
	one = std::move(four);
	check(one->number == 4 && four == nullptr);

	umem::cache<point> points("points");
	auto at = points.make(3, 4), origin = points.make();
	check(at->x == 3 && at->y == 4 && origin->x == 0 && origin->y == 0);
	check(strcmp(points.name(), "points") == 0);

	umem::cache<page_part> parts;
	auto a = parts.make(), b = parts.make();
	check((reinterpret_cast<uintptr_t>(a.get()) |
		  reinterpret_cast<uintptr_t>(b.get())) %
		  1024 ==
	      0);

	umem::cache<move_only> movers;
	check(*movers.make(std::make_unique<int>(5))->value == 5);
}

void
shared_objects()
{
	umem::cache<counted> objects;
	std::weak_ptr<counted> weak;
	{
		std::shared_ptr<counted> one = objects.make_shared(1);
		std::shared_ptr<counted> two = one;

		weak = one;
		check(nlive == 1 && two->number == 1);
	}
	check(nlive == 0 && weak.expired());
	check(throws_countdown(0, [&] { (void)objects.make_shared(3); }));
	std::shared_ptr<counted> other = objects.share(objects.make(7));
	check(other->number == 7);
	other.reset();
	check(objects.shrink());
	// Of no object there is no owner, and nothing is destroyed.
	check(objects.share(nullptr).use_count() == 0);
	check(nlive == 0);
}

void
kept_objects()
{
	{
		umem::cache<counted, umem::kept> objects;
		counted *address;
		{
			auto one = objects.take();

			one->number = 42;
			address = one.get();
		}
		check(nlive == 1);
		auto again = objects.take();
		check(again.get() == address && again->number == 42);
		check(throws_countdown(0, [&] { (void)objects.take(); }));
		check(throws_countdown(0, [&] { (void)objects.try_take(); }) ==
		      false);
		auto other = objects.try_take(umem::request{UMEM_NOFAIL});
		check(other != nullptr && nlive == 2);

		counted *many[100];
		check(throws_countdown(
		    50, [&] { objects.take_bulk(many, 100); }));
		objects.take_bulk(many, 100);
		check(nlive >= 102);
		objects.free_bulk(many, 100);
		auto shared = objects.share(objects.take());
		shared->number = 1;
	}
	check(nlive == 0);
}

void
bulk_objects()
{
	umem::cache<counted> objects;
	counted *many[1000];

	for (std::size_t n : {0u, 1u, 16u, 1000u}) {
		objects.make_bulk(many, n, 9);
		check(nlive == static_cast<int>(n));
		for (std::size_t i = 0; i < n; i++)
			check(many[i]->number == 9);
		objects.free_bulk(many, n);
		check(nlive == 0);
	}
	check(throws_countdown(500, [&] { objects.make_bulk(many, 1000, 9); }));
	check(nlive == 0 && objects.shrink());
	objects.make_bulk(many, 2, 8);
	auto owner = objects.adopt(many[0]);
	many[0] = nullptr;
	objects.free_bulk(many, 2);
	check(nlive == 1 && owner->number == 8);
}

void
limited_objects()
{
	umem::cache_options options;

	options.limit = 2;
	umem::cache<counted> objects("limited", options);
	auto one = objects.make(), two = objects.make();

	check(throws_bad_alloc([&] { (void)objects.make(); }));
	errno = 0;
	check(objects.try_make() == nullptr && errno == EAGAIN);
	counted *many[2];
	check(throws_bad_alloc([&] { objects.make_bulk(many, 2); }));
	check(objects.limits().in_use == 2 && objects.limits().limit == 2);
	// A constructor that throws gives its object back.
	two.reset();
	for (int i = 0; i < 10; i++)
		check(throws_countdown(0, [&] { (void)objects.make(); }));
	check(objects.limits().in_use == 1);
	objects.set_limit(3);
	two = objects.make();
	auto three = objects.make();
	objects.set_limit_wait(1);
	errno = 0;
	check(objects.try_make() == nullptr && errno == ETIMEDOUT);

	umem::cache<counted> unlimited;
	bool refused = false;
	try {
		unlimited.set_limit(1);
	} catch (const std::system_error &error) {
		refused = error.code().value() == ENOTSUP &&
			  strstr(error.what(), "set_limit") != nullptr;
	}
	check(refused);
	refused = false;
	try {
		umem::cache_options bad;

		bad.cflags = 1;
		umem::cache<int> wrong("wrong", bad);
	} catch (const std::system_error &error) {
		refused = error.code().value() == EINVAL;
	}
	check(refused);
	unlimited.set_reserve(5);
	check(unlimited.limits().ready == 5);
	unlimited.set_reserve(0);
	unlimited.reap();
}

// A reserve of kept objects is constructed ahead; its failure is that of T.
void
reserved_objects()
{
	umem::cache_options options;

	options.reserve = 5;
	check(throws_countdown(2, [&] {
		umem::cache<counted, umem::kept> refused("refused", options);
	}));
	check(nlive == 0);
	{
		umem::cache<counted, umem::kept> objects;

		check(throws_countdown(2, [&] { objects.set_reserve(5); }));
		objects.set_reserve(5);
		check(nlive >= 5 && objects.limits().ready == 5);
		auto one = objects.take(umem::request{UMEM_RESERVE});
	}
	check(nlive == 0);
}

// The exception of a constructor that try_take() called is not that of a later
// call, which finds no memory.
void
one_failure_each()
{
	umem::cache<counted, umem::kept> objects;

	countdown = 0;
	check(objects.try_take() == nullptr);
	countdown = -1;
	umem_setmtbf(1);
	check(throws_bad_alloc([&] { (void)objects.take(); }));
	umem_setmtbf(0);

	// Nor is it if that request took an object of the reserve.
	objects.set_reserve(1);
	countdown = 0;
	auto one = objects.take(umem::request{UMEM_RESERVE});
	check(countdown == -1);
	umem::cache<int> others;
	umem_setmtbf(1);
	check(throws_bad_alloc([&] { (void)others.make(1); }));
	check(throws_bad_alloc([&] { (void)objects.take(); }));
	check(throws_bad_alloc([&] {
		counted *many[2];

		objects.take_bulk(many, 2);
	}));
	umem_setmtbf(0);
	one.reset();
}

void
want_of_memory()
{
	umem::cache<counted> objects;
	umem::cache<counted, umem::kept> keeps;

	umem_setmtbf(1);
	check(throws_bad_alloc([&] { (void)objects.make(); }));
	check(throws_bad_alloc([&] { (void)keeps.take(); }));
	check(throws_bad_alloc([&] { (void)objects.make_shared(); }));
	errno = 0;
	check(objects.try_make() == nullptr && errno == ENOMEM);
	check(keeps.try_take() == nullptr);
	counted *many[20];
	check(throws_bad_alloc([&] { objects.make_bulk(many, 20); }));
	check(objects.make(umem::request{UMEM_NOFAIL}, 3)->number == 3);
	umem_setmtbf(0);
	check(nlive == 0);
}

void
moved_caches()
{
	static_assert(!std::is_copy_constructible_v<umem::cache<int>>);
	static_assert(std::is_nothrow_move_constructible_v<umem::cache<int>>);
	static_assert(std::is_nothrow_move_assignable_v<umem::cache<int>>);
	umem::cache<counted> first("first");
	auto one = first.make(1);
	umem::cache<counted> second(std::move(first));
	auto two = second.make(2);

	check(first.get() == nullptr && strcmp(second.name(), "first") == 0);
	umem::cache<counted> third("third");
	third = std::move(second);
	check(second.get() == nullptr && strcmp(third.name(), "first") == 0);
	auto &same = third;
	third = std::move(same);
	check(strcmp(third.name(), "first") == 0);
	one.reset();
	two.reset();
	check(nlive == 0);
	std::vector<umem::cache<int>> several;
	for (int i = 0; i < 10; i++)
		several.emplace_back();
	check(*several[5].make(3) == 3);
}

void
threads_share_a_cache()
{
	umem::cache<counted> objects;
	umem::cache<counted, umem::kept> keeps;
	std::vector<std::thread> threads;

	for (int t = 0; t < 4; t++)
		threads.emplace_back([&, t] {
			std::vector<umem::cache<counted>::pointer> some;

			for (int i = 0; i < 20000; i++) {
				some.push_back(objects.make(t));
				auto kept = keeps.take();
				kept->number = t;
				check(some[some.size() / 2]->number == t);
				check(kept->number == t);
				if (some.size() > 50)
					some.erase(
					    some.begin(), some.end() - 9);
			}
		});
	for (std::thread &thread : threads)
		thread.join();
	check(objects.shrink());
}

// Each thread has a local of its own; the cache is shared.
void
local_objects()
{
	umem::cache<counted> objects;
	std::vector<std::thread> threads;

	static_assert(!std::is_move_constructible_v<umem::local<counted>>);
	static_assert(!std::is_copy_assignable_v<umem::local<counted>>);
	for (int t = 0; t < 3; t++)
		threads.emplace_back([&, t] {
			umem::local<counted> ours(objects);
			std::vector<umem::local<counted>::pointer> some;

			for (int i = 0; i < 10000; i++) {
				some.push_back(ours.make(t));
				check(some[some.size() / 3]->number == t);
				if (some.size() == 200)
					some.resize(
					    static_cast<std::size_t>(i % 200));
			}
		});
	for (std::thread &thread : threads)
		thread.join();
	check(nlive == 0);
	{
		umem::local<counted> ours(objects);

		auto one = ours.make(1);
		check(throws_countdown(0, [&] { (void)ours.make(2); }));
		auto two = ours.make(3);
		one = std::move(two);
		check(one->number == 3 && nlive == 1);
	}
	check(nlive == 0 && objects.shrink());

	umem::cache<page_part> parts;
	umem::local<page_part> our_parts(parts);
	check(reinterpret_cast<uintptr_t>(our_parts.make().get()) % 1024 == 0);
}

// A local takes single objects from a cache that has less than it wants.
void
local_objects_within_a_limit()
{
	umem::cache_options options;

	options.limit = 3;
	umem::cache<counted> few("few", options);
	{
		umem::local<counted> ours(few);
		auto one = ours.make(1), two = ours.make(2),
		     three = ours.make(3);

		check(throws_bad_alloc([&] { (void)ours.make(4); }));
		three.reset();
		check(ours.make(5)->number == 5);
		check(few.limits().in_use == 3);
	}
	check(few.limits().in_use == 0 && nlive == 0);
}

// A cache that is destroyed with objects in use says so in one line, and keeps
// their memory.
void
dropped_cache()
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

} // namespace

int
main(int argc, char **)
{
	if (argc > 1)
		dropped_cache();
	made_objects();
	check(nlive == 0);
	shared_objects();
	check(nlive == 0);
	kept_objects();
	bulk_objects();
	check(nlive == 0);
	limited_objects();
	check(nlive == 0);
	reserved_objects();
	one_failure_each();
	check(nlive == 0);
	want_of_memory();
	moved_caches();
	threads_share_a_cache();
	check(nlive == 0);
	local_objects();
	local_objects_within_a_limit();
	return 0;
}
