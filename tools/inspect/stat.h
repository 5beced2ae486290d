/* stat.h - statistics of a model; see cmd_stat.c */
#ifndef TOOLS_STAT_H
#define TOOLS_STAT_H

#include "tools/inspect/model.h"

/* Returns the number and bytes of large blocks, or of samples with pages. */
uint64_t stat_large_bytes(const struct model *model, bool samples, uint64_t *n);

/* Print a JSON object for these blocks, and an array of the RCU flavours. */
void stat_json_larges(const struct model *model, const char *key, bool samples);
void stat_json_domains(struct model *model, bool layers);

/* Prints the tables of umem stat. */
void stat_report(struct model *model);

#endif
