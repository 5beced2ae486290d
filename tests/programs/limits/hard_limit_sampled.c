/*
 * hard_limit.c while blocks are sampled: a sample counts by its pages.
 *
 * test env: UMEM_OPTIONS=hard_limit=64m,sample=64k
 */
#include <stdbool.h>

#define IS_SAMPLED true
#include "tests/programs/limits/hard_limit.c"
