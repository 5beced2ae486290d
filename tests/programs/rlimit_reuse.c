/* Under a limit, memory that was freed is good for blocks of another size. */
#define REUSE
#include "tests/programs/rlimit.c"
