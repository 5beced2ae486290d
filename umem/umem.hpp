/*
 * umem.hpp - umem.h and vmem.h for C++: memory resources, allocators, caches
 * and arenas that free what they own
 *
 * A header over the C interface, for C++17 and later; link with -lumem.
 *
 *	resource	std::pmr containers on umem_alloc()
 *	allocator	other containers on umem_alloc()
 *	slab_allocator	containers that allocate single objects (list, map, set,
 *			unordered_map, allocate_shared): a cache for each type
 *	cache		objects of one type, made one by one or in bulk, with
 *			limits and a reserve; or kept constructed between uses
 *	local		objects of a cache for one thread, without a call for
 *			each
 *	retire()	frees that wait for a grace period of liburcu
 *	arena		ranges of integers
 *
 * The following is true of all of them unless a comment says otherwise:
 *  - any thread may call a function, also two threads at once for one object.
 *    A constructor, a destructor and a move need the object for themselves;
 *  - a function that finds no memory throws std::bad_alloc; its try_ form
 *    returns an empty result with errno set as the C function does.  Arguments
 *    that the C function refuses give std::system_error.  A function that
 *    throws has no effect;
 *  - destructors, moves, deallocate() and functions that free do not throw;
 *  - an allocation or a free takes constant time on the fast path: a
 *    restartable section on this CPU's magazine, no lock, no atomic
 *    instruction.
 */
#ifndef UMEM_HPP
#define UMEM_HPP

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#if __has_include(<memory_resource>)
#include <memory_resource>
#endif

#include <umem.h>
#include <vmem.h>

extern "C" {
#if __has_attribute(noplt)
/* Called by their addresses, without a jump through a table: 0.3 to 0.7 ns. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wredundant-decls"
__attribute__((noplt)) __typeof__(umem_alloc) umem_alloc;
__attribute__((noplt)) __typeof__(umem_free) umem_free;
__attribute__((noplt)) __typeof__(umem_cache_alloc) umem_cache_alloc;
__attribute__((noplt)) __typeof__(umem_cache_free) umem_cache_free;
#pragma GCC diagnostic pop
#endif

#ifndef UMEM_RCU_H
/* As in umem_rcu.h; needed only by programs that call umem::retire(). */
struct rcu_flavor_struct;
int umem_cache_free_rcu_flavor(
    umem_cache_t *cache, void *object, const struct rcu_flavor_struct *flavor);
#endif
}

/*
 * Visible, because all parts of a process share the cache of a type.  With
 * clang, a library that was opened without RTLD_GLOBAL does not: it keeps
 * containers of slab_allocator and kept objects to itself.
 */
#pragma GCC visibility push(default)

