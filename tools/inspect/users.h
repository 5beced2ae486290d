/* users.h - allocated memory by call site; see cmd_users.c */
#ifndef TOOLS_USERS_H
#define TOOLS_USERS_H

#include "tools/inspect/look.h"

/* Counts all allocated memory of a model. */
struct look users_look(struct model *model);

#endif
