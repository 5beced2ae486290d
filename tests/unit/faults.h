/* faults.h - does an access to memory fault? */
#ifndef TESTS_UNIT_FAULTS_H
#define TESTS_UNIT_FAULTS_H

#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The kernel reads the byte for write(2), so no signal is raised.  A child that
 * dies of the signal would take a second with ThreadSanitizer, which prints a
 * report.  syscall() hides the address from the sanitizers.
 */
static inline bool
faults(const char *at)
{
	int fd[2];
	long n;

	ck_assert_int_eq(pipe(fd), 0);
	n = syscall(SYS_write, fd[1], at, 1L);
	ck_assert(n == 1 || (n == -1 && errno == EFAULT));
	close(fd[0]);
	close(fd[1]);
	return n == -1;
}

#endif
