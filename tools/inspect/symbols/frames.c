/* frames.c - which functions are no call site, by the patterns of frames.txt */
#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include "tools/inspect/base/fields.h"
#include "tools/inspect/symbols/frames.h"
#include "tools/inspect/symbols/symbols.h"

static const char built_in[] =
#include "tools/inspect/symbols/frames.txt.h"
    ;

static struct patterns frames;

void
patterns_read(
    struct patterns *patterns, FILE *file, const char *path, int failure)
{
	static const char *const kinds[] = {
	    "[libraries]", "[allocators]", "[runtimes]", "[generated]"};
	unsigned kind = FRAME_RUNTIME;
	const char *line;

	if (file == NULL && (file = fopen(path, "re")) == NULL)
		fail_with(failure, "%s: %s", path, strerror(errno));
	while ((line = fields_line(file, path, failure)) != NULL) {
		const char *text = line + strspn(line, " \t");
		size_t n = strlen(text), i = 0;

		while (n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL)
			n--;
		if (n == 0 || text[0] == '#')
			continue;
		text = xprint("%.*s", (int)n, text);
		while (i < array_size(kinds) && strcmp(text, kinds[i]) != 0)
			i++;
		if (i < array_size(kinds)) {
			kind = 1u << i;
			continue;
		}
		ARRAY_ADD(patterns->pattern, patterns->n, patterns->capacity,
		    (struct pattern){.text = text, .kind = kind});
	}
	fclose(file);
}

struct pattern *
patterns_match(
    struct patterns *patterns, const char *name, unsigned kinds, int flags)
{
	for (size_t i = 0; name != NULL && i < patterns->n; i++) {
		struct pattern *p = &patterns->pattern[i];

		if ((p->kind & kinds) != 0 &&
		    fnmatch(p->text, name, flags) == 0)
			return p;
	}
	return NULL;
}

void
frames_read(const char *path)
{
	if (frames.n == 0)
		patterns_read(&frames,
		    fmemopen((void *)built_in, strlen(built_in), "r"), "frames",
		    EXIT_ERROR);
	if (path != NULL)
		patterns_read(&frames, NULL, path, EXIT_ERROR);
}

/*
 * Returns the name of a function without arguments of templates; of code that
 * was generated at run time, without parameters.
 */
static const char *
plain_name(const char *function, bool is_generated)
{
	char *plain = xprint("%s", function), *to = plain;
	size_t depth = 0;

	if (is_generated) {
		plain[strcspn(plain, "(")] = '\0';
		return plain;
	}
	for (; *function != '\0'; function++) {
		depth += *function == '<';
		if (depth == 0)
			*to++ = *function;
		depth -= *function == '>' && depth > 0;
	}
	*to = '\0';
	return plain;
}

unsigned
frames_kinds(const char *object, const char *function)
{
	bool is_generated = object != NULL && strcmp(object, SYMBOL_JIT) == 0;
	unsigned kinds = 0;
	const char *name =
	    function == NULL ? NULL : plain_name(function, is_generated);

	frames_read(NULL);
	for (unsigned kind = 1; kind <= FRAME_GENERATED; kind *= 2)
		if (is_generated == (kind == FRAME_GENERATED) &&
		    (patterns_match(&frames, name, kind, FNM_CASEFOLD) ||
			patterns_match(&frames, object, kind, 0)))
			kinds |= kind;
	return kinds;
}
