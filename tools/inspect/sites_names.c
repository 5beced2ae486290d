/*
 * sites_names.c - which frame of a stack is the call site, and its name
 */
#include <string.h>

#include "tools/inspect/print.h"
#include "tools/inspect/sites.h"
#include "tools/inspect/symbols.h"

/* Callers after the call site in a row. */
#define CALLERS_MOST 3

static bool
begins_with_any(const char *text, const char *const *starts)
{
	for (; *starts != NULL; starts++)
		if (strncmp(text, *starts, strlen(*starts)) == 0)
			return true;
	return false;
}

static bool
is_c_library(const struct symbol_frame *frame)
{
	static const char *const objects[] = {"libc.so", "libc-2", "libstdc++.",
	    "libc++.", "libumem", "ld-linux", "ld-2", "libgcc_s", NULL};

	return frame->object != NULL && begins_with_any(frame->object, objects);
}

static bool
is_allocator(const struct symbol_frame *frame)
{
	static const char *const starts[] = {"umem_", "operator new", "_Znw",
	    "_Zna", "std::", "_ZNSt", "_ZSt", "__gnu_cxx::", "_ZN9__gnu_cxx",
	    "void* operator new", NULL};
	const char *f = frame->function;

	return f != NULL &&
	       (begins_with_any(f, starts) || strcasestr(f, "alloc") != NULL ||
		   strstr(f, "strdup") != NULL || strstr(f, "strndup") != NULL);
}

/* A frame of a stack, which may be of an inlined function. */
struct stack_place {
	unsigned i;  /* in the stack */
	size_t j, n; /* among the functions of that address */
	const struct symbol_frame *frame;
};

static struct stack_place
place_of(struct model *model, const struct site_tally *t, unsigned i)
{
	struct stack_place p = {.i = i};

	if (i < t->depth)
		p.frame = symbol_frames(model->target, t->stack[i], &p.n);
	return p;
}

/* Returns the caller's frame; its member frame is NULL at the end. */
static struct stack_place
next_place(
    struct model *model, const struct site_tally *t, struct stack_place p)
{
	if (p.j + 1 == p.n)
		return place_of(model, t, p.i + 1);
	p.j++;
	p.frame++;
	return p;
}

/* Returns the call site in a stack, and the frame that it has called. */
static struct stack_place
find_site(struct model *model, const struct site_tally *t,
    const struct symbol_frame **called)
{
	struct stack_place p = place_of(model, t, 0);

	assert(t->depth > 0);
	*called = NULL;
	for (; p.frame != NULL; p = next_place(model, t, p)) {
		if (!is_c_library(p.frame) && !is_allocator(p.frame))
			return p;
		*called = p.frame;
	}
	*called = NULL;
	return place_of(model, t, 0);
}

const char *
site_tally_name(struct model *model, const struct site_tally *t)
{
	const struct symbol_frame *frame, *called;

	if (t->depth == 0 && t->cache == NULL)
		return xprint(
		    "unknown: large blocks of %s", size_text(t->size));
	if (t->depth == 0)
		return xprint("unknown: %s of %s",
		    t->cache->class ? "blocks" : "objects", t->cache->name);
	frame = find_site(model, t, &called).frame;
	if (frame->line == NULL || frame->function == NULL)
		return frame->name;
	return xprint("%s (%s)", frame->function, frame->line);
}

const char *
site_callers(struct sites *sites, const struct site *site)
{
	const struct site_tally *t = site->tallies[0];
	const struct symbol_frame *called;
	size_t nstacks = site->ntallies;
	const char *text = "";
	struct stack_place p;

	if (t->depth == 0)
		return text;
	p = find_site(sites->model, t, &called);
	if (called != NULL && called->function != NULL)
		text = xprint(" via %s", called->function);
	for (unsigned n = 0; n < CALLERS_MOST; n++) {
		p = next_place(sites->model, t, p);
		if (p.frame == NULL || p.frame->function == NULL ||
		    is_c_library(p.frame))
			break;
		text = xprint("%s < %s", text, p.frame->function);
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
		if (symbol_matches(model->target, t->stack[i], text))
			return true;
	return false;
}
