/*
 * fork() while other threads are in stdio: getline() holds the lock of its
 * stream and waits for a lock of the library.  fflush(NULL) holds libc's lock
 * of all streams and waits for the stream's lock.  The child calls both, too.
 *
 * test not with: musl its fork() waits for a stream in use, see umem_malloc(3)
 */
#include "tests/programs/check.h"

enum {
	NFORKS = 150,
	NFLUSHES = 2
};
static volatile bool stop;

/* Lines of growing length, so that each is a realloc(). */
static void *
read_lines(void *arg)
{
	FILE *f = tmpfile();

	(void)arg;
	check(f != NULL);
	for (int n = 1; n < 20000; n = 2 * n + 7)
		fprintf(f, "%0*d\n", n, n);
	while (!stop) {
		char *line = NULL;
		size_t size = 0;

		rewind(f);
		while (getline(&line, &size, f) > 0)
			;
		free(line);
	}
	fclose(f);
	return NULL;
}

static void *
flush_all(void *arg)
{
	while (!stop)
		fflush(NULL);
	return arg;
}

static int
live(void)
{
	FILE *f = tmpfile();
	char *line = NULL;
	size_t size = 0;

	check(f != NULL && fprintf(f, "%0*d\n", 3000, 7) == 3001);
	fflush(NULL);
	rewind(f);
	check(getline(&line, &size, f) == 3001);
	free(line);
	fclose(f);
	return 0;
}

int
main(void)
{
	pthread_t reader = thread_start(read_lines, NULL);
	pthread_t flusher[NFLUSHES];

	for (int i = 0; i < NFLUSHES; i++)
		flusher[i] = thread_start(flush_all, NULL);
	for (int i = 0; i < NFORKS; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(live());
		child_end(pid);
	}
	stop = true;
	thread_end(reader);
	for (int i = 0; i < NFLUSHES; i++)
		thread_end(flusher[i]);
	/* The lock of all streams is free again. */
	return live();
}
