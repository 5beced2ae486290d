// Containers of the standard library on umem::resource, umem::allocator and
// umem::slab_allocator, in three threads.
//
// test cflags: -idirafter umem -idirafter vmem -Wconversion -Wshadow
// test link: umem
// test no stderr: .
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <umem.hpp>

#include "tests/programs/check.h"

namespace
{

struct alignas(256) aligned {
	char bytes[256];
};

struct alignas(32) line_half {
	char bytes[32];
};

struct wide {
	long double number;
	char more[16];
};

struct rgb {
	unsigned char of[3];
};

template <class T>
bool
is_aligned_for(const T *p)
{
	return reinterpret_cast<uintptr_t>(p) % alignof(T) == 0;
}

template <class T>
void
vector_of()
{
	std::vector<T, umem::allocator<T>> one;

	for (int i = 0; i < 3000; i++) {
		one.emplace_back();
		memset(static_cast<void *>(&one.back()), i, sizeof(T));
		check(is_aligned_for(one.data()));
	}
	auto two = one, three = std::move(one);
	two.insert(two.end(), three.begin(), three.end());
	two.swap(three);
	check(memcmp(static_cast<const void *>(&two[2999]),
		  static_cast<const void *>(&three[5999]), sizeof(T)) == 0);
	three.shrink_to_fit();
}

template <class T>
void
least_of()
{
	umem::allocator<T> from;

	for (std::size_t n : {0u, 1u, 2u, 3u, 7u, 100u, 3000u, 1000000u}) {
		auto got = from.allocate_at_least(n);

		check(got.count >= n && is_aligned_for(got.ptr));
		memset(static_cast<void *>(got.ptr), 1, got.count * sizeof(T));
		from.deallocate(got.ptr, got.count);
		// Any number from the requested one on will do.
		got = from.allocate_at_least(n);
		from.deallocate(got.ptr, n);
	}
}

void
too_many()
{
	bool refused = false;

	try {
		(void)umem::allocator<wide>().allocate(SIZE_MAX / sizeof(wide));
	} catch (const std::bad_array_new_length &) {
		refused = true;
	}
	check(refused);
	refused = false;
	try {
		(void)umem::slab_allocator<wide>().allocate(
		    SIZE_MAX / 4 / sizeof(wide));
	} catch (const std::bad_alloc &) {
		refused = true;
	}
	check(refused);
}

template <template <class> class A>
void
nodes()
{
	using text = std::basic_string<char, std::char_traits<char>, A<char>>;
	std::list<text, A<text>> list;
	std::map<int, text, std::less<>, A<std::pair<const int, text>>> map;
	std::set<int, std::less<>, A<int>> set;
	std::unordered_map<int, text, std::hash<int>, std::equal_to<>,
	    A<std::pair<const int, text>>>
	    table;
	std::deque<int, A<int>> deque;

	for (int i = 0; i < 2000; i++) {
		text word(static_cast<std::size_t>(i % 50), 'x');

		list.push_back(word);
		map[i * 7 % 2000] = word;
		set.insert(i);
		table[i] = word;
		deque.push_back(i);
		if (i % 3 == 0) {
			list.pop_front();
			map.erase(i / 2);
			table.erase(i / 2);
			set.erase(i / 2);
			deque.pop_front();
		}
	}
	auto other = std::move(map);
	decltype(list) spliced;
	spliced.splice(spliced.end(), list);
	check(list.empty() && !spliced.empty() && !other.empty());
	auto node = table.extract(1999);
	check(node.mapped().size() == 1999 % 50);
	std::shared_ptr<int> shared = std::allocate_shared<int>(A<int>(), 5);
	check(*shared == 5);
	static_assert(std::allocator_traits<A<int>>::is_always_equal::value);
	check(A<int>() == A<long>() && !(A<int>() != A<long>()));
}

#ifdef __cpp_lib_memory_resource
void
polymorphic()
{
	umem::resource own;
	std::pmr::memory_resource *shared = umem::get_resource();

	check(*shared == own && *shared == *umem::get_resource());
	check(!(*shared == *std::pmr::new_delete_resource()));
	for (std::size_t align = 1; align <= 65536; align *= 2)
		for (std::size_t size : {0u, 1u, 15u, 64u, 96u, 5000u, 70000u}) {
			void *p = shared->allocate(size, align);

			check(reinterpret_cast<uintptr_t>(p) % align == 0);
			memset(p, 1, size);
			own.deallocate(p, size, align);
		}
	std::pmr::map<int, std::pmr::string> map(shared);
	for (int i = 0; i < 1000; i++)
		map[i] = "a string that is too long for its object";
	check(map.size() == 1000);
}
#endif

void
all()
{
	vector_of<char>();
	vector_of<rgb>();
	vector_of<int>();
	vector_of<wide>();
	vector_of<line_half>();
	vector_of<aligned>();
	least_of<rgb>();
	least_of<long>();
	least_of<line_half>();
	least_of<wide>();
	least_of<aligned>();
	too_many();
	nodes<umem::allocator>();
	nodes<umem::slab_allocator>();
#ifdef __cpp_lib_memory_resource
	polymorphic();
#endif
}

} // namespace

int
main()
{
	std::thread one(all), two(all);

	all();
	one.join();
	two.join();
	// Objects of a type have a cache of its name.
	check(strcmp(umem_cache_name(umem::detail::type_cache<int>::get()), "int") ==
	    0);
	umem_setmtbf(1);
	bool refused = false;
	try {
		std::list<int, umem::slab_allocator<int>> list;

		list.push_back(1);
	} catch (const std::bad_alloc &) {
		refused = true;
	}
	umem_setmtbf(0);
	check(refused);
	return 0;
}
