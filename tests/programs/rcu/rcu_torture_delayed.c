/*
 * rcu_torture.c on one CPU, with grace periods that begin and end late, and
 * with a signal every 200 us.
 *
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 * test args: 500 sleep pinned signals
 * test no stderr: not empty
 */
#include "tests/programs/rcu/rcu_torture.c"
