/* Under a limit, freed memory can be allocated in blocks of another size. */
#define REUSE
#include "tests/programs/limits/rlimit.c"
