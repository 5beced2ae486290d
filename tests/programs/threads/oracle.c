/*
 * The oracle of oracle.h, with more threads than CPUs:
 *
 *	oracle [MILLISECONDS PAIRS]	2000 and 6 pairs of threads by default
 *
 * test modes: rseq own locked
 * test no stderr: not empty
 */
#include "tests/programs/threads/oracle.h"

int
main(int argc, char **argv)
{
	if (argc > 2)
		oracle(atoi(argv[1]), atoi(argv[2]));
	else
		oracle(2000, 6);
	return 0;
}
