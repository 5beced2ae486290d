/* tests/programs/rcu_stall.c for ten seconds. */
#include "tests/programs/rcu_stall.c"
