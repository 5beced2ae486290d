/*
 * text.c - a long text under construction
 *
 * A report about the library must not change the figures that it reports, and
 * it is put together while the list of caches is locked.  Therefore its text is
 * in memory that is mapped for it alone, and is written when the lock has been
 * released.
 */
#include <stdarg.h>
#include <string.h>

#include "umem/stats/text.h"
#include "vmem/os.h"

struct text *
text_create(size_t bytes)
{
	size_t mapped = align_up(
	    sizeof(struct text) + bytes + TEXT_END_BYTES, os_page_size());
	struct text *text = os_map(mapped);

	if (text != NULL) {
		text->most = bytes;
		text->mapped = mapped;
	}
	return text;
}

void
text_delete(struct text *text)
{
	if (text != NULL)
		os_unmap(text, text->mapped);
}

void
text_begin_end(struct text *text)
{
	text->most = text->mapped - sizeof(*text);
}

static void
text_put(struct text *text, const char *bytes, size_t n)
{
	umem_assert(text->n <= text->most);
	if (n > text->most - text->n)
		return;
	memcpy(text->bytes + text->n, bytes, n);
	text->n += n;
}

void
text_add(struct text *text, const struct message *line)
{
	text_put(text, line->text, line->n);
}

void
text_line(struct text *text, const char *format, ...)
{
	struct message line = {.n = 0};
	va_list args;

	va_start(args, format);
	message_format(&line, format, &args);
	va_end(args);
	text_add(text, &line);
}

void
text_append(struct text *text, const struct text *other)
{
	text_put(text, other->bytes, other->n);
}
