// cxx.cc - umem.hpp beside other allocators of C++: objects and containers
//
// Prints three tables in Markdown: the processor time to make and to destroy an
// object, singly and in batches of 1000, in one thread and in four; time and
// memory of containers of nodes; and the time to append a word to an array that
// doubles when it is full.  Times are in ns, the least of some rounds.  Each
// cell is measured in a process of its own.
//
//	pool	one array of objects that is made before, and a stack of free
//		ones: placement new, no test of the end; with threads, a mutex
//	vector	emplace_back() and pop_back() of a reserved std::vector
//	new	new and delete, by the C library's malloc
//	object_pool, fast_pool
//		boost::object_pool, boost::fast_pool_allocator
//	pmr	std::pmr::synchronized_pool_resource
//	mimalloc
//		mi_malloc() of libmimalloc.so.2, as mi_stl_allocator calls it
//
// A cell is empty if the allocator cannot do it, or is not on the machine
// (libboost-dev, libmimalloc2.0).  An object is constructed by a store to each
// of its bytes.
//
// Usage: cxx [objects|containers|arrays]
//
// test cflags: -idirafter umem -idirafter vmem
//
// Source: the comparison of pools with new in many introductions to C++; the
// containers are those of most programs.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <functional>
#include <list>
#include <map>
#include <memory_resource>
#include <mutex>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <unordered_map>
#include <vector>

#if __has_include(<boost/pool/object_pool.hpp>)
#include <boost/pool/object_pool.hpp>
#include <boost/pool/pool_alloc.hpp>
#define HAVE_BOOST 1
#endif

#include <umem.hpp>

