/*
 * suppress.c - suppression of known leaks
 *
 * A file of suppressions has a pattern on each line.  A pattern is that of a
 * shell, and must match the whole name of a function, or of a program or
 * library, in the stack of the allocation.  Lines that begin with # are
 * comments.
 */
#include <limits.h>

#include "tools/inspect/model/audit.h"
#include "tools/inspect/sites/suppress.h"
#include "tools/inspect/symbols/frames.h"
#include "tools/inspect/symbols/symbols.h"

static struct patterns patterns;

/* A stack that was compared with the patterns. */
struct verdict {
	unsigned depth;
	const uint64_t *stack;
	bool matches;
};
static void *verdicts; /* for tsearch() */

void
suppress_read(const char *path, int failure)
{
	patterns_read(&patterns, NULL, path, failure);
}

bool
suppress_is_on(void)
{
	return patterns.n != 0;
}

static bool
name_matches(const char *name)
{
	struct pattern *p = patterns_match(&patterns, name, UINT_MAX, 0);

	if (p != NULL)
		p->used = true;
	return p != NULL;
}

static bool
stack_matches(struct model *model, unsigned depth, const uint64_t *stack)
{
	for (unsigned i = 0; i < depth; i++) {
		size_t n;
		const struct symbol_frame *frames =
		    symbol_frames(model->target, stack[i], &n);

		for (size_t j = 0; j < n; j++)
			if (name_matches(frames[j].function) ||
			    name_matches(frames[j].object))
				return true;
	}
	return false;
}

static int
order_verdicts(const void *a, const void *b)
{
	const struct verdict *x = a, *y = b;

	return audit_order_stacks(x->depth, x->stack, y->depth, y->stack);
}

bool
suppress_matches(struct model *model, unsigned depth, const uint64_t *stack)
{
	struct verdict key = {depth, stack, false}, *verdict;
	bool is_new;

	if (patterns.n == 0 || depth == 0)
		return false;
	verdict =
	    tree_item(&verdicts, &key, sizeof(key), order_verdicts, &is_new);
	if (is_new)
		verdict->matches = stack_matches(model, depth, stack);
	return verdict->matches;
}

size_t
suppress_count(size_t *nused)
{
	*nused = 0;
	for (size_t i = 0; i < patterns.n; i++)
		*nused += patterns.pattern[i].used;
	return patterns.n;
}
