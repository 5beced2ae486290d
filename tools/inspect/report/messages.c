/* messages.c - the library's last messages, which are in a ring */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/report/messages.h"

/* Lines of messages. */
struct lines {
	const char **line;
	size_t n, capacity;
};

/* Reads the lines, the oldest first. */
static struct lines
lines_read(struct model *model)
{
	const struct layout *l = model->layout;
	uint64_t begin = layout_variable(l, model->target, L_ERROR_BEGIN);
	uint64_t bytes = l->known[L_ERROR_BUFFER].bytes;
	const char *ring = layout_at(l, model->target, L_ERROR_BUFFER);
	char *line = xalloc(bytes + 1);
	struct lines lines = {0};
	size_t n = 0;

	for (uint64_t i = 0; ring != NULL && i < bytes; i++) {
		char c = ring[(begin + i) % bytes];

		if (c != '\n' && c != '\0')
			line[n++] = c;
		if ((c == '\n' || i + 1 == bytes) && n != 0) {
			ARRAY_ADD(lines.line, lines.n, lines.capacity,
			    plain_text(line, n));
			n = 0;
		}
	}
	free(line);
	return lines;
}

void
messages_print(struct model *model, size_t lines_max)
{
	struct lines lines = lines_read(model);
	size_t first = lines.n > lines_max ? lines.n - lines_max : 0;

	if (lines.n == 0)
		return;
	puts("\nLast messages of the library:");
	for (size_t i = first; i < lines.n; i++)
		puts(lines.line[i]);
	if (first != 0)
		printf("%s; --json has them\n", counted(first, "earlier line"));
}

void
messages_json(struct model *model, const char *key)
{
	struct lines lines = lines_read(model);

	json_open(key, '[');
	for (size_t i = 0; i < lines.n; i++)
		json_text(NULL, lines.line[i]);
	json_close();
}
