/*
 * The same for minutes.
 *
 * test modes: rseq own locked
 * test args: 3000
 * test timeout: 1200
 */
#include "tests/programs/threads/single_step.c"