namespace umem
{

/* The flags of a request, for calls that also take arguments of an object. */
struct request {
	int flags = UMEM_DEFAULT; /* UMEM_*, or-ed together */
};

namespace detail
{

/* Throws the exception for errno, which a C function has set. */
[[noreturn]] inline void
throw_errno(const char *function)
{
	int error = errno;

	if (error == EINVAL || error == ENOTSUP)
		throw std::system_error(
		    error, std::generic_category(), function);
	throw std::bad_alloc();
}

/* Does umem_alloc() align every block of this size enough? */
constexpr bool
is_aligned_by_size(std::size_t size, std::size_t align) noexcept
{
	return align <= 8 || (align <= 16 && size >= 16) ||
	       (align <= 64 && size % 64 == 0);
}

/* Allocates a block.  size 0 counts as 1, so that NULL is a failure. */
inline void *
allocate(std::size_t size, std::size_t align)
{
	if (size == 0)
		size = 1;
	void *block = is_aligned_by_size(size, align)
			  ? umem_alloc(size, UMEM_DEFAULT)
			  : umem_alloc_align(size, align, UMEM_DEFAULT);

	if (__builtin_expect(block == nullptr, 0))
		throw_errno("umem_alloc");
	return block;
}

inline void
deallocate(void *block, std::size_t size, std::size_t align) noexcept
{
	if (size == 0)
		size = 1;
	if (is_aligned_by_size(size, align))
		umem_free(block, size);
	else
		umem_free_align(block, size);
}

/* Constructs an object; braces are for aggregates. */
template <class T, class... Args>
T *
construct(void *memory, Args &&...args)
{
	if constexpr (std::is_constructible_v<T, Args...>)
		return ::new (memory) T(std::forward<Args>(args)...);
	else
		return ::new (memory) T{std::forward<Args>(args)...};
}

/* Stores the name of T in text, cut to its size. */
template <class T>
void
name_type(char (&text)[UMEM_CACHE_NAMELEN + 1]) noexcept
{
	/* "... [with T = NAME]" of gcc, "... [T = NAME]" of clang */
	const char *from = __PRETTY_FUNCTION__;
	const char *end = from + sizeof(__PRETTY_FUNCTION__) - 2;
	std::size_t n = 0;

	while (from[0] != 'T' || from[1] != ' ' || from[2] != '=')
		from++;
	for (from += 4; from < end && n < UMEM_CACHE_NAMELEN; from++)
		text[n++] = *from;
	text[n] = '\0';
}

/*
 * The exception of an object's constructor that a C function has called in this
 * thread.  has_failed says whether the request that is under way has called it:
 * with UMEM_RESERVE or UMEM_NOFAIL, a request may succeed nevertheless.
 */
inline thread_local std::exception_ptr failure;
inline thread_local bool has_failed = false;

/* Throws the exception of the object's constructor, or else that for errno. */
[[noreturn]] inline void
throw_failure(const char *function)
{
	if (std::exchange(has_failed, false))
		std::rethrow_exception(std::exchange(failure, nullptr));
	throw_errno(function);
}

/* Creates a cache; a name of nullptr is that of the type. */
template <class T>
umem_cache_t *
create_cache(const char *name, umem_cache_args args)
{
	char text[UMEM_CACHE_NAMELEN + 1];

	if (name == nullptr) {
		name_type<T>(text);
		name = text;
	}
	args.size = sizeof(T);
	args.align = alignof(T);
	has_failed = false;
	umem_cache_t *cache = umem_cache_create_args(name, &args, sizeof(args));

	if (cache == nullptr)
		throw_failure("umem_cache_create");
	return cache;
}

/*
 * The cache of slab_allocator<T>, which lives until the process ends.  Its
 * pointer is a variable of its own, because the test of a static variable in a
 * function takes a second load, also for a free.
 */
template <class T> struct type_cache {
	/* Creates the cache if there is none. */
	static umem_cache_t *get()
	{
		umem_cache_t *cache = pointer.load(std::memory_order_acquire);

		return __builtin_expect(cache != nullptr, 1) ? cache : create();
	}

	/* For a caller that has an object of the cache. */
	static umem_cache_t *get_existing() noexcept
	{
		return pointer.load(std::memory_order_relaxed);
	}

      private:
	static inline std::atomic<umem_cache_t *> pointer{nullptr};

	static umem_cache_t *create()
	{
		static umem_cache_t *const cache =
		    create_cache<T>(nullptr, umem_cache_args());

		pointer.store(cache, std::memory_order_release);
		return cache;
	}
};

} // namespace detail

#ifdef __cpp_lib_memory_resource
/*
 * resource - a std::pmr::memory_resource on umem_alloc()
 *
 * It has no state: all resources are equal, and a block may be freed by any of
 * them; without RTTI, each is equal to itself only.  Every alignment is allowed.  The time of a request does not depend on
 * its size up to 8 MiB.
 */
class resource : public std::pmr::memory_resource
{
	void *do_allocate(std::size_t size, std::size_t align) override
	{
		return detail::allocate(size, align);
	}

	void do_deallocate(
	    void *block, std::size_t size, std::size_t align) override
	{
		detail::deallocate(block, size, align);
	}

