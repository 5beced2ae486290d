/* module_file.h - the files of modules; see module_file.c */
#ifndef TOOLS_MODULE_FILE_H
#define TOOLS_MODULE_FILE_H

#include "tools/inspect/symbols/modules.h"

/*
 * Opens the file of a module, or returns -1.  Names of another file would be
 * wrong, so the file must be the one that the target has mapped.
 */
int module_open(struct target *target, const struct module *m);

/* Returns the path of a module's file, as the target sees it. */
const char *module_path(const struct module *m);

#endif
