/* Grace periods that end at once: rcu_stale.c sees another type. */
#include "tests/programs/rcu_stale.c"
