/*
 * The names of umem_rcu.h for the flavour qsbr.
 *
 * test link: rcu
 * test libs: -lurcu-qsbr
 * test no stderr: not empty
 */
#define URCU_API_MAP
#include <urcu/urcu-qsbr.h>

#include "tests/programs/rcu/rcu_map.h"
