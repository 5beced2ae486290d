/* gzip.h - compressed standard output; see gzip.c */
#ifndef TOOLS_GZIP_H
#define TOOLS_GZIP_H

#include "tools/inspect/base/text.h"

/* Writes these bytes to standard output in the format of gzip(1). */
void gzip_write(const void *bytes, size_t n);

#endif
