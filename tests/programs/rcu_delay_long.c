/* rcu_delay.c with a delay of 10 seconds. */
#include "tests/programs/rcu_delay.c"
