/* The oracle of tests/programs/oracle.h for minutes. */
#include "tests/programs/oracle.h"

int
main(void)
{
	oracle(120000, 20);
	return 0;
}
