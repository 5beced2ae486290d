/*
 * stats_report.h - the figures of stats.h in the forms of the C library; see
 * stats_report.c
 */
#ifndef UMEM_STATS_REPORT_H
#define UMEM_STATS_REPORT_H

#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>

/* Returns the figures for mallinfo2(). */
struct mallinfo2 stats_report_mallinfo(void);

/*
 * Writes the report of malloc_info() if xml, otherwise that of malloc_stats().
 * Returns false if there is no memory to put it together.
 */
bool stats_report_write(FILE *file, bool xml);

#endif
