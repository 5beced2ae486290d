/* stat.h - statistics of a model; see stat.c */
#ifndef TOOLS_STAT_H
#define TOOLS_STAT_H

#include "tools/inspect/model/model.h"

/* Prints a JSON array of the RCU flavours. */
void stat_json_domains(struct model *model, bool groups);

/* Prints the tables of umem stat. */
void stat_report(struct model *model);

#endif
