/* hard_limit.c while blocks are sampled: a sample counts by its pages. */
#include <stdbool.h>

#define IS_SAMPLED true
#include "tests/programs/hard_limit.c"
