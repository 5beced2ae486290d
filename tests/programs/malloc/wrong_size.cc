// A sized free with a size or an alignment that is not the block's frees the
// block and counts the call.  With the argument "reported", for debugged and
// hardened blocks, each form of the call ends a child with a message.
//
// test cflags: -std=c++17 -Wno-sized-deallocation -Wno-mismatched-new-delete
// test no stderr: .
//
// test run: counted
// test run: hardened
// test modes: default
// test args: reported
// test env: UMEM_OPTIONS=hardened
// test run: debugged
// test modes: default
// test args: reported
// test env: UMEM_DEBUG=default
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

// How many of the forms find a size that is too small?
uint64_t
found()
{
	uint64_t before = count();

	for (const form &form : forms)
		one_block(form, 40000, 100);
	return count() - before;
}

void
shrink_large()
{
	void *p = malloc(10 << 20);

	check(p != nullptr && (p = realloc(p, 9 << 20)) != nullptr);
	free(p);
}

// The message of the child is in a pipe.
void
is_reported(const form &form)
{
	char text[4096] = "";
	size_t length = 0;
	ssize_t n;
	int ends[2], status;

	check(pipe(ends) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(ends[1], 2);
		one_block(form, 100, 50000);
		_exit(0);
	}
	close(ends[1]);
	while ((n = read(ends[0], text + length, sizeof(text) - 1 - length)) > 0)
		length += n;
	close(ends[0]);
	check(waitpid(pid, &status, 0) == pid);
	check(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	check(strstr(text, "free size (50000) != alloc size (100)") ||
	      strstr(text, "size 50000 does not fit the block"));
}

} // namespace

int
main(int argc, char **argv)
{
	long before;

	(void)argv;
	if (argc > 1) {
		for (const form &form : forms)
			is_reported(form);
		return 0;
	}
	/* A large block that shrinks in place does not end the check. */
	uint64_t nfound = found();
	shrink_large();
	check(nfound > 0 && found() == nfound);
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
