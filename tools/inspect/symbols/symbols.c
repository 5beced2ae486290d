/*
 * symbols.c - names of code addresses of the target
 *
 * A name has the file or the program (program.c), and the function.  For code
 * in memory without a file, which a program has generated at run time, jit.c
 * finds the function.  Of a function that is not known, the address in the file
 * as linked is printed, which addr2line takes.
 *
 * Each address is looked up once.
 */
#include <string.h>

#include "tools/inspect/symbols/frames.h"
#include "tools/inspect/symbols/jit.h"
#include "tools/inspect/symbols/modules.h"
#include "tools/inspect/symbols/program.h"
#include "tools/inspect/symbols/symbols_source.h"

/* A return address that was looked up. */
struct known {
	uint64_t pc;
	struct symbol_frame *frames;
	size_t
	    n; /* 0: only frames[0] is known, the function without its line */
};

struct symbols {
	struct source *source;
	struct jit *jit;
	bool has_nameless; /* code that was generated at run time */
	void *known;       /* tree of struct known */
};

/* Finds the file or mapping with a return address, and the address in it. */
static const char *
find_object(struct target *target, uint64_t pc, uint64_t *address)
{
	const struct module *module = module_find(target, pc - 1);
	const struct mapping *m = target_mapping(target, pc - 1);

	if (module != NULL) {
		*address = pc - module->bias;
		return program_object(target, &module->file);
	}
	if (m != NULL && m->name[0] != '\0') {
		*address = pc - m->start + m->offset;
		return program_object(target, m);
	}
	return source_object(target->symbols->source, pc, address);
}

/*
 * Returns the address behind the instruction at pc, if pc is exact, or else pc,
 * which is such an address.
 */
static uint64_t
symbol_return_address(uint64_t pc)
{
	return (pc & SYMBOL_EXACT) != 0 ? (pc & ~SYMBOL_EXACT) + 1 : pc;
}

static struct symbol_frame
find_frame(struct target *target, uint64_t pc)
{
	struct symbols *symbols = target->symbols;
	struct symbol_frame frame = {0};
	uint64_t exact = pc / SYMBOL_EXACT, address, offset = 0;

	pc = address = symbol_return_address(pc);
	frame.object = find_object(target, pc, &address);
	frame.function =
	    source_function(symbols->source, pc, &offset, &frame.is_rust);
	if (module_find(target, pc - 1) == NULL && frame.function == NULL) {
		frame.function = jit_function(symbols->jit, pc, &offset);
		if (frame.function != NULL)
			frame.object = SYMBOL_JIT;
		else if (frame.object == NULL ||
			 text_begins(frame.object, "zero (")) /* of PHP */
			symbols->has_nameless = true;
	}
	if (frame.object == NULL)
		frame.name = xprint("0x%lx", address - exact);
	else if (frame.function == NULL)
		frame.name = xprint("%s+0x%lx", frame.object, address - exact);
	else
		frame.name = xprint("%s`%s+0x%lx", frame.object, frame.function,
		    offset - exact);
	return frame;
}

static void
symbols_open(struct target *target)
{
	if (target->symbols != NULL)
		return;
	target->symbols = xalloc(sizeof(*target->symbols));
	target->symbols->source = source_open(target);
	target->symbols->jit = jit_open(target);
}

void
symbols_close(struct target *target)
{
	if (target->symbols == NULL)
		return;
	source_close(target->symbols->source);
	jit_close(target->symbols->jit);
	target->symbols = NULL;
}

static struct known *
look_up(struct target *target, uint64_t pc)
{
	struct known key = {.pc = pc}, *known;
	bool is_new;

	symbols_open(target);
	known = tree_item(&target->symbols->known, &key, sizeof(key),
	    order_first_words, &is_new);
	if (is_new) {
		known->frames = xalloc(sizeof(*known->frames));
		known->frames[0] = find_frame(target, pc);
	}
	return known;
}