	bool do_is_equal(const memory_resource &other) const noexcept override
	{
#ifdef __cpp_rtti
		return dynamic_cast<const resource *>(&other) != nullptr;
#else
		return this == &other;
#endif
	}
};

/* Returns a resource that lives until the process ends. */
inline resource *
get_resource() noexcept
{
	alignas(resource) static char memory[sizeof(resource)];
	static resource *const instance = ::new (memory) resource;

	return instance;
}
#endif

#ifdef __cpp_lib_allocate_at_least
template <class Pointer>
using allocation_result = std::allocation_result<Pointer, std::size_t>;
#else
template <class Pointer> struct allocation_result {
	Pointer ptr;
	std::size_t count;
};
#endif

/*
 * allocator - a standard allocator on umem_alloc(), without state
 *
 * All are equal.  allocate() throws std::bad_array_new_length for a number of
 * objects whose bytes exceed PTRDIFF_MAX.  allocate_at_least() returns the
 * objects that fit into the block (umem_good_size()); containers of C++23 use
 * them before they grow.
 */
template <class T> struct allocator {
	using value_type = T;
	using size_type = std::size_t;
	using difference_type = std::ptrdiff_t;
	using propagate_on_container_move_assignment = std::true_type;
	using is_always_equal = std::true_type;

	constexpr allocator() noexcept = default;
	template <class U> constexpr allocator(const allocator<U> &) noexcept
	{
	}

	[[nodiscard]] T *allocate(std::size_t n)
	{
		return static_cast<T *>(
		    detail::allocate(bytes_of(n), alignof(T)));
	}

	[[nodiscard]] allocation_result<T *> allocate_at_least(std::size_t n)
	{
		std::size_t bytes = bytes_of(n);

		if constexpr (detail::is_aligned_by_size(sizeof(T), alignof(T)))
			n = umem_good_size(bytes) / sizeof(T);
		return {allocate(n), n};
	}

	void deallocate(T *objects, std::size_t n) noexcept
	{
		detail::deallocate(objects, n * sizeof(T), alignof(T));
	}

	template <class U>
	friend constexpr bool operator==(
	    const allocator &, const allocator<U> &) noexcept
	{
		return true;
	}

	template <class U>
	friend constexpr bool operator!=(
	    const allocator &, const allocator<U> &) noexcept
	{
		return false;
	}

      private:
	static std::size_t bytes_of(std::size_t n)
	{
		if (n > PTRDIFF_MAX / sizeof(T))
			throw std::bad_array_new_length();
		return n * sizeof(T);
	}
};

/*
 * slab_allocator - a standard allocator that takes single objects from a cache
 * of their type
 *
 * For containers of nodes and std::allocate_shared(): a node takes no more than
 * its size, rounded up to 8, and tools show each type by its name.  The cache
 * of a type is created by its first request, which may throw for want of
 * memory, and lives until the process ends.  Two or more objects come from
 * umem_alloc().  Without state; all are equal.
 */
template <class T> struct slab_allocator {
	using value_type = T;
	using size_type = std::size_t;
	using difference_type = std::ptrdiff_t;
	using propagate_on_container_move_assignment = std::true_type;
	using is_always_equal = std::true_type;

	constexpr slab_allocator() noexcept = default;
	template <class U>
	constexpr slab_allocator(const slab_allocator<U> &) noexcept
	{
	}

	[[nodiscard]] T *allocate(std::size_t n)
	{
		if (n != 1)
			return allocator<T>().allocate(n);
		void *object = umem_cache_alloc(
		    detail::type_cache<T>::get(), UMEM_DEFAULT);

		if (__builtin_expect(object == nullptr, 0))
			detail::throw_errno("umem_cache_alloc");
		return static_cast<T *>(object);
	}

	void deallocate(T *objects, std::size_t n) noexcept
	{
		if (n == 1)
			umem_cache_free(
			    detail::type_cache<T>::get_existing(), objects);
		else
			allocator<T>().deallocate(objects, n);
	}

	template <class U>
	friend constexpr bool operator==(
	    const slab_allocator &, const slab_allocator<U> &) noexcept
	{
		return true;
	}

	template <class U>
	friend constexpr bool operator!=(
	    const slab_allocator &, const slab_allocator<U> &) noexcept
	{
		return false;
	}
};

/* The two kinds of a cache, see there. */
struct made {
};
struct kept {
};

/*
 * deleter - frees an object to its cache, for std::unique_ptr
 *
 * It holds the C handle, so it stays valid when the cache<T> is moved, and
 * must not be used after the cache is destroyed.
 */
template <class T, class Kind = made> struct deleter {
	umem_cache_t *cache = nullptr;

	void operator()(T *object) const noexcept
	{
		if constexpr (std::is_same_v<Kind, made>)
			object->~T();
		umem_cache_free(cache, object);
	}
};

/* Attributes of a cache, with the meaning of struct umem_cache_args. */
struct cache_options {
	std::size_t limit = 0;
	int limit_wait = 0; /* in milliseconds; -1: no time limit */
	std::size_t reserve = 0;
	umem_reclaim_t *reclaim = nullptr;
	void *priv = nullptr; /* for reclaim */
	vmem_t *source = nullptr;
	int cflags = 0;
};

namespace detail
{

/* The part of cache<T> that does not depend on T. */
struct cache_handle {
	cache_handle(cache_handle &&other) noexcept
	    : cache_(std::exchange(other.cache_, nullptr))
	{
	}

