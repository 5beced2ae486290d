/*
 * error.c - error reports of debugged caches
 *
 * A report is one message of at most 4096 bytes.  It goes to standard error,
 * and to a ring of 8192 bytes that debuggers find in a core file.  The facts of
 * the error are also stored in umem_abort_info.
 *
 * The first lines and their order are libumem's: the error, the buffer, and the
 * buffer's last transaction if it was audited.  If that was a free, the
 * allocation before it follows.  Unless noabort is set, the
 * stack of the caller follows, and then abort, which runs a SIGABRT handler
 * once.
 *
 * libumem writes to standard error only with "verbose".  Here the report is
 * always written, because the user has asked for debugging.
 *
 * Locking: report_lock, a leaf.  It is held while a report is put together, but
 * not while the program's handler runs.  A fault inside a report ends the
 * report.
 *
 * Source: libumem's umem_error() and umem_err_recoverable(), by their texts.
 */
#include <stdarg.h>
#include <string.h>

#include "umem/debug/error.h"
#include "umem/debug/explain.h"
#include "umem/debug/log.h"
#include "umem/debug/stack.h"
#include "umem/debug/symbol.h"
#include "vmem/lock.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/* Frames shown of the stack of the thread that found the error. */
#define ABORT_FRAMES 128

struct error_info umem_abort_info;
char umem_error_buffer[ERROR_BUFFER_BYTES] seldom_used;
uint64_t umem_error_begin;

static struct lock report_lock = LOCK_INITIALIZER(LOCK_REPORT);
static char report[ERROR_MESSAGE_MOST] seldom_used; /* [report_lock] */
static size_t report_bytes;                         /* [report_lock] */

static void
error_ring_put(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t at =
		    __atomic_load_n(&umem_error_begin, __ATOMIC_RELAXED);

		umem_error_buffer[at] = text[i];
		__atomic_store_n(&umem_error_begin,
		    (at + 1) % ERROR_BUFFER_BYTES, __ATOMIC_RELAXED);
	}
}

static void
report_add_locked(const struct message *m)
{
	size_t n = m->n;

	umem_assert(report_bytes <= sizeof(report));
	lock_assert_held(&report_lock);
	if (n > sizeof(report) - report_bytes)
		n = sizeof(report) - report_bytes;
	memcpy(report + report_bytes, m->text, n);
	report_bytes += n;
}

static __attribute__((format(printf, 1, 2))) void
report_line_locked(const char *format, ...)
{
	struct message m;
	va_list args;

	lock_assert_held(&report_lock);
	m.n = 0;
	va_start(args, format);
	message_format(&m, format, &args);
	va_end(args);
	message_text(&m, "\n");
	report_add_locked(&m);
}

static void
report_send_locked(void)
{
	lock_assert_held(&report_lock);
	error_ring_put(report, report_bytes);
	message_write(report, report_bytes);
	report_bytes = 0;
}

static void
report_frames_locked(const uintptr_t *pc, unsigned n)
{
	lock_assert_held(&report_lock);
	for (unsigned i = 0; i < n; i++) {
		struct message m;

		m.n = 0;
		symbol_text(&m, pc[i]);
		message_text(&m, "\n");
		report_add_locked(&m);
		/*
		 * The stack of the reporting thread may be too long for the
		 * report.
		 */
		if (sizeof(report) - report_bytes < 512 && i + 1 < n) {
			report_line_locked("...");
			return;
		}
	}
}

static const char *
cache_name(const struct umem_cache *cache)
{
	return cache == NULL ? "none" : cache->name;
}

/*
 * For umem_alloc() and free() the line is libumem's, which has no other kinds.
 */
