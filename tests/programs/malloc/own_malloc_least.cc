// The program own_malloc without an aligned_alloc() and malloc_usable_size().
//
// test cflags: -std=c++17 -Wno-sized-deallocation -Wno-mismatched-new-delete
// test account: no
// test no stderr: .
#define OWN_MALLOC_MIN
#include "tests/programs/malloc/own_malloc.cc"
