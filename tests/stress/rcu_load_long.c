/* tests/programs/rcu_load.c for about a minute in all. */
#include "tests/programs/rcu_load.c"
