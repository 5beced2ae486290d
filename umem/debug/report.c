/*
 * report.c - reports of errors, one at a time
 *
 * All reports are made by the functions here: of checks of debugged buffers
 * (error.c), of misuse that malloc and caches find and of failed assertions
 * (umem/profile/panic_report.c), and of faults in guard pages
 * (umem/profile/fault.c).  A report goes to the place of all messages
 * (message_write()), and to a ring of 8192 bytes that debuggers find in a core
 * file.
 *
 * The lines of a report are collected and written together, so the lines of two
 * threads do not mix, and a log file is opened once and not for each line.  A
 * report is written in parts: the error first, then the stack, because a
 * damaged stack can end the process.
 *
 * The process cannot print lines of the source, because that needs a reader of
 * debug information, which allocates.  So a report ends with the command that
 * prints them.
 *
 * Locking: report_lock, a leaf.  It is held while a report is put together, but
 * not while the program's handler of SIGABRT runs.  Nothing here allocates.
 */
#include <elf.h>

#include "umem/debug/report.h"
#include "umem/debug/stack.h"
#include "umem/debug/symbol.h"
#include "vmem/lock.h"
#include "vmem/os.h"
#include "vmem/string.h"

/* Frames shown of the stack of the thread that found the error. */
#define STACK_FRAMES 128

/* The rest of a part that frames leave to the lines that follow them. */
#define BYTES_AFTER_FRAMES 512

char umem_error_buffer[ERROR_BUFFER_BYTES] seldom_used;
uint64_t umem_error_begin;
uint64_t umem_error_time;

static struct lock report_lock = LOCK_INITIALIZER(LOCK_REPORT);
static char text[ERROR_MESSAGE_MAX] seldom_used; /* [report_lock] */
static size_t ntext;                             /* [report_lock] */
static const char *line_prefix;                  /* [report_lock] */

/* The thread that makes a report; 0: none. */
static uint64_t reporter; /* [a] */

static void
ring_put_locked(const char *bytes, size_t n)
{
	lock_assert_held(&report_lock);
	for (size_t i = 0; i < n; i++) {
		uint64_t at = load_relaxed(&umem_error_begin);

		umem_error_buffer[at] = bytes[i];
		store_relaxed(&umem_error_begin, (at + 1) % ERROR_BUFFER_BYTES);
	}
}

static bool
is_reporter(void)
{
	return load_relaxed(&reporter) == os_thread_id();
}

bool
report_begin(const char *prefix)
{
	if (is_reporter())
		return false;
	lock_take(&report_lock);
	store_relaxed(&reporter, os_thread_id());
	line_prefix = prefix;
	ntext = 0;
	umem_error_time = os_exact_ns();
	return true;
}

void
report_send(void)
{
	lock_assert_held(&report_lock);
	ring_put_locked(text, ntext);
	message_write(text, ntext);
	ntext = 0;
}

void
report_end(void)
{
	report_send();
	store_relaxed(&reporter, 0);
	lock_release(&report_lock);
}

void
report_add(const struct message *m)
{
	size_t n = m->n;

	umem_assert(ntext <= sizeof(text));
	lock_assert_held(&report_lock);
	n = size_min(n, sizeof(text) - ntext);
	memcpy(text + ntext, m->text, n);
	ntext += n;
}

void
report_line(const char *format, ...)
{
	struct message m = {.n = 0};
	va_list args;

	message_text(&m, line_prefix);
	va_start(args, format);
	message_format(&m, format, &args);
	va_end(args);
	message_text(&m, "\n");
	report_add(&m);
}

/* Returns the name of the program's file. */
static const char *
program_name(void)
{
	const char *path = (const char *)os_auxv(AT_EXECFN);

	return path == NULL ? "a program" : string_path_base(path);
}

void
report_where(void)
{
	char name[OS_THREAD_NAME_BYTES];

	os_thread_name_get(name);
	report_line("in %s, process %u, thread %u (%s)", program_name(),
	    os_process_id(), os_thread_id(), name);
}

void
report_frames(const uintptr_t *pcs, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct message m = {.n = 0};

		message_text(&m, line_prefix);
		/* The lines of libumem have neither a prefix nor an indent. */
		message_text(&m, line_prefix[0] == '\0' ? "" : "    ");
		symbol_text(&m, pcs[i]);
		message_text(&m, "\n");
		report_add(&m);
		if (sizeof(text) - ntext < BYTES_AFTER_FRAMES && i + 1 < n) {
			report_line("...");
			return;
		}
	}
}

void
report_stack(uintptr_t pc)
{
	uintptr_t pcs[STACK_FRAMES];
	unsigned n = stack_trace(pcs, STACK_FRAMES), first = 0;

	for (unsigned i = 0; i < n && first == 0; i++)
		if (pcs[i] == pc)
			first = i;
	report_frames(pcs + first, n - first);
}

void
report_caller(const char *what, uint64_t thread, uint64_t ago,
    const uintptr_t *stack, unsigned depth)
{
	report_line("%s by thread %lu, %lu.%lu s ago:", what, thread,
	    ago / 1000000000, ago / 100000000 % 10);
	report_frames(stack, depth);
}

void
report_no_record(void)
{
	report_line("nothing recorded who allocated and freed it; "
		    "UMEM_DEBUG=default does");
}

void
report_crash_command(void)
{
	report_line("umem crash CORE prints these stacks with lines of the "
		    "source");
	if (!os_dumps_core())
		report_line("the limit for core files is 0; \"ulimit -c "
			    "unlimited\" before the start removes it");
}

void
report_whatis_command(const void *p)
{
	report_line("umem whatis %u %p prints the stacks of its allocation "
		    "and free with lines of the source",
	    os_process_id(), p);
}

void
report_sink(const char *bytes, size_t n)
{
	if (is_reporter())
		return;
	lock_take(&report_lock);
	ring_put_locked(bytes, n);
	lock_release(&report_lock);
}

void
report_after_fork(void)
{
	lock_init(&report_lock, LOCK_REPORT);
	reporter = 0;
}
