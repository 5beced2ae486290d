/*
 * replaced_operators.cc - a program with a plain and an aligned operator new
 * and delete of its own: the forms that it leaves are made of these
 *
 * test cflags: -std=c++17 -fno-builtin -Wno-sized-deallocation
 * test no stderr: .
 */
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <new>

namespace {

const std::size_t mark = 0x5a5a1234;
int nlive, ncalls;

void *
give(std::size_t size, std::size_t room)
{
	char *p = static_cast<char *>(std::aligned_alloc(room, 2 * room + size));

	if (p == nullptr)
		throw std::bad_alloc();
	*reinterpret_cast<std::size_t *>(p) = mark;
	nlive++;
	ncalls++;
	return p + room;
}

void
take(void *block, std::size_t room)
{
	char *p = static_cast<char *>(block) - room;

	if (block == nullptr)
		return;
	if (*reinterpret_cast<std::size_t *>(p) != mark) {
		std::fputs("a block that is not of these operators\n", stderr);
		std::_Exit(3);
	}
	*reinterpret_cast<std::size_t *>(p) = 0;
	nlive--;
	ncalls++;
	std::free(p);
}

/* Hides the use of the pointer from the compiler. */
template <class T>
T *
hide(T *p)
{
	__asm__ volatile("" : "+r"(p) : : "memory");
	return p;
}

bool
both_were_called()
{
	bool right = ncalls == 2 && nlive == 0;

	ncalls = 0;
	return right;
}

} // namespace

void *
operator new(std::size_t size)
{
	return give(size, 32);
}

void
operator delete(void *p) noexcept
{
	take(p, 32);
}

void *
operator new(std::size_t size, std::align_val_t align)
{
	return give(size, static_cast<std::size_t>(align));
}

void
operator delete(void *p, std::align_val_t align) noexcept
{
	take(p, static_cast<std::size_t>(align));
}

#define CHECK(get, drop)                                                       \
	do {                                                                   \
		void *p = hide(get);                                           \
		drop;                                                          \
		if (!both_were_called()) {                                     \
			std::fprintf(stderr, "not theirs: %s, %s\n", #get,     \
			    #drop);                                            \
			return 1;                                              \
		}                                                              \
	} while (0)

int
main()
{
	const std::align_val_t align{128};

	for (std::size_t n : {std::size_t(1), std::size_t(100),
		 std::size_t(50000), std::size_t(20) << 20}) {
		CHECK(operator new(n), operator delete(p));
		CHECK(operator new(n), operator delete(p, n));
		CHECK(operator new(n), operator delete(p, std::nothrow));
		CHECK(operator new[](n), operator delete[](p));
		CHECK(operator new[](n), operator delete[](p, n));
		CHECK(operator new[](n), operator delete[](p, std::nothrow));
		CHECK(operator new(n, std::nothrow), operator delete(p));
		CHECK(operator new[](n, std::nothrow), operator delete[](p));
		CHECK(operator new(n, align), operator delete(p, align));
		CHECK(operator new(n, align), operator delete(p, n, align));
		CHECK(operator new(n, align),
		    operator delete(p, align, std::nothrow));
		CHECK(operator new[](n, align), operator delete[](p, align));
		CHECK(operator new[](n, align), operator delete[](p, n, align));
		CHECK(operator new[](n, align),
		    operator delete[](p, align, std::nothrow));
		CHECK(operator new(n, align, std::nothrow),
		    operator delete(p, align));
		CHECK(operator new[](n, align, std::nothrow),
		    operator delete[](p, align));
	}
	return 0;
}
