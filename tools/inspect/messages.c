/* messages.c - the library's last messages, which are in a ring */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/messages.h"
#include "tools/inspect/print.h"

/* Returns the ring, and sets *n to its bytes; NULL: it cannot be read. */
static const char *
ring_of(struct model *model, uint64_t *n)
{
	*n = model->layout->known[L_ERROR_BUFFER].bytes;
	return layout_at(model->layout, model->target, L_ERROR_BUFFER);
}

bool
messages_exist(struct model *model)
{
	uint64_t n;
	const char *ring = ring_of(model, &n);

	for (uint64_t i = 0; ring != NULL && i < n; i++)
		if (ring[i] != '\0')
			return true;
	return false;
}

size_t
messages_print(struct model *model, size_t lines_most)
{
	uint64_t begin =
	    layout_variable(model->layout, model->target, L_ERROR_BEGIN);
	size_t nlines = 0, skipped;
	uint64_t n;
	const char *ring = ring_of(model, &n);

	if (ring == NULL)
		return 0;
	for (uint64_t i = 0; i < n; i++)
		nlines += ring[i] == '\n';
	skipped = nlines > lines_most ? nlines - lines_most : 0;
	nlines = 0;
	for (uint64_t i = 0; i < n; i++) {
		char c = ring[(begin + i) % n];

		if (c == '\n' && nlines++ < skipped)
			continue;
		if (c == '\n')
			putchar(c);
		else if (c != '\0' && nlines >= skipped)
			fputs(plain_text(&c, 1), stdout);
	}
	return skipped;
}

void
messages_json(struct model *model, const char *key)
{
	uint64_t begin =
	    layout_variable(model->layout, model->target, L_ERROR_BEGIN);
	uint64_t bytes;
	const char *ring = ring_of(model, &bytes);
	char *line = xalloc(bytes + 1);
	size_t n = 0;

	json_open(key, '[');
	for (uint64_t i = 0; ring != NULL && i < bytes; i++) {
		char c = ring[(begin + i) % bytes];

		if (c != '\n' && c != '\0')
			line[n++] = c;
		if ((c != '\n' && i + 1 < bytes) || n == 0)
			continue;
		line[n] = '\0';
		json_text(NULL, line);
		n = 0;
	}
	json_close();
	free(line);
}
