/*
 * target_read.c - reads memory of a live process, or of its copy
 *
 * The command reads only pages that the process has touched (target_touched.c);
 * the others are zeros.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tools/inspect/target/target.h"

/*
 * This file of the kernel is the memory of the program that ran when it was
 * opened.  If a thread that does not stop is in execve() at this moment, the
 * memory is gone, and nothing is written to that of the next program.
 */
bool
live_poke(struct target *target, uint64_t at, const void *from, size_t bytes)
{
	assert(target->held && !target->reads_made && !target->borrowed);
	return pwrite(target->memory, from, bytes, (off_t)at) == (ssize_t)bytes;
}

/*
 * Reads memory of the process, or of its copy.  process_vm_readv() pins the
 * pages, for which the kernel (since 5.19) first gives the copy pages of its
 * own: to read it would take as much memory again.
 */
static ssize_t
memory_read(const struct target *target, uint64_t at, char *to, uint64_t bytes)
{
	struct iovec local = {to, bytes};
	struct iovec remote = {(void *)at, bytes};
	ssize_t got;

	if (!target->reads_made)
		return process_vm_readv(
		    live_reader(target), &local, 1, &remote, 1, 0);
	got = pread(target->made->memory, to, bytes, (off_t)at);
	if (got == 0)
		errno = ESRCH;
	return got == 0 ? -1 : got;
}

static bool
touched_peek(struct target *target, uint64_t at, char *to, size_t bytes)
{
	ssize_t n = memory_read(target, at, to, bytes);

	if (n < 0 && errno == ESRCH)
		live_fail_gone(target);
	if (n < 0 && errno == EPERM)
		live_fail_permission(target);
	return n == (ssize_t)bytes;
}

bool
live_peek(struct target *target, uint64_t at, void *to, size_t bytes)
{
	uint64_t done, n;
	bool is_touched;

	for (done = 0; done < bytes; done += n) {
		n = live_touched_run(
		    target, at + done, bytes - done, &is_touched);
		if (!is_touched)
			memset((char *)to + done, 0, n);
		else if (!touched_peek(target, at + done, (char *)to + done, n))
			return false;
	}
	return true;
}

int
live_read_present(const struct target *target, uint64_t at, uint64_t bytes,
    char *to, bool *any)
{
	const uint64_t page = 4096;
	uint64_t done = 0;

	while (done < bytes) {
		uint64_t left = bytes - done;
		ssize_t got = memory_read(target, at + done, to + done, left);

		if (got < 0 && (errno == ESRCH || errno == EPERM))
			return errno;
		if (got > 0) {
			*any = true;
		} else {
			got = (ssize_t)(left < page ? left : page);
			memset(to + done, 0, (size_t)got);
		}
		done += (uint64_t)got;
	}
	assert(done == bytes);
	return 0;
}

bool
live_read(struct target *target, uint64_t at, uint64_t bytes, char *to)
{
	bool is_touched, any;
	uint64_t done, n;
	int error = 0;

	for (done = 0; done < bytes && error == 0; done += n) {
		n = live_touched_run(
		    target, at + done, bytes - done, &is_touched);
		if (is_touched)
			error = live_read_present(
			    target, at + done, n, to + done, &any);
		else
			memset(to + done, 0, n);
	}
	if (error == ESRCH)
		live_fail_gone(target);
	return error == 0;
}
