/* stats_text.h - the figures of stats.h as OpenMetrics text; stats_text.c */
#ifndef UMEM_STATS_TEXT_H
#define UMEM_STATS_TEXT_H

#include "umem/stats/text.h"

/*
 * Returns the text, which the caller deletes; NULL if there is no memory for
 * it.
 */
struct text *stats_text_create(void);

#endif
