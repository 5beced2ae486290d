/*
 * Limits of address space and of data: the program can allocate most of the
 * memory below the limit.  Then malloc() returns NULL and sets ENOMEM.  After
 * the program has freed memory it can allocate it again in blocks of the same
 * size; with the argument "reuse", also in blocks of other sizes.
 *
 * test not with: qemu has no limits
 * test run: one_size
 * test run: reuse
 * test args: reuse
 */
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "tests/programs/check.h"

#define LIMIT (128 * MIB)

static size_t
fill(size_t size)
{
	static char **list;
	size_t total = 0;
	char **p;

	for (;;) {
		errno = 0;
		p = malloc(size);
		if (p == NULL)
			break;
		stamp(p + 2, size - 16, (uintptr_t)p);
		p[0] = (char *)list;
		list = p;
		total += size;
		check(total < 8 * LIMIT);
	}
	check(errno == ENOMEM);
	for (p = list; p != NULL; p = list) {
		check(is_stamped(p + 2, size - 16, (uintptr_t)p));
		list = (char **)p[0];
		errno = 123;
		free(p);
		check(errno == 123);
	}
	return total;
}

static void
fill_well(size_t size)
{
	size_t total = fill(size);

	if (total < LIMIT / 2)
		fprintf(stderr, "only %zu by %zu\n", total, size);
	check(total >= LIMIT / 2);
}

/* Freed memory does not count as data any more, so others can have it. */
static void
check_room(void)
{
	struct rlimit limit;
	void *at;

	check(getrlimit(RLIMIT_DATA, &limit) == 0);
	if (limit.rlim_cur == RLIM_INFINITY)
		return;
	malloc_trim(0);
	at = mmap(NULL, LIMIT / 2, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(at != MAP_FAILED);
	munmap(at, LIMIT / 2);
}

static const size_t sizes[] = {500, 30000, 5 * MIB};

enum {
	NSIZES = sizeof(sizes) / sizeof(sizes[0])
};

static void
limited(size_t first, size_t nsizes)
{
	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < nsizes; i++)
			fill_well(sizes[first + i]);
	if (nsizes > 1)
		churn(1, 10000, MIB);
	check_room();
}

/* Address space in use; it counts against a limit that comes late. */
static rlim_t
in_use(void)
{
	char text[128] = "";
	int fd = open("/proc/self/statm", O_RDONLY);

	check(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	return (rlim_t)(atol(text) * sysconf(_SC_PAGESIZE));
}

/* In a process that starts with the limit, or gets it later. */
static void
run(int resource, bool late, size_t first, size_t nsizes)
{
	struct rlimit limit = {LIMIT, LIMIT};
	char words[2][20];
	pid_t pid = fork();

	if (pid != 0) {
		child_end(pid);
		return;
	}
	if (late)
		limit.rlim_cur = limit.rlim_max = LIMIT + in_use();
	check(setrlimit(resource, &limit) == 0);
	snprintf(words[0], sizeof(words[0]), "%zu", first);
	snprintf(words[1], sizeof(words[1]), "%zu", nsizes);
	if (!late)
		execl("/proc/self/exe", "rlimit", words[0], words[1], NULL);
	limited(first, nsizes);
	_exit(0);
}

int
main(int argc, char **argv)
{
	static const int resources[] = {RLIMIT_AS, RLIMIT_DATA};

	if (argc > 2) {
		limited((size_t)atol(argv[1]), (size_t)atol(argv[2]));
		return 0;
	}
	for (int i = 0; i < 4; i++) {
		if (argc > 1) {
			run(resources[i / 2], i % 2, 0, NSIZES);
			continue;
		}
		for (size_t size = 0; size < NSIZES; size++)
			run(resources[i / 2], i % 2, size, 1);
	}
	return 0;
}
