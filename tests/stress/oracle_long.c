/*
 * The oracle of tests/programs/threads/oracle.h for minutes.
 *
 * test modes: rseq own locked
 * test timeout: 600
 * test no stderr: not empty
 */
#include "tests/programs/threads/oracle.h"

int
main(void)
{
	oracle(120000, 20);
	return 0;
}
