/* The names of umem_rcu.h for the flavour qsbr. */
#define URCU_API_MAP
#include <urcu/urcu-qsbr.h>

#include "tests/programs/rcu_map.h"
