/* hard_limit.c while blocks are sampled: a sample counts by its pages. */
#include "tests/programs/hard_limit.c"