static void
report_api_locked(const struct error_info *e, const char *head)
{
	/* Arrays, because the loader would relocate pointers. */
	static const char alloc_names[API_COUNT][20] = {
	    [API_OBJECT] = "umem_cache_alloc",
	    [API_MALLOC] = "malloc",
	    [API_UMEM] = "umem_alloc",
	    [API_NEW] = "operator new",
	    [API_ARRAY] = "operator new[]"};
	static const char free_names[API_COUNT][20] = {
	    [API_OBJECT] = "umem_cache_free",
	    [API_MALLOC] = "free",
	    [API_UMEM] = "umem_free",
	    [API_NEW] = "operator delete",
	    [API_ARRAY] = "operator delete[]"};
	static const char deferred_free_names[API_COUNT][20] = {
	    [API_OBJECT] = "umem_cache_free_rcu",
	    [API_MALLOC] = "free_rcu",
	    [API_UMEM] = "umem_free_rcu"};
	const char *free_name = e->deferred != 0 ? deferred_free_names[e->found]
						 : free_names[e->found];

	lock_assert_held(&report_lock);
	if (e->found == API_UMEM || e->expected == API_UMEM)
		report_line_locked("%s %s(%p): invalid or corrupted buffer",
		    head, free_name, e->address);
	else if (e->expected == API_RESERVED)
		report_line_locked(
		    "%s bad free: %s(%p) of an object that was not "
		    "handed out yet",
		    head, free_name, e->address);
	else
		report_line_locked("%s bad free: %s(%p) of memory from %s",
		    head, free_name, e->address, alloc_names[e->expected]);
}

/* Appends the error itself, one line or more. */
static void
report_error_locked(const struct error_info *e)
{
	/* An array, because the loader would relocate pointers. */
	static const char texts[][64] = {
	    [UMERR_MODIFIED] = "buffer modified after being freed",
	    [UMERR_REDZONE] = "redzone violation: write past end of buffer",
	    [UMERR_DUPFREE] = "duplicate free: buffer freed twice",
	    [UMERR_BADADDR] = "invalid free: buffer not in cache",
	    [UMERR_BADBUFTAG] = "boundary tag corrupted",
	    [UMERR_BADBUFCTL] = "bufctl corrupted",
	    [UMERR_BADCACHE] = "buffer freed to wrong cache",
	    [UMERR_SIGNAL] = "allocation in a signal handler",
	    [UMERR_BEFORE] = "redzone violation: write before start of buffer",
	    [UMERR_EARLY] = "buffer modified before it was handed out",
	    [UMERR_DUPWAIT] = "duplicate free: buffer was freed and waits "
			      "for a grace period",
	    [UMERR_WAITMOD] =
		"buffer modified while it waited for a grace period"};
	static const char head[] = "umem allocator:";

	lock_assert_held(&report_lock);
	switch (e->code) {
	case UMERR_BADSIZE:
		report_line_locked("%s bad free: free size (%zu) != alloc size "
				   "(%zu)",
		    head, e->found, e->expected);
		return;
	case UMERR_BADBASE:
		report_line_locked("%s bad free: free address (%p) != alloc "
				   "address (%p)",
		    head, e->address, e->buffer);
		return;
	case UMERR_BADAPI:
		report_api_locked(e, head);
		return;
	default:
		report_line_locked("%s %s", head, texts[e->code]);
	}
}

static void
report_detail_locked(const struct error_info *e)
{
	lock_assert_held(&report_lock);
	switch (e->code) {
	case UMERR_MODIFIED:
	case UMERR_EARLY:
		report_line_locked("modification occurred at offset 0x%lx "
				   "(0x%lx replaced by 0x%lx)",
		    e->offset, e->expected, e->found);
		break;
	case UMERR_REDZONE:
		report_line_locked("first byte changed is at offset 0x%lx, "
				   "behind the %zu asked for",
		    e->offset, e->bufctl != NULL ? e->bufctl->size : 0);
		break;
	case UMERR_BEFORE:
		report_line_locked(
		    "a byte was changed among the %zu before it, "
		    "or by a write far past the buffer before",
		    e->expected);
		break;
	case UMERR_WAITMOD:
		report_line_locked(
		    "one of its first %zu bytes was changed; the "
		    "word rcu_writes allows readers to",
		    e->expected);
		break;
	case UMERR_BADBUFTAG:
		report_line_locked(
		    "bcp ^ bxstat = %lx, should be %lx", e->found, e->expected);
		break;
	case UMERR_BADCACHE:
		report_line_locked(
		    "buffer was allocated from %s,", cache_name(e->real_cache));
		report_line_locked(
		    "caller attempting free to %s.", cache_name(e->cache));
		break;
	default:
		break;
	}
}

/* Appends the thread and the age of a transaction, without a newline. */
static void
report_when_locked(uint64_t thread, uint64_t ago)
{
	struct message m = {.n = 0};

	lock_assert_held(&report_lock);
	message_text(&m, "thread=");
	message_dec(&m, thread);
	message_text(&m, "  time=T-");
	message_dec(&m, ago / 1000000000);
	message_text(&m, ".");
	for (uint64_t unit = 100000000; unit != 0; unit /= 10)
		message_dec(&m, ago / unit % 10);
	report_add_locked(&m);
}

