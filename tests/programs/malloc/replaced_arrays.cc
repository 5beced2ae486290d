/*
 * replaced_arrays.cc - a program with operator new[] and delete[] of its own,
 * and no others
 *
 * test cflags: -std=c++17 -fno-builtin -Wno-sized-deallocation
 * test no stderr: .
 */
#include <cstdio>
#include <cstdlib>
#include <new>

static int nnew, ndelete;

void *
operator new[](std::size_t size)
{
	char *p = static_cast<char *>(std::malloc(size + 16));

	if (p == nullptr)
		throw std::bad_alloc();
	nnew++;
	return p + 16;
}

void
operator delete[](void *p) noexcept
{
	ndelete++;
	std::free(static_cast<char *>(p) - 16);
}

template <class T>
static T *
hide(T *p)
{
	__asm__ volatile("" : "+r"(p) : : "memory");
	return p;
}

int
main()
{
	void *p = hide(operator new[](100));

	operator delete[](p, std::size_t(100));
	p = hide(operator new[](100, std::nothrow));
	operator delete[](p, std::nothrow);
	/* The plain ones are the library's, sized or not. */
	operator delete(hide(operator new(100)));
	operator delete(hide(operator new(100)), std::size_t(100));
	if (nnew != 2 || ndelete != 2)
		std::fprintf(stderr, "new %d, delete %d\n", nnew, ndelete);
	return nnew == 2 && ndelete == 2 ? 0 : 1;
}
