/* tests/programs/rcu_torture.c with more updates, on one CPU. */
#include "tests/programs/rcu_torture.c"