	cache_handle &operator=(cache_handle &&other) noexcept
	{
		cache_handle taken(std::move(other));

		std::swap(cache_, taken.cache_);
		return *this;
	}

	/* Returns the C handle; nullptr after the cache was moved from. */
	umem_cache_t *get() const noexcept
	{
		return cache_;
	}

	const char *name() const noexcept
	{
		return umem_cache_name(cache_);
	}

	/* Throws std::system_error if the cache was created without a limit. */
	void set_limit(std::size_t n)
	{
		check(umem_cache_set_limit(cache_, n), "umem_cache_set_limit");
	}

	/* As set_limit(). */
	void set_limit_wait(int ms)
	{
		check(umem_cache_set_limit_wait(cache_, ms),
		    "umem_cache_set_limit_wait");
	}

	/*
	 * Sets the objects in reserve, in time linear in their number; one call
	 * for a cache at a time.
	 */
	void set_reserve(std::size_t n)
	{
		has_failed = false;
		if (umem_cache_set_reserve(cache_, n) != 0)
			throw_failure("umem_cache_set_reserve");
	}

	struct umem_cache_limits limits() const noexcept
	{
		struct umem_cache_limits out;

		umem_cache_limits(cache_, &out, sizeof(out));
		return out;
	}

	/* Releases unused memory, in time linear in the idle objects. */
	void reap() noexcept
	{
		umem_cache_reap_now(cache_);
	}

	/* As reap(), without reclaim; true if no object is left in use. */
	bool shrink() noexcept
	{
		return umem_cache_shrink(cache_) == 0;
	}

      protected:
	explicit cache_handle(umem_cache_t *cache) noexcept : cache_(cache)
	{
	}

	~cache_handle()
	{
		umem_cache_destroy(cache_);
	}

      private:
	static void check(int result, const char *function)
	{
		if (result != 0)
			throw_errno(function);
	}