static void
report_transaction_locked(const struct bufctl *bufctl, uint64_t now)
{
	const struct bufctl_audit *audit = (const void *)bufctl;

	lock_assert_held(&report_lock);
	report_line_locked(
	    "previous transaction on buffer %lx:", (uintptr_t)bufctl->addr);
	report_when_locked(audit->thread, now - audit->timestamp);
	report_line_locked("  slab=%lx  cache: %s", (uintptr_t)bufctl->slab,
	    cache_name(bufctl->cache));
	report_frames_locked(audit->stack, bufctl->depth);
	if (audit->allocated_time == 0)
		return;
	report_line_locked("buffer was allocated by:");
	report_when_locked(
	    audit->allocated_thread, now - audit->allocated_time);
	report_line_locked("  size=%zu", bufctl->size);
	report_frames_locked(
	    audit->stack + debug.nframes, (unsigned)audit->allocated_depth);
}

/* Appends the program, its process, and the thread that reports. */
static void
report_where_locked(void)
{
	char name[OS_THREAD_NAME_BYTES];

	lock_assert_held(&report_lock);
	os_thread_name_get(name);
	report_line_locked("in %s, process %u, thread %lu (%s)",
	    explain_program(), os_process_id(), umem_abort_info.thread, name);
}

static void
report_buffer_locked(const struct error_info *e)
{
	const struct umem_cache *cache =
	    e->real_cache != NULL ? e->real_cache : e->cache;

	lock_assert_held(&report_lock);
	report_line_locked("buffer=%lx  bufctl=%lx  cache: %s",
	    (uintptr_t)(e->buffer != NULL ? e->buffer : e->address),
	    (uintptr_t)e->bufctl, cache_name(cache));
	if (e->bufctl != NULL && e->address >= e->bufctl->addr)
		report_line_locked("%p is at offset %zu of %zu bytes asked for",
		    e->address,
		    (uintptr_t)e->address - (uintptr_t)e->bufctl->addr,
		    e->bufctl->size);
	report_where_locked();
	if (e->bufctl != NULL && e->bufctl->depth != 0)
		report_transaction_locked(e->bufctl, e->time);
}

static cold_path void
report_stack_locked(void)
{
	uintptr_t pc[ABORT_FRAMES];

	lock_assert_held(&report_lock);
	report_line_locked("umem: heap corruption detected");
	report_line_locked("stack trace:");
	report_frames_locked(pc, stack_trace(pc, ABORT_FRAMES));
}

/*
 * The thread that makes a report.  If it finds another error meanwhile, the
 * report has caused it.
 */
static uint64_t reporter; /* [a] */

void
error_report(const struct error_info *info)
{
	uint64_t self = os_thread_id();

	if (__atomic_load_n(&reporter, __ATOMIC_RELAXED) == self)
		os_abort();
	lock_take(&report_lock);
	__atomic_store_n(&reporter, self, __ATOMIC_RELAXED);
	__atomic_store_n(&log_frozen, true, __ATOMIC_RELAXED);
	umem_abort_info = *info;
	umem_abort_info.time = os_exact_ns();
	umem_abort_info.thread = self;
	report_bytes = 0;
	report_error_locked(&umem_abort_info);
	report_detail_locked(&umem_abort_info);
	report_buffer_locked(&umem_abort_info);
	report_send_locked();
	if (!debug.noabort) {
		report_stack_locked();
		report_send_locked();
	} else {
		__atomic_store_n(&log_frozen, false, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&reporter, 0, __ATOMIC_RELAXED);
	lock_release(&report_lock);
	if (!debug.noabort)
		os_abort();
}

/* Receives a message that panic.c has written. */
static void
error_sink(const char *text, size_t n)
{
	if (__atomic_load_n(&reporter, __ATOMIC_RELAXED) == os_thread_id())
		return;
	lock_take(&report_lock);
	error_ring_put(text, n);
	lock_release(&report_lock);
}

void
error_start(void)
{
	message_sink = error_sink;
}

void
error_after_fork(void)
{
	lock_init(&report_lock, LOCK_REPORT);
	reporter = 0;
}
