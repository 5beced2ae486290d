/*
 * error.c - error reports of debugged caches
 *
 * A report is one message of at most 4096 bytes.  It goes to standard error,
 * and to a ring of 8192 bytes that debuggers find in a core file.  The facts of
 * the error are also stored in umem_abort_info.
 *
 * The first lines and their order are libumem's: the error, the buffer, and the
 * buffer's last transaction if it was audited.  Unless noabort is set, the
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
ring_put(const char *text, size_t n)
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
add_locked(const struct message *m)
{
	size_t n = m->n;

	if (n > sizeof(report) - report_bytes)
		n = sizeof(report) - report_bytes;
	memcpy(report + report_bytes, m->text, n);
	report_bytes += n;
}

static __attribute__((format(printf, 1, 2))) void
add_line_locked(const char *format, ...)
{
	struct message m;
	va_list args;

	m.n = 0;
	va_start(args, format);
	message_format(&m, format, &args);
	va_end(args);
	message_text(&m, "\n");
	add_locked(&m);
}

static void
send_locked(void)
{
	ring_put(report, report_bytes);
	message_write(report, report_bytes);
	report_bytes = 0;
}

static void
add_frames_locked(const uintptr_t *pc, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct message m;

		m.n = 0;
		symbol_text(&m, pc[i]);
		message_text(&m, "\n");
		add_locked(&m);
		/*
		 * The stack of the reporting thread may be too long for the
		 * report.
		 */
		if (sizeof(report) - report_bytes < 512 && i + 1 < n) {
			add_line_locked("...");
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
add_kind_locked(const struct error_info *e, const char *head)
{
	static const char *const gets[KINDS] = {
	    [KIND_OBJECT] = "umem_cache_alloc",
	    [KIND_MALLOC] = "malloc",
	    [KIND_UMEM] = "umem_alloc",
	    [KIND_NEW] = "operator new",
	    [KIND_ARRAY] = "operator new[]"};
	static const char *const puts[KINDS] = {
	    [KIND_OBJECT] = "umem_cache_free",
	    [KIND_MALLOC] = "free",
	    [KIND_UMEM] = "umem_free",
	    [KIND_NEW] = "operator delete",
	    [KIND_ARRAY] = "operator delete[]"};
	static const char *const deferred_puts[KINDS] = {
	    [KIND_OBJECT] = "umem_cache_free_rcu",
	    [KIND_MALLOC] = "free_rcu",
	    [KIND_UMEM] = "umem_free_rcu"};
	const char *put =
	    e->deferred != 0 ? deferred_puts[e->found] : puts[e->found];

	if (e->found == KIND_UMEM || e->expected == KIND_UMEM)
		add_line_locked("%s %s(%p): invalid or corrupted buffer", head,
		    put, e->address);
	else if (e->expected == KIND_ASIDE)
		add_line_locked("%s bad free: %s(%p) of an object that was not "
				"handed out yet",
		    head, put, e->address);
	else
		add_line_locked("%s bad free: %s(%p) of memory from %s", head,
		    put, e->address, gets[e->expected]);
}

/* Appends the error itself, one line or more. */
static void
add_first_locked(const struct error_info *e)
{
	static const char *const texts[] = {
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

	switch (e->code) {
	case UMERR_BADSIZE:
		add_line_locked("%s bad free: free size (%zu) != alloc size "
				"(%zu)",
		    head, e->found, e->expected);
		return;
	case UMERR_BADBASE:
		add_line_locked("%s bad free: free address (%p) != alloc "
				"address (%p)",
		    head, e->address, e->buffer);
		return;
	case UMERR_BADKIND:
		add_kind_locked(e, head);
		return;
	default:
		add_line_locked("%s %s", head, texts[e->code]);
	}
}

static void
add_second_locked(const struct error_info *e)
{
	switch (e->code) {
	case UMERR_MODIFIED:
	case UMERR_EARLY:
		add_line_locked("modification occurred at offset 0x%lx "
				"(0x%lx replaced by 0x%lx)",
		    e->offset, e->expected, e->found);
		break;
	case UMERR_REDZONE:
		add_line_locked("first byte changed is at offset 0x%lx, "
				"behind the %zu asked for",
		    e->offset, e->bufctl != NULL ? e->bufctl->size : 0);
		break;
	case UMERR_BEFORE:
		add_line_locked("a byte was changed among the %zu before it, "
				"or by a write far past the buffer before",
		    e->expected);
		break;
	case UMERR_WAITMOD:
		add_line_locked("one of its first %zu bytes was changed; the "
				"word rcu_writes allows readers to",
		    e->expected);
		break;
	case UMERR_BADBUFTAG:
		add_line_locked(
		    "bcp ^ bxstat = %lx, should be %lx", e->found, e->expected);
		break;
	case UMERR_BADCACHE:
		add_line_locked(
		    "buffer was allocated from %s,", cache_name(e->real_cache));
		add_line_locked(
		    "caller attempting free to %s.", cache_name(e->cache));
		break;
	default:
		break;
	}
}

static void
add_transaction_locked(const struct bufctl *bufctl, uint64_t now)
{
	const struct bufctl_audit *audit = (const void *)bufctl;
	uint64_t ago = now - audit->timestamp;
	struct message m;

	add_line_locked(
	    "previous transaction on buffer %lx:", (uintptr_t)bufctl->addr);
	m.n = 0;
	message_text(&m, "thread=");
	message_dec(&m, audit->thread);
	message_text(&m, "  time=T-");
	message_dec(&m, ago / 1000000000);
	message_text(&m, ".");
	for (uint64_t unit = 100000000; unit != 0; unit /= 10)
		message_dec(&m, ago / unit % 10);
	add_locked(&m);
	add_line_locked("  slab=%lx  cache: %s", (uintptr_t)bufctl->slab,
	    cache_name(bufctl->cache));
	add_frames_locked(audit->stack, bufctl->depth);
}

static void
add_buffer_locked(const struct error_info *e)
{
	const struct umem_cache *cache =
	    e->real_cache != NULL ? e->real_cache : e->cache;

	add_line_locked("buffer=%lx  bufctl=%lx  cache: %s",
	    (uintptr_t)(e->buffer != NULL ? e->buffer : e->address),
	    (uintptr_t)e->bufctl, cache_name(cache));
	if (e->bufctl != NULL && e->bufctl->depth != 0)
		add_transaction_locked(e->bufctl, e->time);
}

static cold_path void
add_stack_locked(void)
{
	uintptr_t pc[ABORT_FRAMES];

	add_line_locked("umem: heap corruption detected");
	add_line_locked("stack trace:");
	add_frames_locked(pc, stack_trace(pc, ABORT_FRAMES));
}

/*
 * The thread that makes a report.  If it finds another error meanwhile, the
 * report has caused it.
 */
static uint64_t reporter; /* [a] */

void
error_report(const struct error_info *info)
{
	uint64_t me = os_thread_id();

	if (__atomic_load_n(&reporter, __ATOMIC_RELAXED) == me)
		os_abort();
	lock_take(&report_lock);
	__atomic_store_n(&reporter, me, __ATOMIC_RELAXED);
	__atomic_store_n(&log_frozen, true, __ATOMIC_RELAXED);
	umem_abort_info = *info;
	umem_abort_info.time = os_exact_ns();
	umem_abort_info.thread = me;
	report_bytes = 0;
	add_first_locked(&umem_abort_info);
	add_second_locked(&umem_abort_info);
	add_buffer_locked(&umem_abort_info);
	send_locked();
	if (!debug.noabort) {
		add_stack_locked();
		send_locked();
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
sink(const char *text, size_t n)
{
	if (__atomic_load_n(&reporter, __ATOMIC_RELAXED) == os_thread_id())
		return;
	lock_take(&report_lock);
	ring_put(text, n);
	lock_release(&report_lock);
}

void
error_start(void)
{
	message_sink = sink;
}

void
error_after_fork(void)
{
	lock_init(&report_lock, LOCK_REPORT);
	reporter = 0;
}
