/*
 * crash.c - umem crash: explain a core on one screen
 *
 * Prints the signal and the address of the fault, the explanation of that
 * address, the stack of the thread that got the signal, the blocks to which its
 * registers point, and the library's last messages.  The kernel and gdb store
 * that thread first.
 */
#include <signal.h>
#include <string.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "tools/inspect/commands/whatis.h"
#include "tools/inspect/model/snapshot.h"
#include "tools/inspect/report/messages.h"
#include "tools/inspect/symbols/symbols.h"

/* Limits of the output, in frames and in lines of messages. */
#define FRAMES_MAX     24
/* Frames of the library that are left out before these. */
#define OWN_FRAMES_MAX 24
#define MESSAGES_MAX   40

/* Limit of the buffers of which the stacks are printed. */
#define EXPLAINED_MAX 4

/* The buffers of which the stacks were printed. */
struct explained {
	uint64_t start[EXPLAINED_MAX];
	size_t n;
};

/* Has a signal of this kind an address, which the kernel stores in a core? */
static bool
is_fault(const struct target *target)
{
	return target->signal_code > 0 &&
	       (target->signal == SIGSEGV || target->signal == SIGBUS);
}

static void
print_signal(const struct target *target, const struct thread *thread)
{
	if (target->command[0] != '\0')
		printf("%s, process %d\n", target->command, target->pid);
	if (target->signal == 0)
		printf("no signal, thread %d", thread->tid);
	else
		printf("signal %d (%s) in thread %d", target->signal,
		    strsignal(target->signal), thread->tid);
	printf(" of %zu", target->nthreads);
	if (is_fault(target) && target->signal_code == SI_KERNEL)
		printf(", at an unknown address: an impossible pointer value, "
		       "or a misaligned access");
	else if (is_fault(target))
		printf(", at address %lx", target->fault_address);
	putchar('\n');
}

/*
 * Returns the first frames that are those of a report by the library.  After a
 * fault, they are the place of the fault.
 */
static size_t
library_frames(const struct model *model, const uint64_t *pcs, size_t n)
{
	const struct mapping *file;
	size_t first = 0;

	if (model->layout->in_program || is_fault(model->target))
		return 0;
	while (first < n &&
	       (file = target_file_at(
		    model->target, pcs[first] & ~SYMBOL_EXACT)) != NULL &&
	       strcmp(file->name, model->layout->object) == 0)
		first++;
	return first == n ? 0 : first;
}

static void
print_stack(struct model *model, const struct thread *thread)
{
	struct target *target = model->target;
	uint64_t pcs[OWN_FRAMES_MAX + FRAMES_MAX + 1];
	size_t n = symbol_unwind(target, thread, pcs, array_size(pcs));
	size_t first = library_frames(model, pcs, n), end = first + FRAMES_MAX;

	printf("\nStack of thread %d:\n", thread->tid);
	for (size_t i = first; i < n && i < end; i++)
		if (i == 0 && !target_is_code(target, thread->pc))
			printf("    0x%lx (called, but no code is there)\n",
			    thread->pc);
		else
			symbol_print(target, pcs[i], 4);
	if (n > end)
		puts("    ... and more");
}

/* Returns the buffer of the library's last report about one; 0: none. */
static uint64_t
reported_buffer(struct model *model)
{
	const char *report =
	    layout_at(model->layout, model->target, L_ABORT_INFO);

	return report == NULL ||
		       layout_get(model->layout, report, L_ABORT_TIME) == 0
		   ? 0
		   : layout_get(model->layout, report, L_ABORT_BUFFER);
}

/* Explains the address of the fault and the buffer of the last report. */
static void
print_causes(struct model *model, struct explained *explained)
{
	struct target *target = model->target;
	uint64_t buffer;
	bool is_freed;

	if (is_fault(target) && target->signal_code != SI_KERNEL) {
		whatis_say_stacks(model, target->fault_address);
		if (whatis_is_block(
			model, target->fault_address, &buffer, &is_freed))
			explained->start[explained->n++] = buffer;
	}
	buffer = reported_buffer(model);
	if (buffer == 0)
		return;
	puts("\nThe buffer of the library's last report:");
	whatis_say_stacks(model, buffer);
	explained->start[explained->n++] = buffer;
}