	umem_cache_t *cache_;
};

/* The constructor and the destructor that a kept object's cache calls. */
template <class T>
int
construct_kept(void *memory, void *, int) noexcept
{
	try {
		::new (memory) T();
		return 0;
	} catch (...) {
		failure = std::current_exception();
		has_failed = true;
		return -1;
	}
}

template <class T>
void
destruct_kept(void *memory, void *) noexcept
{
	static_cast<T *>(memory)->~T();
}

template <class T, class Kind>
umem_cache_args
args_of(const cache_options &options) noexcept
{
	umem_cache_args args = umem_cache_args();

	if constexpr (std::is_same_v<Kind, kept>) {
		args.constructor = construct_kept<T>;
		args.destructor = destruct_kept<T>;
	}
	args.limit = options.limit;
	args.limit_wait = options.limit_wait;
	args.reserve = options.reserve;
	args.reclaim = options.reclaim;
	args.priv = options.priv;
	args.source = options.source;
	args.cflags = options.cflags;
	return args;
}

/* A T * has the representation of a void * in every ABI of umem. */
template <class T>
void **
as_array(T **objects) noexcept
{
	return reinterpret_cast<void **>(objects);
}

template <class T>
void *const *
as_array(T *const *objects) noexcept
{
	return reinterpret_cast<void *const *>(objects);
}

} // namespace detail

/*
 * cache<T> - objects of one type, which it constructs and destroys
 *
 * cache<T> constructs an object when it is made, and destroys it when it is
 * freed.  cache<T, kept> constructs T() once, when the memory of an object is
 * first used, and destroys it before the memory leaves the cache: a program
 * takes an object as it was left, with its locks and buffers.
 *
 * The program frees all objects before it destroys the cache.  Otherwise the
 * library says on standard error how many are in use, keeps their memory, and
 * reports a later free of one of them.
 *
 * Moving: the objects stay valid.  A cache that was moved from may only be
 * destroyed or assigned to.
 *
 * Threads, exceptions: as the head of this file says.  If a constructor of T
 * throws, its exception leaves the function, and the object is free again.
 * Errors of a try_ form: EAGAIN at the limit, ETIMEDOUT, ENOMEM; see
 * umem_cache_alloc().  try_take() also gives ENOMEM if T() throws.
 */
template <class T, class Kind = made> struct cache : detail::cache_handle {
	static_assert(std::is_object_v<T> && !std::is_array_v<T> &&
			  std::is_same_v<T, std::remove_cv_t<T>>,
	    "objects of a cache are of an object type, not const or volatile");
	static_assert(
	    std::is_nothrow_destructible_v<T>, "destructors do not throw");

	using pointer = std::unique_ptr<T, deleter<T, Kind>>;
	/* A name of nullptr is that of the type. */
	explicit cache(
	    const char *name = nullptr, const cache_options &options = {})
	    : cache_handle(detail::create_cache<T>(
		  name, detail::args_of<T, Kind>(options)))
	{
	}

	/*
	 * make(), try_make() - make an object, as std::make_unique() does.  A
	 * first argument of type request has the flags.
	 */
	template <class... Args> [[nodiscard]] pointer make(Args &&...args)
	{
		return make(request(), std::forward<Args>(args)...);
	}

	template <class... Args>
	[[nodiscard]] pointer make(request with, Args &&...args)
	{
		return construct(allocate(with), std::forward<Args>(args)...);
	}

	template <class... Args> [[nodiscard]] pointer try_make(Args &&...args)
	{
		return try_make(request(), std::forward<Args>(args)...);
	}

	template <class... Args>
	[[nodiscard]] pointer try_make(request with, Args &&...args)
	{
		void *memory = umem_cache_alloc(get(), with.flags);

		return memory == nullptr
			   ? adopt(nullptr)
			   : construct(memory, std::forward<Args>(args)...);
	}

	/* Makes an object that is shared; see share(). */
	template <class... Args>
	[[nodiscard]] std::shared_ptr<T> make_shared(Args &&...args)
	{
		return share(make(std::forward<Args>(args)...));
	}

	/* take(), try_take() - take an object as it was left */
	[[nodiscard]] pointer take(request with = {})
	{
		static_assert(!is_made, "make() makes an object");
		return adopt(static_cast<T *>(allocate(with)));
	}

	[[nodiscard]] pointer try_take(request with = {})
	{
		static_assert(!is_made, "make() makes an object");
		return adopt(
		    static_cast<T *>(umem_cache_alloc(get(), with.flags)));
	}

	/*
	 * make_bulk(), take_bulk() - get n objects, all or none, which
	 * free_bulk() or adopt() and a pointer free
	 *
	 * Linear in n; the allocation costs less than half of n single ones
	 * from 16 objects on.  Each object is made of the same arguments.  For
	 * kept objects, a constructor that throws is no failure of others:
	 * they stay in the cache.
	 */
	template <class... Args>
	void make_bulk(T **objects, std::size_t n, const Args &...args)
	{
		static_assert(is_made, "take_bulk() takes objects");
		allocate_bulk(objects, n);
		std::size_t nmade = 0;

		try {
			for (; nmade < n; nmade++)
				objects[nmade] = detail::construct<T>(
				    static_cast<void *>(objects[nmade]),
				    args...);
		} catch (...) {
			destroy(objects, nmade);
			umem_cache_free_bulk(
			    get(), n, detail::as_array(objects));
			throw;
		}
	}

	void take_bulk(T **objects, std::size_t n)
	{
		static_assert(!is_made, "make_bulk() makes objects");
		allocate_bulk(objects, n);
	}

	/* Frees n objects of this cache; nullptr is allowed. */
	void free_bulk(T *const *objects, std::size_t n) noexcept
	{
		if constexpr (is_made)
			destroy(objects, n);
		umem_cache_free_bulk(get(), n, detail::as_array(objects));
	}

	/* Gives an object of this cache to a pointer that frees it. */
	[[nodiscard]] pointer adopt(T *object) const noexcept
	{
		return pointer(object, deleter<T, Kind>{get()});
	}

	/*
	 * Makes the only owner of an object one of several.  The counts of
	 * owners are objects of another cache, that of slab_allocator.  If
	 * there is no memory for them, the object is freed.  No object gives an
	 * empty pointer.
	 */
	[[nodiscard]] static std::shared_ptr<T> share(pointer object)
	{
		if (object == nullptr)
			return nullptr;
		deleter<T, Kind> free_object = object.get_deleter();

		return std::shared_ptr<T>(
		    object.release(), free_object, slab_allocator<T>());
	}

      private:
	static constexpr bool is_made = std::is_same_v<Kind, made>;

	static void begin() noexcept
	{
		if constexpr (!is_made)
			detail::has_failed = false;
	}

	[[noreturn]] static void fail(const char *function)
	{
		if constexpr (!is_made)
			detail::throw_failure(function);
		else
			detail::throw_errno(function);
	}

	void *allocate(request with)
	{
		begin();
		void *object = umem_cache_alloc(get(), with.flags);

		if (__builtin_expect(object == nullptr, 0))
			fail("umem_cache_alloc");
		return object;
	}

	void allocate_bulk(T **objects, std::size_t n)
	{
		begin();
		if (n != 0 && umem_cache_alloc_bulk(get(), n,
				  detail::as_array(objects), UMEM_DEFAULT) == 0)
			fail("umem_cache_alloc_bulk");
	}

	template <class... Args> pointer construct(void *memory, Args &&...args)
	{
		static_assert(is_made, "take() takes an object");
		try {
			return adopt(detail::construct<T>(
			    memory, std::forward<Args>(args)...));
		} catch (...) {
			umem_cache_free(get(), memory);
			throw;
		}
	}

	static void destroy(T *const *objects, std::size_t n) noexcept
	{
		if constexpr (!std::is_trivially_destructible_v<T>)
			for (std::size_t i = 0; i < n; i++)
				if (objects[i] != nullptr)
					objects[i]->~T();
	}
};

/*
 * local - objects of a cache for one thread, made and freed without a call
 *
 * A stack of free objects before a cache.  An empty stack takes half of its
 * capacity from the cache by one call, and a full one gives half back, so that
 * an object costs little more than one of an array.  Only one thread at a time
 * may use a local or free one of its objects; a program has one for each
 * thread, and shares the cache.
 *
 * The free objects count as in use: in the limit of the cache, in its reports,
 * and for UMEM_DEBUG, which does not find errors in their use.  The destructor
 * gives them back.  The program frees all objects before that, and the cache
 * outlives the local, which can be neither copied nor moved, because its
 * objects know it.  Exceptions: as those of cache.
 */
template <class T> class local
{
      public : struct deleter {
		local *owner = nullptr;

		void operator()(T *object) const noexcept
		{
			object->~T();
			owner->put(object);
		}
	};
	using pointer = std::unique_ptr<T, deleter>;

	explicit local(cache<T> &from) noexcept : cache_(from.get())
	{
	}

	local(const local &) = delete;
	local &operator=(const local &) = delete;

	~local()
	{
		umem_cache_free_bulk(cache_, nfree_, free_);
	}

	template <class... Args> [[nodiscard]] pointer make(Args &&...args)
	{
		void *memory = get();

		try {
			return pointer(detail::construct<T>(
					   memory, std::forward<Args>(args)...),
			    deleter{this});
		} catch (...) {
			put(memory);
			throw;
		}
	}

      private:
	static constexpr std::size_t HALF = 32;

	void *get()
	{
		if (__builtin_expect(nfree_ == 0, 0))
			fill();
		return free_[--nfree_];
	}

	void put(void *memory) noexcept
	{
		if (__builtin_expect(nfree_ == 2 * HALF, 0))
			give_half();
		free_[nfree_++] = memory;
	}

	/* Near its limit, the cache may have one object, but not HALF. */
	void fill()
	{
		nfree_ =
		    umem_cache_alloc_bulk(cache_, HALF, free_, UMEM_NOWAIT);
		if (nfree_ != 0)
			return;
		free_[0] = umem_cache_alloc(cache_, UMEM_DEFAULT);
		if (free_[0] == nullptr)
			detail::throw_errno("umem_cache_alloc");
		nfree_ = 1;
	}

	/* Gives those back that were freed first. */
	void give_half() noexcept
	{
		umem_cache_free_bulk(cache_, HALF, free_);
		std::memcpy(free_, free_ + HALF, HALF * sizeof(*free_));
		nfree_ = HALF;
	}

	umem_cache_t *cache_;
	std::size_t nfree_ = 0;
	void *free_[2 * HALF];
};

/*
 * retire - free an object after a grace period of liburcu
 *
 * object	of a cache, no longer reachable for new readers; an empty pointer
 *		does nothing.  Its destructor does not run: it is kept
 *		constructed, or its type has none
 * flavor	of the readers, for example &urcu_memb_flavor
 *
 * Returns true, or false with errno set as umem_cache_free_rcu() does, and then
 * object still owns it.  Link with -lumem_rcu and the flavour's library.
 */
template <class T, class Kind>
[[nodiscard]] bool
retire(std::unique_ptr<T, deleter<T, Kind>> &&object,
    const rcu_flavor_struct *flavor) noexcept
{
	static_assert(
	    std::is_same_v<Kind, kept> || std::is_trivially_destructible_v<T>,
	    "no destructor runs after the grace period");
	if (object == nullptr)
		return true;
	if (umem_cache_free_rcu_flavor(
		object.get_deleter().cache, object.get(), flavor) != 0)
		return false;
	static_cast<void>(object.release());
	return true;
}

/*
 * arena - an allocator of ranges of integers
 *
 * The integers are addresses, identifiers or offsets, as the program decides;
 * sizes are in units and are rounded up to the quantum.  No integer is 0.
 * allocate() and deallocate() take constant time, allocate_within() may examine
 * every free segment.  An arena that is destroyed with segments in use says so
 * on standard error.  One that was moved from may only be destroyed or assigned
 * to.
 */
struct arena {
	/* size 0: an arena without a span; see add(). */
	arena(const char *name, std::uintptr_t base, std::size_t size,
	    std::size_t quantum = 1, std::size_t qcache_max = 0,
	    int vmflag = VMC_IDENTIFIER)
	    : arena(vmem_create(name, pointer_of(base), size, quantum, nullptr,
		  nullptr, nullptr, qcache_max, vmflag))
	{
	}

