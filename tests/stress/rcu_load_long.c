/*
 * tests/programs/rcu/rcu_load.c for about a minute in all.
 *
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 * test args: 1500000
 * test timeout: 600
 * test env: UMEM_OPTIONS=rcu_budget=4m
 * test no stderr: not empty
 */
#include "tests/programs/rcu/rcu_load.c"
