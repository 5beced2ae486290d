/*
 * sites_names.c - which frame of a stack is the call site, and its name
 */
#include <string.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/sites/sites.h"
#include "tools/inspect/symbols/frames.h"
#include "tools/inspect/symbols/jit.h"
#include "tools/inspect/symbols/symbols.h"

static bool
begins_with_any(const char *text, const char *const *starts)
{
	for (; *starts != NULL; starts++)
		if (text_begins(text, *starts))
			return true;
	return false;
}

/* Crates that come with rustc. */
static const char *const rust_crates[] = {
    "core::", "alloc::", "std::", "hashbrown::", NULL};

/* Is this a type of those crates, of the language, or a parameter? */
static bool
is_rust_type(const char *type)
{
	while (strchr("&*([", *type) != NULL && *type != '\0')
		type++;
	if (strncmp(type, "mut ", 4) == 0 || strncmp(type, "dyn ", 4) == 0)
		type += 4;
	return begins_with_any(type, rust_crates) ||
	       strncmp(type + strcspn(type, ":<>,;)] "), "::", 2) != 0;
}

/*
 * Is this a function of those crates?  The name of a method is "<type>::name"
 * or "<type as trait>::name"; the program's methods have a type or a trait of
 * the program.
 */
static bool
is_rust_name(const char *name)
{
	const char *p = name;
	unsigned depth = 0;

	if (*name != '<')
		return begins_with_any(name, rust_crates);
	do {
		if (*p == '<')
			depth++;
		else if (*p == '>' && p[-1] != '-')
			depth--;
		else if (depth == 1 && strncmp(p, " as ", 4) == 0)
			return is_rust_type(name + 1) && is_rust_type(p + 4);
		p++;
	} while (depth > 0 && *p != '\0');
	return is_rust_type(name + 1);
}

static bool
is_rust_library(const struct symbol_frame *frame)
{
	static const char *const paths[] = {"library/core/src/",
	    "library/alloc/src/", "library/std/src/", "/hashbrown-", NULL};

	if (!frame->is_rust)
		return false;
	for (size_t i = 0; frame->path != NULL && paths[i] != NULL; i++)
		if (strstr(frame->path, paths[i]) != NULL)
			return true;
	return is_rust_name(frame->function);
}

/* Is this the function of Go that calls C, on a stack of its own? */
static bool
is_go_runtime(const struct symbol_frame *frame)
{
	return frame->function != NULL &&
	       text_begins(frame->function, "runtime.asmcgocall");
}

/* A frame of a stack, which may be of an inlined function. */
struct stack_frame {
	unsigned i;  /* in the stack */
	size_t j, n; /* among the functions of that address */
	const struct symbol_frame *frame;
};

static struct stack_frame
frame_of(struct model *model, const struct site_tally *t, unsigned i)
{
	struct stack_frame p = {.i = i};

	if (i < t->depth)
		p.frame = symbol_frames(model->target, t->stack[i], &p.n);
	return p;
}

/* Returns the caller's frame; its member frame is NULL at the end. */
static struct stack_frame
next_frame(
    struct model *model, const struct site_tally *t, struct stack_frame p)
{
	if (p.j + 1 == p.n)
		return frame_of(model, t, p.i + 1);
	p.j++;
	p.frame++;
	return p;
}

/*
 * Is this a function without a name, as a static one of a stripped program is,
 * that an allocator of the same program or library has called?  Then it is part
 * of the allocator: AllocSetAlloc() of PostgreSQL, below palloc().
 */
static bool
is_nameless_part(
    struct model *model, const struct site_tally *t, struct stack_frame p)
{
	const struct symbol_frame *caller = next_frame(model, t, p).frame;

	return p.frame->function == NULL && p.frame->object != NULL &&
	       caller != NULL && (caller->kinds & FRAME_ALLOCATOR) != 0 &&
	       caller->object != NULL &&
	       strcmp(caller->object, p.frame->object) == 0;
}

/*
 * Returns the first frame that can be a call site, and the frame that it has
 * called; the member frame is NULL if there is none.  Frames of these kinds
 * cannot be one.
 */
static struct stack_frame
find_site_but(struct model *model, const struct site_tally *t, unsigned kinds,
    const struct symbol_frame **called)
{
	struct stack_frame p = frame_of(model, t, 0);

	*called = NULL;
	for (; p.frame != NULL && !is_go_runtime(p.frame);
	     p = next_frame(model, t, p)) {
		if ((p.frame->kinds & kinds) == 0 &&
		    !is_rust_library(p.frame) && !is_nameless_part(model, t, p))
			return p;
		*called = p.frame;
	}
	p.frame = NULL;
	return p;
}

static bool
is_generated(const struct symbol_frame *frame)
{
	return frame->object != NULL && strcmp(frame->object, SYMBOL_JIT) == 0;
}

/* Returns the first function of a program that generates code, or no frame. */
static struct stack_frame
find_generated(struct model *model, const struct site_tally *t)
{
	struct stack_frame p = frame_of(model, t, 0);

	while (
	    p.frame != NULL && (!is_generated(p.frame) || p.frame->kinds != 0))
		p = next_frame(model, t, p);
	return p;
}

