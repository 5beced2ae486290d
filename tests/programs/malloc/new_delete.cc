/*
 * The 20 operators new and delete come from us, whether the program uses them
 * or its C++ library does.
 *
 * test cflags: -Wno-alloc-size-larger-than -fsized-deallocation
 * test no stderr: .
 *
 * test run: all
 * test args: all
 * test run: sizes
 * test args: sizes
 */
#include <dlfcn.h>
#include <malloc.h>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/programs/check.h"

static const char *const names[] = {"_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t",
    "_ZnamRKSt9nothrow_t", "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t", "_ZnamSt11align_val_tRKSt9nothrow_t",
    "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm", "_ZdlPvRKSt9nothrow_t",
    "_ZdaPvRKSt9nothrow_t", "_ZdlPvSt11align_val_t", "_ZdaPvSt11align_val_t",
    "_ZdlPvmSt11align_val_t", "_ZdaPvmSt11align_val_t",
    "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    "_ZdaPvSt11align_val_tRKSt9nothrow_t"};

static const size_t HUGE_SIZE = (size_t)1 << 50;
static const std::nothrow_t &quiet = std::nothrow;

static void
check_names()
{
	Dl_info ours, theirs;

	check(sizeof(names) / sizeof(names[0]) == 20);
	check(dladdr(reinterpret_cast<void *>(malloc), &ours) != 0);
	for (const char *name : names) {
		void *at = dlsym(RTLD_DEFAULT, name);

		check(at != nullptr && dladdr(at, &theirs) != 0);
		if (strcmp(ours.dli_fname, theirs.dli_fname) != 0)
			check_failed(name, theirs.dli_fname, __LINE__);
	}
}

static void
good(void *p, size_t size, size_t align)
{
	check(p != nullptr && is_aligned(p, align));
	check(malloc_usable_size(p) >= size);
	stamp(p, size, size);
}

static void
check_plain(size_t n)
{
	void *p;

	good(p = operator new(n), n, 8);
	operator delete(p);
	good(p = operator new[](n), n, 8);
	operator delete[](p);
	good(p = operator new(n, quiet), n, 8);
	operator delete(p, quiet);
	good(p = operator new[](n, quiet), n, 8);
	operator delete[](p, quiet);
	good(p = operator new(n), n, 8);
	operator delete(p, n);
	good(p = operator new[](n), n, 8);
	operator delete[](p, n);
	operator delete(nullptr);
	operator delete[](nullptr, n);
}

static void
check_aligned(size_t n, size_t by)
{
	std::align_val_t align{by};
	void *p;

	good(p = operator new(n, align), n, by);
	operator delete(p, align);
	good(p = operator new[](n, align), n, by);
	operator delete[](p, align);
	good(p = operator new(n, align, quiet), n, by);
	operator delete(p, align, quiet);
	good(p = operator new[](n, align, quiet), n, by);
	operator delete[](p, align, quiet);
	good(p = operator new(n, align), n, by);
	operator delete(p, n, align);
	good(p = operator new[](n, align), n, by);
	operator delete[](p, n, align);
	operator delete(nullptr, n, align);
}

static int ncalls;

static void
handler()
{
	if (++ncalls % 3 == 0)
		std::set_new_handler(nullptr);
}

struct own_error {
	int number;
};

static void
throwing_handler()
{
	ncalls++;
	throw own_error{5};
}

/* f fails; the handler gives up by its third call. */
template <typename F>
static void
fails(F f, bool throws)
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
	check(p == nullptr && thrown == throws && ncalls == 3);
	/* Without a handler. */
	thrown = false;
	try {
		p = f();
	} catch (const std::bad_alloc &) {
		thrown = true;
	}
	check(p == nullptr && thrown == throws && ncalls == 3);
}

static void
check_failures()
{
	std::align_val_t align{256};

	fails([] { return operator new(HUGE_SIZE); }, true);
	fails([] { return operator new[](HUGE_SIZE); }, true);
	fails([] { return operator new(SIZE_MAX); }, true);
	fails([] { return operator new(HUGE_SIZE, quiet); }, false);
	fails([] { return operator new[](HUGE_SIZE, quiet); }, false);
	fails([&] { return operator new(HUGE_SIZE, align); }, true);
	fails([&] { return operator new[](HUGE_SIZE, align); }, true);
	fails([&] { return operator new(HUGE_SIZE, align, quiet); }, false);
	fails([&] { return operator new[](HUGE_SIZE, align, quiet); }, false);
	/* The size of an array that does not go into a size_t. */
	volatile size_t n = SIZE_MAX / 2;
	bool thrown = false;
	try {
		keep(new long[n]);
	} catch (const std::bad_alloc &) {
		thrown = true;
	}
	check(thrown);
}

static void
check_thrown_by_handler()
{
	bool caught = false;

	std::set_new_handler(throwing_handler);
	ncalls = 0;
	try {
		keep(operator new(HUGE_SIZE));
	} catch (const own_error &error) {
		caught = error.number == 5;
	}
	check(caught && ncalls == 1);
	std::set_new_handler(nullptr);
}

static void
check_library()
{
	std::vector<std::string> words;

	for (int i = 0; i < 20000; i++)
		words.push_back(std::string(static_cast<size_t>(i % 300), 'x'));
	for (int i = 0; i < 20000; i++)
		check(words[static_cast<size_t>(i)].size() ==
		      static_cast<size_t>(i % 300));
	try {
		throw std::runtime_error(words[299]);
	} catch (const std::exception &error) {
		check(strlen(error.what()) == 299);
	}
}

/*
 * Each operator works.  Without memory the new-handler runs, then bad_alloc is
 * thrown, or NULL returned by the nothrow forms.
 */
static void
all()
{
	check_names();
	for (size_t n = 0; n < 3000000; n += n / 3 + 1) {
		check_plain(n);
		for (size_t by = 1; by <= 1024 * 1024; by *= 8)
			check_aligned(n, by);
	}
	for (int i = 0; i < 3; i++)
		check_failures();
	check_thrown_by_handler();
	check_library();
}

static void
handler_once()
{
	ncalls++;
	std::set_new_handler(nullptr);
}

/* f returns no memory, having called the handler at least once. */
template <typename F>
static void
refuses(F f, bool throws, size_t size, size_t align)
{
	bool thrown = false;
	void *p = nullptr;

	ncalls = 0;
	std::set_new_handler(handler_once);
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

	refuses([=] { return operator new(n, align); }, true, n, by);
	refuses([=] { return operator new[](n, align); }, true, n, by);
	refuses([=] { return operator new(n, align, quiet); }, false, n, by);
	refuses([=] { return operator new[](n, align, quiet); }, false, n, by);
}

static void
refused_plain(size_t n)
{
	refuses([=] { return operator new(n); }, true, n, 0);
	refuses([=] { return operator new[](n); }, true, n, 0);
	refuses([=] { return operator new(n, quiet); }, false, n, 0);
	refuses([=] { return operator new[](n, quiet); }, false, n, 0);
}

/*
 * Every operator new refuses a size or an alignment that no object can have:
 * it calls the new-handler, then throws bad_alloc or returns NULL.  In
 * particular the size rounded up to the alignment may exceed SIZE_MAX.
 */
static void
sizes()
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
}

static const struct test_case cases[] = {
    {"all", all}, {"sizes", sizes}, {nullptr, nullptr}};

int
main(int argc, char **argv)
{
	return run_case(argc, argv, cases);
}
