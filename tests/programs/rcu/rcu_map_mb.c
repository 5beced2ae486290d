/*
 * The names of umem_rcu.h for the flavour mb.
 *
 * test link: rcu
 * test libs: -lurcu-mb
 * test no stderr: not empty
 */
#define URCU_API_MAP
#include <urcu/urcu-mb.h>

#include "tests/programs/rcu/rcu_map.h"
