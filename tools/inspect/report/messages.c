/* messages.c - the library's last messages, which are in a ring */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/report/messages.h"

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

/* Calls f for each line, the oldest first.  A line is not longer than n. */
static void
each_line(
    struct model *model, void (*f)(const char *line, void *arg), void *arg)
{
	uint64_t begin =
	    layout_variable(model->layout, model->target, L_ERROR_BEGIN);
	uint64_t bytes;
	const char *ring = ring_of(model, &bytes);
	char *line = xalloc(bytes + 1);
	size_t n = 0;

	for (uint64_t i = 0; ring != NULL && i < bytes; i++) {
		char c = ring[(begin + i) % bytes];

		if (c != '\n' && c != '\0')
			line[n++] = c;
		if ((c == '\n' || i + 1 == bytes) && n != 0) {
			f(plain_text(line, n), arg);
			n = 0;
		}
	}
	free(line);
}

struct counted {
	size_t n, skipped;
};

static void
count_line(const char *line, void *arg)
{
	struct counted *counted = arg;

	(void)line;
	counted->n++;
}

static void
print_line(const char *line, void *arg)
{
	struct counted *counted = arg;

	if (counted->n++ >= counted->skipped)
		puts(line);
}

static void
json_line(const char *line, void *arg)
{
	(void)arg;
	json_text(NULL, line);
}

size_t
messages_print(struct model *model, size_t lines_most)
{
	struct counted counted = {0};

	each_line(model, count_line, &counted);
	if (counted.n > lines_most)
		counted.skipped = counted.n - lines_most;
	counted.n = 0;
	each_line(model, print_line, &counted);
	return counted.skipped;
}

void
messages_json(struct model *model, const char *key)
{
	json_open(key, '[');
	each_line(model, json_line, NULL);
	json_close();
}
