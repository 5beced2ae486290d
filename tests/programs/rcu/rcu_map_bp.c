/*
 * The names of umem_rcu.h for the flavour bp.
 *
 * test link: rcu
 * test libs: -lurcu-bp
 * test no stderr: not empty
 */
#define URCU_API_MAP
#include <urcu/urcu-bp.h>

#include "tests/programs/rcu/rcu_map.h"
