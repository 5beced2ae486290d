// A sized free with a size or an alignment that is not the block's frees the
// block and counts the call.  With an argument, makes one such call of the form
// with this number, which UMEM_DEBUG reports; see wrong_size_reported.sh.
//
// test cflags: -std=c++17 -Wno-sized-deallocation -Wno-mismatched-new-delete
// test no stderr: .
#include <cstdlib>
#include <new>

#include "tests/programs/check.h"

// The libraries that the program is linked with lack them.
#pragma weak umem_stats
#pragma weak free_sized
#pragma weak free_aligned_sized
#pragma weak mallocx
#pragma weak sdallocx
extern "C" {
void free_sized(void *p, size_t size);
void free_aligned_sized(void *p, size_t align, size_t size);
void *mallocx(size_t size, int flags);
void sdallocx(void *p, size_t size, int flags);
}

namespace {

const std::align_val_t line{64}, page{4096};

struct form {
	void *(*allocate)(size_t size);
	void (*drop)(void *p, size_t size);
};

const form forms[] = {
    {[](size_t n) { return operator new(n); },
	[](void *p, size_t n) { operator delete(p, n); }},
    {[](size_t n) { return operator new[](n); },
	[](void *p, size_t n) { operator delete[](p, n); }},
    {[](size_t n) { return operator new(n, line); },
	[](void *p, size_t n) { operator delete(p, n, line); }},
    {[](size_t n) { return operator new[](n, page); },
	[](void *p, size_t n) { operator delete[](p, n, page); }},
    {[](size_t n) { return malloc(n); },
	[](void *p, size_t n) { free_sized(p, n); }},
    {[](size_t n) { return aligned_alloc(64, n); },
	[](void *p, size_t n) { free_aligned_sized(p, 64, n); }},
    {[](size_t n) { return mallocx(n, 0); },
	[](void *p, size_t n) { sdallocx(p, n, 0); }},
    {[](size_t n) { return mallocx(n, 7); },
	[](void *p, size_t n) { sdallocx(p, n, 7); }},
};
const size_t nforms = sizeof(forms) / sizeof(forms[0]);

uint64_t
count()
{
	struct umem_stats stats;

	check(umem_stats(&stats, sizeof(stats)) == 0);
	return stats.nwrong_sizes;
}

void
one_block(const form &form, size_t size, size_t wrong)
{
	char *volatile p = (char *)form.allocate(size);

	check(p != nullptr);
	p[0] = p[size - 1] = 1;
	errno = 99;
	form.drop(p, wrong);
	check(errno == 99);
}

/* Is the size wrong for each block of the other size, aligned or not? */
bool
is_far(size_t size, size_t wrong)
{
	return wrong > 2 * size + 16384;
}

void
try_all(const form &form)
{
	static const size_t sizes[] = {
	    1, 24, 100, 1000, 30000, 40000, 500000, 5000000, 20000000};

	for (size_t size : sizes)
		for (size_t wrong : sizes) {
			uint64_t before = count();

			for (int i = 0; i < 20; i++)
				one_block(form, size, wrong);
			if (size == wrong)
				check(count() == before);
			if (is_far(size, wrong))
				check(count() == before + 20);
		}
}

} // namespace

int
main(int argc, char **argv)
{
	long before;

	if (argc > 1) {
		one_block(forms[std::atoi(argv[1])], 100, 50000);
		return 0;
	}
	for (const form &form : forms)
		try_all(form);
	before = rss_kib();
	/* 20 GB in all; and one size for every block, as ROS 2 has it. */
	for (int i = 0; i < 200; i++)
		for (const form &form : forms)
			one_block(form, 12000000, 1);
	for (int i = 0; i < 200000; i++)
		one_block(forms[i % nforms], 1 + i % 3000, 1);
	check(rss_kib() < before + 100 * 1024);
	/* A null pointer has no size. */
	uint64_t nulls = count();
	for (const form &form : forms)
		form.drop(nullptr, 1);
	check(count() == nulls);
	return 0;
}
