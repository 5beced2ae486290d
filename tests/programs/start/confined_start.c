/*
 * UMEM_OPTIONS=confined with libumem.so.1.  A program confines itself at once.
 * It has one CPU, on which the thread of the library would begin later.
 *
 * test account: no
 * test link: umem
 * test modes: rseq own locked
 * test env: UMEM_OPTIONS=confined,thread=yes
 * test no stderr: .
 */
#include <sched.h>

#include "tests/programs/seccomp.h"

int
main(int argc, char **argv)
{
	cpu_set_t one;

	if (argc == 1) {
		CPU_ZERO(&one);
		CPU_SET(sched_getcpu(), &one);
		check(sched_setaffinity(0, sizeof(one), &one) == 0);
		start_again(argv, "again");
	}
	allow_only_malloc();
	usleep(100000);
	umem_free(umem_alloc(100, UMEM_NOFAIL), 100);
	return 0;
}