	/* An arena of memory that grows from the heap, as the source of caches.
	 */
	[[nodiscard]] static arena of_heap(
	    const char *name, std::size_t quantum = 65536)
	{
		vmem_alloc_t *import;
		vmem_free_t *release;
		vmem_t *heap = vmem_heap_arena(&import, &release);

		return arena(vmem_create(name, nullptr, 0, quantum, import,
		    release, heap, 0, VM_NOSLEEP));
	}

	arena(arena &&other) noexcept
	    : arena_(std::exchange(other.arena_, nullptr))
	{
	}

	arena &operator=(arena &&other) noexcept
	{
		arena taken(std::move(other));

		std::swap(arena_, taken.arena_);
		return *this;
	}

	~arena()
	{
		vmem_destroy(arena_);
	}

	void add(std::uintptr_t base, std::size_t size)
	{
		check(vmem_add(arena_, pointer_of(base), size, VM_NOSLEEP));
	}

	[[nodiscard]] std::uintptr_t allocate(
	    std::size_t size, int vmflag = VM_NOSLEEP)
	{
		return check(vmem_alloc(arena_, size, vmflag));
	}

	/* Returns 0 if no free segment is large enough. */
	[[nodiscard]] std::uintptr_t try_allocate(
	    std::size_t size, int vmflag = VM_NOSLEEP) noexcept
	{
		return integer_of(vmem_alloc(arena_, size, vmflag));
	}

