/*
 * sites_names.c - which frame of a stack is the call site, and its name
 */
#include <string.h>

#include "tools/inspect/print.h"
#include "tools/inspect/sites.h"
#include "tools/inspect/symbols.h"

/* Callers after the call site in a row. */
#define CALLERS_MOST 3

struct site_frame
site_frame_of(struct model *model, uint64_t pc)
{
	const char *name = symbol_name(model->target, pc);
	const char *tick = strchr(name, '`'), *plus;

	if (tick == NULL)
		return (struct site_frame){0};
	plus = strrchr(tick, '+');
	if (plus == NULL)
		plus = tick + strlen(tick);
	return (struct site_frame){xprint("%.*s", (int)(tick - name), name),
	    xprint("%.*s", (int)(plus - tick - 1), tick + 1)};
}

static bool
begins_with_any(const char *text, const char *const *starts)
{
	for (; *starts != NULL; starts++)
		if (strncmp(text, *starts, strlen(*starts)) == 0)
			return true;
	return false;
}

static bool
is_c_library(const struct site_frame *frame)
{
	static const char *const objects[] = {"libc.so", "libc-2", "libstdc++.",
	    "libc++.", "libumem", "ld-linux", "ld-2", "libgcc_s", NULL};

	return frame->object != NULL && begins_with_any(frame->object, objects);
}

static bool
is_allocator(const struct site_frame *frame)
{
	static const char *const starts[] = {"umem_", "operator new", "_Znw",
	    "_Zna", "std::", "_ZNSt", "_ZSt", "__gnu_cxx::", "_ZN9__gnu_cxx",
	    "void* operator new", NULL};
	const char *f = frame->function;

	return f != NULL &&
	       (begins_with_any(f, starts) || strcasestr(f, "alloc") != NULL ||
		   strstr(f, "strdup") != NULL || strstr(f, "strndup") != NULL);
}

/* Returns the index of the call site in a stack. */
static unsigned
find_site(struct model *model, const struct site_tally *t)
{
	assert(t->depth > 0);
	for (unsigned i = 0; i < t->depth; i++) {
		struct site_frame frame = site_frame_of(model, t->stack[i]);

		if (!is_c_library(&frame) && !is_allocator(&frame))
			return i;
	}
	return 0;
}

const char *
site_tally_name(struct model *model, const struct site_tally *t)
{
	uint64_t pc;
	struct site_frame frame;
	const char *line;

	if (t->depth == 0 && t->cache == NULL)
		return xprint(
		    "unknown: large blocks of %s", size_text(t->size));
	if (t->depth == 0)
		return xprint("unknown: %s of %s",
		    t->cache->class ? "blocks" : "objects", t->cache->name);
	pc = t->stack[find_site(model, t)];
	frame = site_frame_of(model, pc);
	line = symbol_line(model->target, pc);
	if (line == NULL || frame.function == NULL)
		return symbol_name(model->target, pc);
	return xprint("%s (%s)", frame.function, line);
}

const char *
site_callers(struct sites *sites, const struct site *site)
{
	const struct site_tally *t = site->tallies[0];
	size_t nstacks = site->ntallies;
	const char *text = "";
	unsigned at, n = 0;

	if (t->depth == 0)
		return text;
	at = find_site(sites->model, t);
	if (at > 0) {
		struct site_frame frame =
		    site_frame_of(sites->model, t->stack[at - 1]);

		if (frame.function != NULL)
			text = xprint(" via %s", frame.function);
	}
	for (unsigned i = at + 1; i < t->depth && n < CALLERS_MOST; i++, n++) {
		struct site_frame frame =
		    site_frame_of(sites->model, t->stack[i]);

		if (frame.function == NULL || is_c_library(&frame))
			break;
		text = xprint("%s < %s", text, frame.function);
	}
	if (nstacks > 1)
		text = xprint("%s; %zu more stack%s", text, nstacks - 1,
		    nstacks == 2 ? "" : "s");
	return text;
}

bool
site_tally_is_from(
    struct model *model, const struct site_tally *t, const char *text)
{
	for (unsigned i = 0; i < t->depth; i++)
		if (strstr(symbol_name(model->target, t->stack[i]), text) !=
		    NULL)
			return true;
	return false;
}