namespace
{

constexpr int ROUNDS = 15, NBATCH = 1000, NTHREADS = 4;
constexpr double NONE = -1;

void
keep(const void *p)
{
	__asm__ volatile("" : : "r"(p) : "memory");
}

double
cpu_ns()
{
	timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return 1e9 * static_cast<double>(now.tv_sec) +
	       static_cast<double>(now.tv_nsec);
}

template <std::size_t N> struct body {
	body()
	{
		memset(bytes, 1, N);
	}
	unsigned char bytes[N];
};

/* Of mimalloc, looked up because its library may be missing. */
void *(*mi_malloc)(std::size_t);
void (*mi_free)(void *);

bool
find_mimalloc()
{
	void *library = dlopen("libmimalloc.so.2", RTLD_NOW);

	if (library == nullptr)
		return false;
	*reinterpret_cast<void **>(&mi_malloc) = dlsym(library, "mi_malloc");
	*reinterpret_cast<void **>(&mi_free) = dlsym(library, "mi_free");
	return mi_malloc != nullptr && mi_free != nullptr;
}

template <class T> struct mi_allocator {
	using value_type = T;
	mi_allocator() = default;
	template <class U> mi_allocator(const mi_allocator<U> &)
	{
	}
	T *allocate(std::size_t n)
	{
		void *p = mi_malloc(n * sizeof(T));

		if (p == nullptr)
			throw std::bad_alloc();
		return static_cast<T *>(p);
	}
	void deallocate(T *p, std::size_t)
	{
		mi_free(p);
	}
	friend bool operator==(mi_allocator, mi_allocator)
	{
		return true;
	}
	friend bool operator!=(mi_allocator, mi_allocator)
	{
		return false;
	}
};

/*
 * The ways to make an object: make() and destroy(); many of them may be in
 * threads, and some can do a batch.
 */
template <class T> struct by_new {
	static constexpr bool is_threaded = true;
	T *make()
	{
		return new T;
	}
	void destroy(T *object)
	{
		delete object;
	}
};

template <class T, bool Locks> struct by_pool {
	static constexpr bool is_threaded = Locks;
	std::unique_ptr<unsigned char[]> memory{
	    new unsigned char[sizeof(T) * NBATCH * (NTHREADS + 1)]};
	std::vector<T *> free;
	std::mutex lock;

	by_pool()
	{
		for (std::size_t i = 0; i < NBATCH * (NTHREADS + 1); i++)
			free.push_back(reinterpret_cast<T *>(
			    memory.get() + i * sizeof(T)));
	}
	T *make()
	{
		if constexpr (Locks)
			lock.lock();
		T *object = free.back();
		free.pop_back();
		if constexpr (Locks)
			lock.unlock();
		return ::new (static_cast<void *>(object)) T;
	}
	void destroy(T *object)
	{
		object->~T();
		if constexpr (Locks)
			lock.lock();
		free.push_back(object);
		if constexpr (Locks)
			lock.unlock();
	}
};

template <class T> struct by_vector {
	static constexpr bool is_threaded = false;
	std::vector<T> objects;

	by_vector()
	{
		objects.reserve(NBATCH + 1);
	}
	T *make()
	{
		return &objects.emplace_back();
	}
	void destroy(T *)
	{
		objects.pop_back();
	}
};

template <class T, class Allocator> struct by_allocator {
	static constexpr bool is_threaded = true;
	Allocator allocator;

	T *make()
	{
		return ::new (static_cast<void *>(allocator.allocate(1))) T;
	}
	void destroy(T *object)
	{
		object->~T();
		allocator.deallocate(object, 1);
	}
};

template <class T> struct by_pmr {
	static constexpr bool is_threaded = true;
	std::pmr::synchronized_pool_resource resource;

	T *make()
	{
		return ::new (resource.allocate(sizeof(T), alignof(T))) T;
	}
	void destroy(T *object)
	{
		object->~T();
		resource.deallocate(object, sizeof(T), alignof(T));
	}
};

#ifdef HAVE_BOOST
template <class T> struct by_object_pool {
	static constexpr bool is_threaded = false;
	boost::object_pool<T> pool;

	T *make()
	{
		return pool.construct();
	}
	// destroy() keeps the free list in order, in linear time.
	void destroy(T *object)
	{
		pool.destroy(object);
	}
};
#endif

template <class T> struct by_umem {
	static constexpr bool is_threaded = true;
	umem::cache<T> cache;

	T *make()
	{
		return cache.make().release();
	}
	void destroy(T *object)
	{
		cache.adopt(object).reset();
	}
};

template <class T> struct by_umem_local {
	static constexpr bool is_threaded = false;
	umem::cache<T> cache;
	umem::local<T> objects{cache};

	T *make()
	{
		return objects.make().release();
	}
	void destroy(T *object)
	{
		typename umem::local<T>::deleter{&objects}(object);
	}
};

template <class T> struct by_umem_bulk : by_umem<T> {
	void make_many(T **objects, std::size_t n)
	{
		this->cache.make_bulk(objects, n);
	}
	void destroy_many(T **objects, std::size_t n)
	{
		this->cache.free_bulk(objects, n);
	}
};

template <class W, class T>
auto
make_many(W &way, T **objects, int) -> decltype(way.make_many(objects, 1))
{
	way.make_many(objects, NBATCH);
}

template <class W, class T>
void
make_many(W &way, T **objects, long)
{
	for (int i = 0; i < NBATCH; i++)
		objects[i] = way.make();
}

template <class W, class T>
auto
destroy_many(W &way, T **objects, int) -> decltype(way.destroy_many(objects, 1))
{
	way.destroy_many(objects, NBATCH);
}

template <class W, class T>
void
destroy_many(W &way, T **objects, long)
{
	for (int i = NBATCH; i-- > 0;)
		way.destroy(objects[i]);
}

template <class T, class W>
void
cycle(W &way, bool is_batch, int n)
{
	T *objects[NBATCH];

	for (int done = 0; done < n; done += NBATCH)
		if (is_batch) {
			make_many(way, objects, 0);
			keep(objects);
			destroy_many(way, objects, 0);
		} else {
			for (int i = 0; i < NBATCH; i++) {
				T *object = way.make();

				keep(object);
				way.destroy(object);
			}
		}
}

/* Time for an object of one round. */
template <class T, class W>
double
round_of(W &way, bool is_batch, int nthreads)
{
	const int n = 100 * NBATCH;
	double start = cpu_ns();

	if (nthreads == 1) {
		cycle<T>(way, is_batch, n);
	} else {
		std::vector<std::thread> threads;

		for (int i = 0; i < nthreads; i++)
			threads.emplace_back(
			    [&] { cycle<T>(way, is_batch, n); });
		for (std::thread &thread : threads)
			thread.join();
	}
	return (cpu_ns() - start) / n / nthreads;
}

template <class T, class W>
double
time_of(bool is_batch, int nthreads)
{
	if (nthreads > 1 && !W::is_threaded)
		return NONE;
	W way;
	double least = 1e9;

	for (int i = 0; i < ROUNDS; i++)
		least = std::min(least, round_of<T>(way, is_batch, nthreads));
	return least;
}

/* Calls f in a child; returns its result, and its peak memory in *kib. */
double
in_child(const std::function<double()> &f, double *kib = nullptr)
{
	int ends[2];
	double result[2] = {NONE, 0};

	if (pipe(ends) != 0)
		abort();
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		rusage usage;

		result[0] = f();
		getrusage(RUSAGE_SELF, &usage);
		result[1] = static_cast<double>(usage.ru_maxrss);
		_exit(write(ends[1], result, sizeof(result)) < 0);
	}
	close(ends[1]);
	if (read(ends[0], result, sizeof(result)) < 0)
		result[0] = NONE;
	close(ends[0]);
	waitpid(child, nullptr, 0);
	if (kib != nullptr)
		*kib = result[1];
	return result[0];
}

