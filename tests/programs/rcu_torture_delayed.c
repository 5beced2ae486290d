/*
 * rcu_torture.c on one CPU, with grace periods that begin and end late, and
 * with a signal every 200 us.
 */
#include "tests/programs/rcu_torture.c"
