/* exit_check.h - overruns of blocks that are never freed; see exit_check.c */
#ifndef UMEM_EXIT_CHECK_H
#define UMEM_EXIT_CHECK_H

#include "vmem/base.h"

/*
 * Time that the check takes at most, in ns, apart from its reports.  A program
 * that ends is not noticeably delayed by it.  In this time it compares about
 * 7 million blocks of 64 bytes (AMD EPYC, tests/bench/constants.md).
 */
#define EXIT_CHECK_NS 200000000ull

/* Registers the check for exit(), if UMEM_OPTIONS=hardened is set. */
void exit_check_start(void);

/*
 * Checks all blocks of size classes for limit_ns at most, reports up to
 * EXIT_REPORTS that are damaged, and returns their number.  Does not abort.
 */
#define EXIT_REPORTS 16
unsigned exit_check(uint64_t limit_ns);

#endif