void
print_cell(double value, const char *format = " %.1f |")
{
	if (value < 0)
		printf("  |");
	else
		printf(format, value);
	fflush(stdout);
}

template <template <class> class W>
void
print_row(const char *name)
{
	printf("| %s |", name);
	for (int nthreads : {1, NTHREADS})
		for (bool is_batch : {false, true}) {
			print_cell(in_child([=] {
				return time_of<body<3>, W<body<3>>>(
				    is_batch, nthreads);
			}));
			print_cell(in_child([=] {
				return time_of<body<64>, W<body<64>>>(
				    is_batch, nthreads);
			}));
			print_cell(in_child([=] {
				return time_of<body<256>, W<body<256>>>(
				    is_batch, nthreads);
			}));
		}
	printf("\n");
}

template <class T> using plain_pool = by_pool<T, false>;
template <class T> using locked_pool = by_pool<T, true>;
template <class T> using by_mi = by_allocator<T, mi_allocator<T>>;
template <class T> using by_std_allocator = by_allocator<T, umem::allocator<T>>;
template <class T>
using by_slab_allocator = by_allocator<T, umem::slab_allocator<T>>;
#ifdef HAVE_BOOST
template <class T>
using by_fast_pool = by_allocator<T, boost::fast_pool_allocator<T>>;
#endif

