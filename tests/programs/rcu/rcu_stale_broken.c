/*
 * Grace periods that end at once: rcu_stale.c sees another type.
 *
 * test exit: 3
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 * test args: broken
 */
#include "tests/programs/rcu/rcu_stale.c"
