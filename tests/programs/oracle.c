/* The oracle of oracle.h for two seconds, with more threads than CPUs. */
#include "tests/programs/oracle.h"

int
main(void)
{
	oracle(2000, 6);
	return 0;
}
