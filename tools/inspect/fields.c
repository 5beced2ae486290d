/* fields.c - lines of a saved file, with tabs between the fields */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/fields.h"

/* Above any number, and any time, in a saved file: sums fit in 64 bits. */
#define NUMBER_MOST 1e15
#define TIME_MOST   1e10

size_t
fields_split(char *line, char **fields, size_t most)
{
	size_t n = 0;

	line[strcspn(line, "\n")] = '\0';
	while (line != NULL && n < most)
		fields[n++] = strsep(&line, "\t");
	return line == NULL ? n : most + 1;
}

bool
fields_number(const char *text, double *number)
{
	char *end;

	*number = strtod(text, &end);
	return end != text && *end == '\0' && *number >= 0 &&
	       *number < NUMBER_MOST;
}

bool
fields_time(const char *text, double *seconds)
{
	return fields_number(text, seconds) && *seconds < TIME_MOST;
}
