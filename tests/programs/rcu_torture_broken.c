/* Grace periods that end at once: rcu_torture.c sees a node change. */
#include "tests/programs/rcu_torture.c"
