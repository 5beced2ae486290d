/*
 * tests/programs/rcu/rcu_torture.c with more updates, on one CPU.
 *
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 * test args: 50000 sleep pinned signals
 * test timeout: 600
 * test no stderr: not empty
 */
#include "tests/programs/rcu/rcu_torture.c"
