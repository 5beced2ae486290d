/*
 * tests/programs/rcu/rcu_stall.c for ten seconds.
 *
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 * test args: 10000
 */
#include "tests/programs/rcu/rcu_stall.c"
