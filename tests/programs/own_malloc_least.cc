// The program own_malloc without an aligned_alloc() and malloc_usable_size().
#define OWN_MALLOC_LEAST
#include "tests/programs/own_malloc.cc"