static const char *
function_text(const struct symbol_frame *frame)
{
	if (is_generated(frame))
		return jit_plain(frame->function);
	return frame->function != NULL ? frame->function : frame->name;
}

/*
 * Returns the call site in a stack, and the frame that it has called.
 * Functions of a program that generates code precede those of its runtime.
 */
static struct stack_frame
find_site(struct model *model, const struct site_tally *t,
    const struct symbol_frame **called)
{
	static const unsigned others[] = {
	    FRAME_LIBRARY | FRAME_ALLOCATOR | FRAME_RUNTIME,
	    FRAME_LIBRARY | FRAME_ALLOCATOR};
	struct stack_frame p = find_generated(model, t);

	assert(t->depth > 0);
	*called = NULL;
	for (size_t i = 0; p.frame == NULL && i < array_size(others); i++)
		p = find_site_but(model, t, others[i], called);
	if (p.frame != NULL)
		return p;
	*called = NULL;
	return frame_of(model, t, 0);
}

/* A word of the target that was looked at as the address of a table. */
struct table {
	uint64_t at;
	const char *class; /* or NULL */
};
static void *tables; /* for tsearch() */

/* Returns the class with its virtual table at at, or NULL. */
static const char *
class_of_table(struct model *model, uint64_t at)
{
	static const char start[] = "vtable for ";
	size_t n;
	const char *symbol = symbol_frames(model->target, at, &n)[0].function;

	if (symbol == NULL || strncmp(symbol, start, sizeof(start) - 1) != 0)
		return NULL;
	return symbol + sizeof(start) - 1;
}

/*
 * Reads the word at at.  Blocks come by address, so a page is read only once.
 */
static bool
peek_word(struct target *target, uint64_t at, uint64_t *word)
{
	static uint64_t page = UINT64_MAX, words[512];

	if (at / sizeof(words) != page) {
		page = at / sizeof(words);
		if (!target_peek(
			target, page * sizeof(words), words, sizeof(words)))
			page = UINT64_MAX;
	}
	if (page == UINT64_MAX)
		return target_peek(target, at, word, sizeof(*word));
	*word = words[at % sizeof(words) / sizeof(*words)];
	return true;
}

const char *
site_class_of(struct model *model, uint64_t at)
{
	const struct mapping *m;
	struct table key = {0}, *table;
	bool is_new;

	if (at % sizeof(key.at) != 0 ||
	    !peek_word(model->target, at, &key.at) ||
	    key.at % sizeof(key.at) != 0)
		return NULL;
	m = target_mapping(model->target, key.at);
	if (m == NULL || !m->file || m->execute)
		return NULL;
	table =
	    tree_item(&tables, &key, sizeof(key), order_first_words, &is_new);
	if (is_new)
		table->class = class_of_table(model, key.at);
	return table->class;
}

const char *
site_tally_name(struct model *model, const struct site_tally *t)
{
	const struct symbol_frame *frame, *called;

	if (t->depth == 0 && t->class != NULL)
		return xprint("unknown: %s, %s", t->class,
		    t->cache != NULL ? t->cache->name : "a large block");
	if (t->depth == 0 && t->cache == NULL && t->size == 0)
		return "unknown";
	if (t->depth == 0 && t->cache == NULL)
		return xprint(
		    "unknown: large blocks of %s", size_text(t->size));
	if (t->depth == 0)
		return xprint("unknown: %s of %s",
		    t->cache->class ? "blocks" : "objects", t->cache->name);
	frame = find_site(model, t, &called).frame;
	if (is_generated(frame))
		return jit_plain(frame->function);
	if (frame->line == NULL || frame->function == NULL)
		return frame->name;
	return xprint("%s (%s)", frame->function, frame->line);
}

/* Returns the callers of a stack, at most so many: " via strdup < main". */
static const char *
callers_text(struct model *model, const struct site_tally *t, unsigned most)
{
	const struct symbol_frame *called;
	struct stack_frame p = find_site(model, t, &called);
	unsigned passed_over =
	    (FRAME_RUNTIME | FRAME_GENERATED) & ~p.frame->kinds;
	const char *text = "";

	if (called != NULL && called->function != NULL)
		text = xprint(" via %s", called->function);
	for (unsigned n = 0; n < most;) {
		p = next_frame(model, t, p);
		if (p.frame == NULL || p.frame->object == NULL ||
		    (p.frame->kinds & FRAME_LIBRARY) != 0)
			break;
		if ((p.frame->kinds & passed_over) != 0)
			continue;
		text = xprint("%s < %s", text, function_text(p.frame));
		n++;
	}
	return text;
}

const char *
site_callers(struct sites *sites, const struct site *site, unsigned most)
{
	const struct site_tally *t = site->tallies[0];
	size_t nstacks = site->ntallies;
	const char *text;

	if (t->depth == 0)
		return "";
	text = callers_text(sites->model, t, most);
	if (nstacks > 1)
		text =
		    xprint("%s; %s", text, counted(nstacks - 1, "more stack"));
	return text;
}
