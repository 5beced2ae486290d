/* sample_text.h - the samples as a heap profile; see sample_text.c */
#ifndef UMEM_SAMPLE_TEXT_H
#define UMEM_SAMPLE_TEXT_H

#include "umem/stats/text.h"

/*
 * Returns the text, which the caller deletes; NULL if there is no memory for
 * it.  Other threads may allocate and free meanwhile.
 */
struct text *sample_text_create(void);

#endif
