/* gzip.c - compressed standard output, by zlib */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "tools/inspect/report/gzip.h"

void
gzip_write(const void *bytes, size_t n)
{
	gzFile file;

	fflush(stdout);
	file = gzdopen(dup(STDOUT_FILENO), "wb");
	if (file == NULL)
		fail_with(EXIT_ERROR, "standard output: %s", strerror(errno));
	if (gzfwrite(bytes, n, 1, file) != 1 || gzclose(file) != Z_OK)
		fail_with(EXIT_ERROR, "standard output: %s", strerror(errno));
}
