/*
 * Grace periods that end at once: rcu_torture.c sees a node change.
 *
 * test exit: 3
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 * test args: 1 broken
 */
#include "tests/programs/rcu/rcu_torture.c"