	void deallocate(std::uintptr_t start, std::size_t size) noexcept
	{
		vmem_free(arena_, pointer_of(start), size);
	}

	/* A segment from min on and below max, at a multiple of align. */
	[[nodiscard]] std::uintptr_t allocate_within(std::size_t size,
	    std::size_t align, std::uintptr_t min, std::uintptr_t max)
	{
		return check(vmem_xalloc(arena_, size, align, 0, 0,
		    pointer_of(min), pointer_of(max), VM_NOSLEEP));
	}

	void deallocate_within(std::uintptr_t start, std::size_t size) noexcept
	{
		vmem_xfree(arena_, pointer_of(start), size);
	}

	[[nodiscard]] bool contains(
	    std::uintptr_t start, std::size_t size) const noexcept
	{
		return vmem_contains(arena_, pointer_of(start), size) != 0;
	}

	[[nodiscard]] std::size_t allocated() const noexcept
	{
		return vmem_size(arena_, VMEM_ALLOC);
	}

	[[nodiscard]] std::size_t available() const noexcept
	{
		return vmem_size(arena_, VMEM_FREE);
	}

	/* Returns the C handle; nullptr after the arena was moved from. */
	vmem_t *get() const noexcept
	{
		return arena_;
	}

      private:
	explicit arena(vmem_t *created) : arena_(created)
	{
		if (created == nullptr)
			detail::throw_errno("vmem_create");
	}

	static void *pointer_of(std::uintptr_t integer) noexcept
	{
		return reinterpret_cast<void *>(integer);
	}

	static std::uintptr_t integer_of(void *pointer) noexcept
	{
		return reinterpret_cast<std::uintptr_t>(pointer);
	}

	static std::uintptr_t check(void *start)
	{
		if (start == nullptr)
			detail::throw_errno("vmem_alloc");
		return integer_of(start);
	}

	vmem_t *arena_;
};

/* Returns the memory of the library; see umem_stats(). */
inline struct ::umem_stats
stats() noexcept
{
	struct ::umem_stats out;

	::umem_stats(&out, sizeof(out));
	return out;
}

/* Returns the statistics as OpenMetrics text; see umem_metrics(). */
inline std::string
metrics()
{
	std::string text;

	for (;;) {
		ssize_t n = umem_metrics(text.data(), text.size());

		if (n < 0)
			detail::throw_errno("umem_metrics");
		if (static_cast<std::size_t>(n) < text.size()) {
			text.resize(static_cast<std::size_t>(n));
			return text;
		}
		text.resize(static_cast<std::size_t>(n) + 256);
	}
}

} // namespace umem

#pragma GCC visibility pop

#endif
