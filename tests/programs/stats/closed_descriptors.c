/*
 * A daemon closes its standard descriptors and opens its data, which becomes
 * descriptor 2.  A second free ends it, and no message goes into the data.
 */
#include <signal.h>

#include "tests/programs/check.h"

static void
daemon_with_fault(const char *path)
{
	char *volatile p = malloc(100);

	for (int fd = 0; fd < 3; fd++)
		close(fd);
	for (int fd = 0; fd < 3; fd++)
		if (open(path, O_RDWR) != fd)
			_exit(1);
	if (write(2, "data\n", 5) != 5)
		_exit(2);
	free(p);
	free(p);
	_exit(3);
}

int
main(void)
{
	char path[] = "umem-test-XXXXXX", got[100];
	int fd = mkstemp(path), status;
	pid_t child;

	check(fd >= 0);
	child = fork();
	if (child == 0)
		daemon_with_fault(path);
	check(waitpid(child, &status, 0) == child);
	unlink(path);
	check(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	check(read(fd, got, sizeof(got)) == 5);
	check(memcmp(got, "data\n", 5) == 0);
	return 0;
}
