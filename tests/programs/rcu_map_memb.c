/* The names of umem_rcu.h for the flavour memb. */
#define URCU_API_MAP
#include <urcu/urcu-memb.h>

#include "tests/programs/rcu_map.h"