const struct symbol_frame *
symbol_frames(struct target *target, uint64_t pc, size_t *n)
{
	struct known *known = look_up(target, pc);
	struct symbol_frame frames[SOURCE_FRAMES_MAX], whole;

	if (known->n == 0) {
		whole = known->frames[0];
		known->n = source_frames(
		    target->symbols->source, symbol_return_address(pc), frames);
		assert(known->n > 0 && known->n <= SOURCE_FRAMES_MAX);
		whole.line = frames[known->n - 1].line;
		whole.path = frames[known->n - 1].path;
		frames[known->n - 1] = whole;
		for (size_t i = 0; i + 1 < known->n; i++) {
			frames[i].object = whole.object;
			frames[i].name =
			    xprint("%s`%s", whole.object, frames[i].function);
		}
		for (size_t i = 0; i < known->n; i++)
			frames[i].kinds =
			    frames_kinds(frames[i].object, frames[i].function);
		known->frames =
		    xresize(known->frames, known->n * sizeof(*known->frames));
		memcpy(known->frames, frames, known->n * sizeof(*frames));
	}
	*n = known->n;
	return known->frames;
}

const char *
symbol_name(struct target *target, uint64_t pc)
{
	const struct known *known = look_up(target, pc);

	return known->frames[known->n == 0 ? 0 : known->n - 1].name;
}

void
symbol_print(struct target *target, uint64_t pc, int indent)
{
	size_t n;
	const struct symbol_frame *frames = symbol_frames(target, pc, &n);

	for (size_t i = 0; i < n; i++) {
		printf("%*s%s", indent, "", frames[i].name);
		if (frames[i].line != NULL)
			printf(" (%s)", frames[i].line);
		puts(frames[i].is_inlined ? " [inlined]" : "");
	}
}

bool
symbols_match(struct target *target, unsigned depth, const uint64_t *stack,
    const char *text)
{
	while (depth-- > 0) {
		size_t n;
		const struct symbol_frame *frames =
		    symbol_frames(target, *stack++, &n);

		while (n-- > 0)
			if (strstr(frames[n].name, text) != NULL)
				return true;
	}
	return false;
}

void
symbols_print_advice(struct target *target)
{
	const struct symbols *symbols = target->symbols;
	const char *advice;

	if (symbols == NULL || !target->live ||
	    (symbols->jit != NULL && !symbols->has_nameless))
		return;
	advice = jit_advice(target, symbols->has_nameless);
	if (advice != NULL)
		printf("\nFunction names: %s\n", advice);
	else if (symbols->has_nameless)
		printf("\nFunction names: the program would have to write "
		       "/tmp/perf-%d.map\n",
		    target->pid);
}

const char *
symbol_build_id(struct target *target, uint64_t pc)
{
	const struct module *m = module_find(target, pc);
	size_t n = m == NULL ? 0 : m->id_bytes;
	char *text = xalloc(2 * n + 1);

	for (size_t i = 0; i < n; i++)
		snprintf(text + 2 * i, 3, "%02x", m->id[i]);
	return text;
}

/*
 * Has the thread called an address without code, as through a null pointer?
 * Then this sets *caller to the thread as it was at the call.
 */
static bool
find_bad_call(
    struct target *target, const struct thread *thread, struct thread *caller)
{
	size_t bytes = thread->nwords * sizeof(*thread->words);
	uint64_t back;

	if (target_is_code(target, thread->pc))
		return false;
#ifdef REGISTER_LINK
	back = thread->words[REGISTER_LINK];
#else
	if (!target_peek(target, thread->sp, &back, sizeof(back)))
		return false;
#endif
	if (!target_is_code(target, back - 1))
		return false;
	*caller = *thread;
	caller->pc = back - 1;
	caller->words = xalloc(bytes);
	memcpy(caller->words, thread->words, bytes);
#ifndef REGISTER_LINK
	caller->words[REGISTER_SP] += sizeof(back);
#endif
	return true;
}

size_t
symbol_unwind(
    struct target *target, const struct thread *thread, uint64_t *pcs, size_t n)
{
	struct thread caller;
	size_t got = 0;

	assert(n > 1 && !target->live);
	symbols_open(target);
	if (find_bad_call(target, thread, &caller))
		pcs[got++] = thread->pc | SYMBOL_EXACT;
	else
		caller = *thread;
	n = source_unwind(
	    target->symbols->source, target, &caller, pcs + got, n - got);
	if (n == 0)
		pcs[got + n++] = caller.pc | SYMBOL_EXACT;
	/* Of the caller, the return address is known. */
	if (got != 0)
		pcs[got] = caller.pc + 1;
	return got + n;
}
