/* stats_text.h - the figures of stats.h as a text; see stats_text.c */
#ifndef UMEM_STATS_TEXT_H
#define UMEM_STATS_TEXT_H

#include "umem/malloc/text.h"

enum stats_form {
	STATS_TABLE,  /* of malloc_stats() and umem_dump() */
	STATS_XML,    /* of malloc_info() */
	STATS_METRICS /* OpenMetrics, of umem_metrics() */
};

/*
 * Returns the text, which the caller deletes; NULL if there is no memory for
 * it.
 */
struct text *stats_text_create(enum stats_form form);

#endif
