/*
 * A program that never allocates does not start the library; the first call
 * may then come in a fork handler, in a forked child, or in a thread.
 *
 * test not with: musl starts with fewer mappings
 * test modes: default
 * test not with: undefined allocates before main()
 */
#include "tests/programs/check.h"

/* glibc has it from 2.34 on. */
pid_t _Fork(void);
#pragma weak _Fork

static volatile bool wants;
static char *made;

/* Runs after the library's own, for it was registered before that. */
static void
prepare(void)
{
	if (wants)
		check((made = malloc(100)) != NULL);
}

static void
after(void)
{
	free(made);
	made = NULL;
}

static void
register_early(void)
{
	check(pthread_atfork(prepare, after, after) == 0);
}

__attribute__((section(".preinit_array"), used)) static void (*entry)(
    void) = register_early;

static unsigned
nmappings(void)
{
	static char text[4096];
	int fd = open("/proc/self/maps", O_RDONLY);
	unsigned n = 0;
	ssize_t got;

	check(fd >= 0);
	while ((got = read(fd, text, sizeof(text))) > 0)
		for (ssize_t i = 0; i < got; i++)
			n += text[i] == '\n';
	close(fd);
	return n;
}

static void *
once(void *arg)
{
	churn((uintptr_t)arg, 500, 100000);
	return NULL;
}

static void
child(unsigned i)
{
	limit_time();
	churn(i, 300, 300000);
	thread_end(thread_start(once, (void *)(uintptr_t)i));
	_exit(0);
}

static void
fork_once(unsigned i)
{
	pid_t pid = fork();

	if (pid == 0)
		child(i);
	child_end(pid);
}

/* A copy that has not started either forks as the first thing it does. */
static void
fork_unstarted(unsigned i)
{
	pid_t pid = _Fork();

	if (pid == 0) {
		wants = i % 2 != 0;
		fork_once(i);
		_exit(0);
	}
	child_end(pid);
}

int
main(void)
{
	unsigned before = nmappings();
	pid_t pid;

	if (_Fork == NULL)
		skip("there is no _Fork()");
	for (unsigned i = 0; i < 20; i++)
		fork_unstarted(i);
	pid = _Fork();
	if (pid == 0)
		child(7);
	child_end(pid);
	check(nmappings() == before);

	wants = true;
	fork_once(1);
	check(nmappings() >= before + 4);
	child(2);
}
