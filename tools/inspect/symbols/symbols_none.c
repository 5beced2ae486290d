/* symbols_none.c - without elfutils, no function and no line is known */
#include "tools/inspect/symbols/symbols_source.h"

struct source *
source_open(struct target *target)
{
	(void)target;
	return NULL;
}

void
source_close(struct source *source)
{
	(void)source;
}

size_t
source_unwind(struct source *source, struct target *target,
    const struct thread *thread, uint64_t *pcs, size_t n)
{
	(void)source;
	(void)target;
	(void)thread;
	(void)pcs;
	(void)n;
	return 0;
}

const char *
source_function(
    struct source *source, uint64_t pc, uint64_t *offset, bool *is_rust)
{
	(void)source;
	(void)pc;
	(void)offset;
	(void)is_rust;
	return NULL;
}

const char *
source_object(struct source *source, uint64_t pc, uint64_t *address)
{
	return source_function(source, pc, address, NULL);
}

size_t
source_frames(struct source *source, uint64_t pc, struct symbol_frame *frames)
{
	(void)source;
	(void)pc;
	frames[0] = (struct symbol_frame){0};
	return 1;
}
