/*
 * A daemon closes its standard descriptors and opens its data, which becomes
 * descriptor 2.  A second free ends it, and no message goes into the data.
 *
 * test not with: qemu writes a line of its own when a signal ends a process
 * test run: no_log
 * test args: no_log
 * test run: log
 * test args: log
 * test env: UMEM_OPTIONS=verbose,log=messages.%p.%%p
 * test no stderr: umem
 */
#include <signal.h>
#include <sys/stat.h>

#include "tests/programs/check.h"

/* Reads the file of a process; returns the number of bytes. */
static ssize_t
read_log(pid_t process, char *text, size_t n)
{
	char path[64];
	struct stat info;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "messages.%d.%%p", process);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return -1;
	check(fstat(fd, &info) == 0 && (info.st_mode & 0777) == 0600);
	got = read(fd, text, n - 1);
	check(got >= 0);
	text[got] = '\0';
	close(fd);
	unlink(path);
	return got;
}

static void
daemon_with_fault(void)
{
	char *volatile p = malloc(100);

	check(chdir("/") == 0);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	for (int fd = 0; fd < 3; fd++)
		if (dup(9) != fd)
			_exit(1);
	if (write(2, "data\n", 5) != 5)
		_exit(2);
	free(p);
	free(p);
	_exit(3);
}

/*
 * With UMEM_OPTIONS=log the messages go to that file.  The path is relative to
 * the directory in which the process started, and each process has a file of
 * its own.
 */
static void
with_a_log(void)
{
	static char text[65536];
	char path[] = "data-XXXXXX";
	int fd = mkstemp(path), status;
	pid_t child;

	/* The line of the option verbose. */
	check(read_log(getpid(), text, sizeof(text)) > 0);
	check(strstr(text, " mode ") != NULL);
	check(fd >= 0 && dup2(fd, 9) == 9);
	child = fork();
	if (child == 0)
		daemon_with_fault();
	check(waitpid(child, &status, 0) == child);
	unlink(path);
	check(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	check(read_log(child, text, sizeof(text)) > 0);
	check(strstr(text, "freed twice") != NULL);
	check(read_log(getpid(), text, sizeof(text)) < 0);
	check(pread(9, text, sizeof(text), 0) == 5);
	check(memcmp(text, "data\n", 5) == 0);
}

static void
daemon_that_opens(const char *path)
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

static void
without_a_log(void)
{
	char path[] = "umem-test-XXXXXX", got[100];
	int fd = mkstemp(path), status;
	pid_t child;

	check(fd >= 0);
	child = fork();
	if (child == 0)
		daemon_that_opens(path);
	check(waitpid(child, &status, 0) == child);
	unlink(path);
	check(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	check(read(fd, got, sizeof(got)) == 5);
	check(memcmp(got, "data\n", 5) == 0);
}

static const struct test_case cases[] = {
    {"no_log", without_a_log}, {"log", with_a_log}, {NULL, NULL}};

int
main(int argc, char **argv)
{
	return run_case(argc, argv, cases);
}
