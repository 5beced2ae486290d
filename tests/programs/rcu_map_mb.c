/* The names of umem_rcu.h for the flavour mb. */
#define URCU_API_MAP
#include <urcu/urcu-mb.h>

#include "tests/programs/rcu_map.h"
