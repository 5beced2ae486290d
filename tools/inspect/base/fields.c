/* fields.c - lines of a text file, with tabs between the fields */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/base/fields.h"

/* Above any number in a saved file: sums fit in 64 bits. */
#define NUMBER_MAX 1e15

/* Bytes of a line; a stack has the longest. */
#define LINE_BYTES_MAX (1u << 20)

char *
fields_line(FILE *file, const char *path, int failure)
{
	static char line[LINE_BYTES_MAX];

	if (fgets(line, sizeof(line), file) == NULL) {
		if (ferror(file))
			fail_with(failure, "%s: %s", path, strerror(errno));
		return NULL;
	}
	if (strchr(line, '\n') == NULL && !feof(file))
		fail_with(failure, "%s: is no text", path);
	return line;
}

size_t
fields_split(char *line, char **fields, size_t most)
{
	size_t n = 0;

	line[strcspn(line, "\n")] = '\0';
	while (n < most && (fields[n] = strsep(&line, "\t")) != NULL)
		n++;
	return line == NULL ? n : most + 1;
}

bool
fields_number(const char *text, double *number)
{
	char *end;

	*number = strtod(text, &end);
	return end != text && *end == '\0' && *number >= 0 &&
	       *number < NUMBER_MAX;
}
