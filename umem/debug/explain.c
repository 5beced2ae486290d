/*
 * explain.c - parts of messages about misuse
 *
 * Each line is a message of its own.  The functions take no lock of the heap
 * and allocate nothing, so they also run in the handler of a fault.
 */
#include <elf.h>
#include <string.h>

#include "umem/debug/explain.h"
#include "umem/debug/stack.h"
#include "umem/debug/symbol.h"
#include "vmem/os.h"
#include "vmem/panic.h"

const char *
explain_program(void)
{
	const char *path = (const char *)os_auxv(AT_EXECFN);
	const char *slash = path == NULL ? NULL : strrchr(path, '/');

	if (slash != NULL)
		return slash + 1;
	return path == NULL ? "a program" : path;
}

void
explain_where(void)
{
	char name[OS_THREAD_NAME_BYTES];

	os_thread_name_get(name);
	message_line("in %s, process %u, thread %lu (%s)", explain_program(),
	    os_process_id(), stack_thread(), name);
}

void
explain_frames(const uintptr_t *pcs, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct message m = {.n = 0};

		message_text(&m, "umem:     ");
		symbol_text(&m, pcs[i]);
		message_text(&m, "\n");
		message_send(&m);
		if (message_sink != NULL)
			message_sink(m.text, m.n);
	}
}

void
explain_stack(const char *what, uint64_t thread, uint64_t ago,
    const uintptr_t *stack, unsigned depth)
{
	message_line("%s by thread %lu, %lu.%lu s ago:", what, thread,
	    ago / 1000000000, ago / 100000000 % 10);
	explain_frames(stack, depth);
}
