/* symbols.h - names of code addresses of the target; see symbols_dw.c */
#ifndef TOOLS_SYMBOLS_H
#define TOOLS_SYMBOLS_H

#include "tools/inspect/target.h"

/*
 * Returns "program`function+0x1c", or the known part of it.  The text stays
 * valid.  pc is a return address.
 */
const char *symbol_name(struct target *target, uint64_t pc);

/* Returns "file.c:12", or NULL. */
const char *symbol_line(struct target *target, uint64_t pc);

/* Returns the build ID of the file that has pc, in hexadecimal, or "". */
const char *symbol_build_id(struct target *target, uint64_t pc);

#endif