/* Notes that a buffer is explained; returns true if it already was. */
static bool
is_explained(struct explained *explained, uint64_t start)
{
	for (size_t i = 0; i < explained->n; i++)
		if (explained->start[i] == start)
			return true;
	if (explained->n == EXPLAINED_MAX)
		return true;
	explained->start[explained->n++] = start;
	return false;
}

/*
 * Prints the blocks to which registers point, each register once, and the
 * stacks of a freed block, each block once.
 */
static void
print_registers(struct model *model, const struct thread *thread,
    struct explained *explained)
{
	static const char *const names[] = REGISTER_NAMES;
	bool is_first = true, is_freed;
	uint64_t start;

	for (size_t i = 0; i < array_size(names) && i < thread->nwords; i++) {
		uint64_t word = thread->words[i];

		if (names[i] == NULL || word == model->target->fault_address ||
		    !whatis_is_block(model, word, &start, &is_freed))
			continue;
		if (is_first)
			puts("\nRegisters that point to blocks:");
		is_first = false;
		printf("    %-4s ", names[i]);
		if (is_freed && !is_explained(explained, start))
			whatis_say_stacks(model, word);
		else
			whatis_say(model, word);
	}
}

/* Writes the frames as for umem log --json, and the line of each. */
static void
json_stack(struct target *target, const struct thread *thread)
{
	uint64_t pcs[FRAMES_MAX];
	size_t n = symbol_unwind(target, thread, pcs, FRAMES_MAX), nframes;

	json_open("stack", '[');
	for (size_t i = 0; i < n; i++) {
		const struct symbol_frame *frames =
		    symbol_frames(target, pcs[i], &nframes);

		for (size_t j = 0; j < nframes; j++) {
			json_open(NULL, '{');
			json_text("name", frames[j].name);
			if (frames[j].line != NULL)
				json_text("line", frames[j].line);
			json_bool("inlined", frames[j].is_inlined);
			json_close();
		}
	}
	json_close();
}

static void
json_registers(struct model *model, const struct thread *thread)
{
	static const char *const names[] = REGISTER_NAMES;
	uint64_t start;
	bool is_freed;

	json_open("registers", '{');
	for (size_t i = 0; i < array_size(names) && i < thread->nwords; i++)
		if (names[i] != NULL)
			json_address(names[i], thread->words[i]);
	json_close();
	/* The registers that point to blocks, with explanations. */
	json_open("blocks", '[');
	for (size_t i = 0; i < array_size(names) && i < thread->nwords; i++)
		if (names[i] != NULL &&
		    whatis_is_block(model, thread->words[i], &start, &is_freed))
			whatis_say_stacks(model, thread->words[i]);
	json_close();
}

static void
json_crash(struct model *model)
{
	struct target *target = model->target;
	const struct thread *thread = &target->threads[0];

	json_open(NULL, '{');
	json_text("command", target->command);
	json_number("process", (uint64_t)target->pid);
	json_number("thread", (uint64_t)thread->tid);
	json_number("threads", target->nthreads);
	json_number("signal", (uint64_t)target->signal);
	if (is_fault(target) && target->signal_code != SI_KERNEL) {
		json_address("address", target->fault_address);
		json_open("explanation", '[');
		whatis_say_stacks(model, target->fault_address);
		json_close();
	}
	if (reported_buffer(model) != 0) {
		json_open("reported", '[');
		whatis_say_stacks(model, reported_buffer(model));
		json_close();
	}
	json_stack(target, thread);
	json_registers(model, thread);
	messages_json(model, "messages");
	json_close();
}

int
command_crash(int argc, char **argv)
{
	const char *name = target_argument(argc, argv);
	struct explained explained = {.n = 0};
	struct target *target = target_open(name);
	struct model *model;

	if (target->live)
		fail_with(EXIT_ERROR,
		    "crash: %s is a process that runs; crash reads a core",
		    name);
	model = snapshot_take(target, layout_find_ready(target), 0);
	if (target->nthreads == 0)
		fail_with(EXIT_ERROR, "%s: the core file has no thread", name);
	if (json_wanted) {
		json_crash(model);
		return EXIT_OK;
	}
	print_signal(target, &target->threads[0]);
	print_causes(model, &explained);
	print_stack(model, &target->threads[0]);
	print_registers(model, &target->threads[0], &explained);
	messages_print(model, MESSAGES_MAX);
	return EXIT_OK;
}
