/*
 * coverage.c - counters of clang's coverage in a file that processes share
 *
 * Part of the libraries, the command and the unit tests that `make coverage`
 * builds.  Before main() it makes the counters of its library or program a
 * shared mapping of a file in $COVERAGE_DIR, in the format of llvm-profdata.
 * Therefore nothing is written at exit: children of fork() count in the same
 * file, and a process loses no count if a signal kills it.  All processes of
 * one test add to one file for each library or program.
 *
 * The counters move by __llvm_profile_counter_bias, which the compiler adds to
 * the address of each counter (-mllvm -runtime-counter-relocation).  Counts
 * from before the constructor are added to those of the file.  Increments are
 * not atomic: a count may be too small, but not zero for a line that was
 * executed.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Parts of the compiler's run-time library, linked into this object. */
uint64_t __llvm_profile_get_size_for_buffer(void);
int __llvm_profile_write_buffer(char *);
uint64_t *__llvm_profile_begin_counters(void);
uint64_t *__llvm_profile_end_counters(void);
char *__llvm_profile_begin_names(void);
char *__llvm_profile_end_names(void);
extern intptr_t __llvm_profile_counter_bias
    __attribute__((visibility("hidden")));

/* With this definition the run-time library writes no file of its own. */
extern int __llvm_profile_runtime __attribute__((visibility("hidden")));
int __llvm_profile_runtime;

/* Makes a complete file appear at once; another process may be first. */
static void
make_file(const char *path, size_t size)
{
	char fresh[4100];
	char *buffer = mmap(NULL, size, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd;

	snprintf(fresh, sizeof fresh, "%s.%d", path, (int)getpid());
	fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (buffer == MAP_FAILED || fd < 0)
		return;
	__llvm_profile_write_buffer(buffer);
	if (write(fd, buffer, size) == (ssize_t)size)
		link(fresh, path);
	unlink(fresh);
	close(fd);
	munmap(buffer, size);
}

static void __attribute__((constructor(101)))
share_counters(void)
{
	const char *folder = getenv("COVERAGE_DIR");
	uint64_t *own = __llvm_profile_begin_counters();
	size_t ncounters = __llvm_profile_end_counters() - own;
	size_t names_size =
	    __llvm_profile_end_names() - __llvm_profile_begin_names();
	/* The file ends with the counters and the names, padded to 8 bytes. */
	size_t size = __llvm_profile_get_size_for_buffer();
	size_t at = size - (names_size + 7) / 8 * 8 - ncounters * 8;
	char path[4000];
	char *file;
	int fd;

	/* Scripts build libraries without counters, too. */
	if (ncounters == 0)
		return;
	/* Two libraries do not have both sizes in common. */
	snprintf(path, sizeof path, "%s/%zu-%zu.profraw",
	    folder ? folder : COVERAGE_DIR, ncounters, names_size);
	if (access(path, F_OK) != 0)
		make_file(path, size);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	file = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (file == MAP_FAILED)
		return;
	for (size_t i = 0; i < ncounters; i++)
		((uint64_t *)(file + at))[i] += own[i];
	__llvm_profile_counter_bias = (intptr_t)(file + at) - (intptr_t)own;
}
