/* gzip_none.c - without zlib nothing is compressed */
#include "tools/inspect/report/gzip.h"

void
gzip_write(const void *bytes, size_t n)
{
	(void)bytes;
	(void)n;
	fail_with(EXIT_ERROR, "umem was built without zlib");
}
