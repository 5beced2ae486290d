/* The same for minutes. */
#include "tests/programs/single_step.c"
