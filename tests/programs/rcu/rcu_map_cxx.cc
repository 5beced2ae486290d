/*
 * The names of umem_rcu.h in C++.
 *
 * test link: rcu
 * test libs: -lurcu-memb
 * test no stderr: not empty
 */
#define URCU_API_MAP
#include <urcu/urcu-memb.h>

#include "tests/programs/rcu/rcu_map.h"
