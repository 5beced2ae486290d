// A program with an allocator of its own: the functions that it does not have
// are made of its malloc(), realloc() and free(), as in the C library.
//
// test cflags: -std=c++17 -Wno-sized-deallocation -Wno-mismatched-new-delete
// test account: no
// test no stderr: .
#include <cstddef>
#include <cstdlib>
#include <dlfcn.h>
#include <new>

#include "tests/programs/check.h"

// The library that the program runs on may lack them.
#pragma weak free_sized
#pragma weak free_aligned_sized
#pragma weak mallocx
#pragma weak rallocx
#pragma weak sallocx
#pragma weak dallocx
#pragma weak sdallocx
#pragma weak nallocx
extern "C" {
void free_sized(void *p, size_t size);
void free_aligned_sized(void *p, size_t align, size_t size);
void *mallocx(size_t size, int flags);
void *rallocx(void *p, size_t size, int flags);
size_t sallocx(const void *p, int flags);
void dallocx(void *p, int flags);
void sdallocx(void *p, size_t size, int flags);
size_t nallocx(size_t size, int flags);
}

namespace
{

const size_t ALIGN = 16, HEAP = 64 << 20;
const int ZERO = 0x40;

alignas(4096) char heap[HEAP];
size_t top;
int nlive;

bool
is_own(const void *p)
{
	return (const char *)p >= heap && (const char *)p < heap + HEAP;
}

size_t &
size_of(void *p)
{
	return ((size_t *)p)[-1];
}

void *
own_alloc(size_t size, size_t align)
{
	size_t at = (top + sizeof(size_t) + align - 1) & ~(align - 1);

	if (size > HEAP || at + size > HEAP) {
		errno = ENOMEM;
		return nullptr;
	}
	top = at + size;
	size_of(heap + at) = size;
	nlive++;
	return memset(heap + at, 0xee, size);
}

} // namespace

extern "C" {

void *
malloc(size_t size)
{
	return own_alloc(size, ALIGN);
}

void
free(void *p)
{
	static const char text[] = "free() of a foreign block\n";

	if (p == nullptr)
		return;
	if (!is_own(p)) {
		(void)!write(2, text, sizeof(text) - 1);
		_exit(3);
	}
	nlive--;
}

void *
calloc(size_t n, size_t size)
{
	void *p = malloc(n * size);

	return p == nullptr ? p : memset(p, 0, n * size);
}

void *
realloc(void *p, size_t size)
{
	void *q = malloc(size);

	if (p == nullptr || q == nullptr)
		return q;
	check(is_own(p));
	memcpy(q, p, size_of(p) < size ? size_of(p) : size);
	free(p);
	return q;
}

#ifndef OWN_MALLOC_MIN
void *
aligned_alloc(size_t align, size_t size)
{
	return own_alloc(size, align < ALIGN ? ALIGN : align);
}

size_t
malloc_usable_size(void *p)
{
	return p == nullptr ? 0 : size_of(p);
}
#endif
}

namespace
{

template <class T>
T *
own(T *p)
{
	__asm__ volatile("" : "+r"(p) : : "memory");
	check(is_own(p));
	return p;
}

void
try_arrays()
{
	char *p = (char *)own(malloc(16));

	memcpy(p, "0123456789", 11);
	p = (char *)own(reallocarray(p, 100, 16));
	check(strcmp(p, "0123456789") == 0);
	free(p);
	free(own(reallocarray(nullptr, 3, 5)));
	free(own(strdup("text")));
}

void
try_operators(size_t n)
{
	free(own(operator new(n)));
	free(own(operator new[](n)));
	free(own(operator new(n, std::nothrow)));
	free(own(operator new[](n, std::nothrow)));
	operator delete(own(malloc(n)));
	operator delete[](own(malloc(n)));
	operator delete(own(malloc(n)), n);
	operator delete[](own(malloc(n)), n);
	operator delete(own(malloc(n)), std::nothrow);
	operator delete(nullptr);
	operator delete(nullptr, n);
	check(operator new(2 * HEAP, std::nothrow) == nullptr);
	try {
		// gcc 10 leaves out a call without a use of its result.
		void *volatile p = operator new(2 * HEAP);
		check(p == nullptr);
	} catch (const std::bad_alloc &) {
	}
}

/* Without an aligned_alloc() of the program, its blocks are the library's. */
void
try_aligned(size_t n)
{
	const std::align_val_t align{256};
	void *p[4] = {operator new(n, align), operator new[](n, align),
					      operator new(
						  n, align, std::nothrow),
					      operator new(n, align)};

	for (void *each : p) {
		check((size_t)each % 256 == 0);
#ifndef OWN_MALLOC_MIN
		check(is_own(each));
#endif
		memset(each, 1, n);
	}
	operator delete(p[0], align);
	operator delete[](p[1], align);
	operator delete(p[2], n, align);
	operator delete(p[3], align, std::nothrow);
}

void
try_sized(size_t n)
{
	if (free_sized == nullptr)
		return;
	free_sized(own(malloc(n)), n);
#ifndef OWN_MALLOC_MIN
	free_aligned_sized(own(aligned_alloc(64, n)), 64, n);
#endif
}

void
try_jemalloc(size_t n)
{
	char *p;

	if (mallocx == nullptr)
		return;
	check(nallocx(n, 0) >= n);
	p = (char *)own(mallocx(n, ZERO));
	check(p[0] == 0 && p[n - 1] == 0);
	memset(p, 5, n);
	p = (char *)own(rallocx(p, 2 * n, 0));
	check(p[0] == 5 && p[n - 1] == 5);
	dallocx(p, 0);
	sdallocx(own(malloc(n)), n, 0);
	free(own(mallocx(n, 0)));
#ifndef OWN_MALLOC_MIN
	p = (char *)own(mallocx(n, ZERO | 8));
	check((size_t)p % 256 == 0 && p[0] == 0);
	check(sallocx(p, 0) >= n);
	size_t old = sallocx(p, 0);
	memset(p, 5, old);
	p = (char *)own(rallocx(p, 3 * old, ZERO | 8));
	check((size_t)p % 256 == 0 && p[old - 1] == 5);
	check(p[old] == 0 && p[3 * old - 1] == 0);
	dallocx(p, 0);
#endif
}

} // namespace

int
main()
{
	int before;

	/*
	 * The C library and the C++ library may have allocated.  Until 2.33,
	 * the first dlsym() of a thread keeps a block for dlerror().
	 */
	free(own(malloc(1)));
	(void)dlsym(RTLD_DEFAULT, "malloc");
	before = nlive;
	for (size_t n = 1; n < 300000; n = 3 * n + 1) {
		try_arrays();
		try_operators(n);
		try_aligned(n);
		try_sized(n);
		try_jemalloc(n);
	}
	check(nlive == before);
	return 0;
}