void
print_objects()
{
	printf("| ns | 3, singly | 64 | 256 | 3, batch | 64 | 256 "
	       "| 4 threads: 3, singly | 64 | 256 | 3, batch | 64 | 256 |\n"
	       "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
	print_row<plain_pool>("pool");
	print_row<locked_pool>("pool and mutex");
	print_row<by_vector>("std::vector");
	print_row<by_new>("new");
#ifdef HAVE_BOOST
	print_row<by_object_pool>("boost::object_pool");
	print_row<by_fast_pool>("boost::fast_pool_allocator");
#endif
	print_row<by_pmr>("synchronized_pool_resource");
	if (find_mimalloc())
		print_row<by_mi>("mimalloc");
	print_row<by_std_allocator>("umem::allocator");
	print_row<by_slab_allocator>("umem::slab_allocator");
	print_row<by_umem>("umem::cache");
	print_row<by_umem_bulk>("umem::cache, bulk");
	print_row<by_umem_local>("umem::local");
}

/* A queue; a tree and a table with random keys, at most n elements. */
template <class A>
void
use_list(std::size_t n, const A &allocator)
{
	std::list<int, A> list(allocator);

	for (std::size_t i = 0; i < 3 * n; i++) {
		list.push_back(static_cast<int>(i));
		if (list.size() > n)
			list.pop_front();
	}
	keep(&list);
}

template <class C>
void
use_keys(std::size_t n, C &container)
{
	unsigned long seed = 1;

	for (std::size_t i = 0; i < 3 * n; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		unsigned key = static_cast<unsigned>((seed >> 33) % (2 * n));

		if (i % 2 == 0 || !container.erase(key))
			container.emplace(key, 1);
	}
	keep(&container);
}

using pair = std::pair<const unsigned, int>;

template <template <class> class A>
void
use_container(int which, std::size_t n)
{
	if (which == 0) {
		use_list<A<int>>(n, A<int>());
	} else if (which == 1) {
		std::map<unsigned, int, std::less<>, A<pair>> map;
		use_keys(n, map);
	} else {
		std::unordered_map<unsigned, int, std::hash<unsigned>,
		    std::equal_to<>, A<pair>>
		    table;
		use_keys(n, table);
	}
}

void
use_pmr(int which, std::size_t n)
{
	std::pmr::synchronized_pool_resource pool;

	if (which == 0) {
		use_list<std::pmr::polymorphic_allocator<int>>(n, &pool);
	} else if (which == 1) {
		std::pmr::map<unsigned, int> map(&pool);
		use_keys(n, map);
	} else {
		std::pmr::unordered_map<unsigned, int> table(&pool);
		use_keys(n, table);
	}
}

double
time_container(
    const std::function<void(int, std::size_t)> &use, int which, std::size_t n)
{
	double least = 1e9;

	for (int i = 0; i < 5; i++) {
		double start = cpu_ns();

		use(which, n);
		least = std::min(
		    least, (cpu_ns() - start) / static_cast<double>(3 * n));
	}
	return least;
}

void
print_containers_of(
    const char *name, const std::function<void(int, std::size_t)> &use)
{
	double empty;

	printf("| %s |", name);
	in_child([] { return 0.0; }, &empty);
	for (std::size_t n : {1000, 300000})
		for (int which = 0; which < 3; which++) {
			double kib,
			    ns = in_child(
				[&] { return time_container(use, which, n); },
				&kib);

			print_cell(ns);
			if (n > 1000)
				print_cell((kib - empty) / 1024);
		}
	printf("\n");
}

template <class T> using std_allocator = std::allocator<T>;
template <class T> using umem_allocator = umem::allocator<T>;
template <class T> using slab_allocator = umem::slab_allocator<T>;
#ifdef HAVE_BOOST
template <class T> using fast_pool = boost::fast_pool_allocator<T>;
#endif

void
print_containers()
{
	printf("| | list of 1000, ns | map | unordered_map "
	       "| list of 300000, ns | MiB | map, ns | MiB "
	       "| unordered_map, ns | MiB |\n"
	       "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
	print_containers_of("std::allocator", use_container<std_allocator>);
#ifdef HAVE_BOOST
	print_containers_of(
	    "boost::fast_pool_allocator", use_container<fast_pool>);
#endif
	print_containers_of("synchronized_pool_resource", use_pmr);
	if (find_mimalloc())
		print_containers_of("mimalloc", use_container<mi_allocator>);
	print_containers_of("umem::allocator", use_container<umem_allocator>);
	print_containers_of(
	    "umem::slab_allocator", use_container<slab_allocator>);
}

template <class V>
void
append_to(std::size_t n)
{
	V vector;

	for (std::size_t i = 0; i < n; i++)
		vector.push_back(static_cast<long>(i));
	keep(vector.data());
}

/* resize is realloc() or umem_realloc(). */
template <class F>
void
append_to_words(std::size_t n, F resize)
{
	std::size_t room = 0;
	long *word = nullptr;

	for (std::size_t i = 0; i < n; i++) {
		if (i == room) {
			std::size_t more = room == 0 ? 1 : 2 * room;

			word = static_cast<long *>(resize(
			    word, room * sizeof(long), more * sizeof(long)));
			room = more;
		}
		word[i] = static_cast<long>(i);
	}
	keep(word);
	resize(word, room * sizeof(long), 0);
}

void
print_arrays_of(const char *name, const std::function<void(std::size_t)> &f)
{
	printf("| %s |", name);
	for (std::size_t n : {10, 1000, 100000, 10000000})
		print_cell(in_child([&] {
			std::size_t repeats = 10000000 / n;
			double least = 1e18;

			for (int i = 0; i < 7; i++) {
				double start = cpu_ns();

				for (std::size_t j = 0; j < repeats; j++)
					f(n);
				least = std::min(least, cpu_ns() - start);
			}
			return least / static_cast<double>(repeats * n);
		}),
		    " %.2f |");
	printf("\n");
}

void
print_arrays()
{
	printf("| ns a word | array of 10 | 1000 | 100000 | 10 million |\n"
	       "|---|--:|--:|--:|--:|\n");
	print_arrays_of("std::vector", append_to<std::vector<long>>);
	print_arrays_of("std::vector, umem::allocator",
	    append_to<std::vector<long, umem::allocator<long>>>);
	print_arrays_of("realloc", [](std::size_t n) {
		append_to_words(n, [](void *p, std::size_t, std::size_t size) {
			if (size != 0)
				return realloc(p, size);
			free(p);
			return static_cast<void *>(nullptr);
		});
	});
	print_arrays_of("umem_realloc", [](std::size_t n) {
		append_to_words(
		    n, [](void *p, std::size_t old, std::size_t size) {
			    return umem_realloc(p, old, size, UMEM_NOFAIL);
		    });
	});
}

} // namespace

int
main(int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[1], "objects") == 0)
		print_objects();
	if (argc < 2 || strcmp(argv[1], "containers") == 0)
		print_containers();
	if (argc < 2 || strcmp(argv[1], "arrays") == 0)
		print_arrays();
	return 0;
}
