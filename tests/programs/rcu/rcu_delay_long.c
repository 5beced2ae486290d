/*
 * rcu_delay.c with a delay of 10 seconds.
 *
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 * test args: long
 * test env: UMEM_OPTIONS=rcu_delay=10000
 */
#include "tests/programs/rcu/rcu_delay.c"
