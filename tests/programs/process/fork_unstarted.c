/*
 * fork() before the first call of malloc(), which starts the library: with
 * memory for that, and without, when nothing can be held for the child.
 *
 * test modes: default
 * test account: no
 * test no stderr: .
 * test not with: undefined allocates before main()
 * test not with: musl allocates before main()
 * test not with: qemu has no seccomp filters
 */
#include "tests/programs/seccomp.h"

static void
use(bool memory)
{
	for (int i = 0; i < 1000; i++) {
		void *p;

		errno = 0;
		p = malloc(100 + (size_t)i);
		check((p != NULL) == memory);
		check(memory || errno == ENOMEM);
		free(p);
	}
}

static void
fork_and_use(bool memory)
{
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			use(memory);
			/* And the child's child. */
			pid = fork();
			if (pid != 0)
				child_end(pid);
			use(memory);
			_exit(0);
		}
		check(pid > 0);
		child_end(pid);
	}
	use(memory);
}

int
main(int argc, char **argv)
{
	static const int calls[] = {SYS_mmap, SYS_brk, SYS_mprotect};
	pid_t pid;

	if (argc > 1) {
		refuse(calls, 3, ENOMEM);
		fork_and_use(/* memory */ false);
		return 0;
	}
	fork_and_use(/* memory */ true);
	pid = fork();
	if (pid == 0)
		start_again(argv, "refused");
	child_end(pid);
	return 0;
}
