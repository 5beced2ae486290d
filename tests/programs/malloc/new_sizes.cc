/*
 * Every operator new refuses a size or an alignment that no object can have:
 * it calls the new-handler, then throws bad_alloc or returns NULL.  In
 * particular the size rounded up to the alignment may exceed SIZE_MAX.
 *
 * test cflags: -Wno-alloc-size-larger-than
 */
#include <new>

#include "tests/programs/check.h"

static const std::nothrow_t &quiet = std::nothrow;
static int ncalls;

static void
handler()
{
	ncalls++;
	std::set_new_handler(nullptr);
}

/* f returns no memory, having called the handler at least once. */
template <typename F>
static void
fails(F f, bool throws, size_t size, size_t align)
{
	bool thrown = false;
	void *p = nullptr;

	ncalls = 0;
	std::set_new_handler(handler);
	try {
		p = f();
	} catch (const std::bad_alloc &) {
		thrown = true;
	}
	if (keep(p) == nullptr && thrown == throws && ncalls == 1)
		return;
	fprintf(stderr, "%zx bytes at %zx: %p, thrown %d, handler %d\n", size,
	    align, p, thrown, ncalls);
	exit(1);
}

static void
refused(size_t n, size_t by)
{
	std::align_val_t align{by};

	fails([=] { return operator new(n, align); }, true, n, by);
	fails([=] { return operator new[](n, align); }, true, n, by);
	fails([=] { return operator new(n, align, quiet); }, false, n, by);
	fails([=] { return operator new[](n, align, quiet); }, false, n, by);
}

static void
refused_plain(size_t n)
{
	fails([=] { return operator new(n); }, true, n, 0);
	fails([=] { return operator new[](n); }, true, n, 0);
	fails([=] { return operator new(n, quiet); }, false, n, 0);
	fails([=] { return operator new[](n, quiet); }, false, n, 0);
}

int
main()
{
	static const size_t off[] = {0, 1, 7, 15, 16, 31, 63, 64, 255, 4094,
	    4095, 4096, 65535, 65536, MIB, (size_t)1 << 62, PTRDIFF_MAX};

	for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
		size_t n = *(size_t *)keep(const_cast<size_t *>(&off[i]));

		n = SIZE_MAX - n;
		refused_plain(n);
		for (size_t by = 1; by != 0; by *= 2)
			refused(n, by);
	}
	refused_plain(PTRDIFF_MAX);
	for (size_t by = 1; by != 0; by *= 2)
		refused(PTRDIFF_MAX, by);
	for (size_t by = (size_t)1 << 50; by != 0; by *= 2) {
		refused(1, by);
		refused(MIB, by);
	}
	return 0;
}
