/* The names of umem_rcu.h in C++. */
#define URCU_API_MAP
#include <urcu/urcu-memb.h>

#include "tests/programs/rcu_map.h"
