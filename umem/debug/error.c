/*
 * error.c - error reports of debugged caches
 *
 * report.c writes them.  The facts of the error are also stored in
 * umem_abort_info.
 *
 * The first lines and their order are libumem's: the error, the buffer, and the
 * buffer's last transaction if it was audited.  If that was a free, the
 * allocation before it follows.  Then comes the stack of the caller.  Unless
 * noabort is set, the process aborts, which runs a SIGABRT handler once.
 *
 * libumem writes to standard error only with "verbose".  Here the report is
 * always written, because the user has asked for debugging.
 *
 * Source: libumem's umem_error() and umem_err_recoverable(), by their texts.
 */
#include "umem/debug/error.h"
#include "umem/debug/log.h"
#include "umem/debug/report.h"
#include "umem/debug/stack.h"
#include "vmem/os.h"
#include "vmem/panic.h"

struct error_info umem_abort_info;

static const char *
cache_name(const struct umem_cache *cache)
{
	return cache == NULL ? "none" : cache->name;
}

/*
 * For umem_alloc() and free() the line is libumem's, which has no other kinds.
 */
static void
error_say_api(const struct error_info *e, const char *head)
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

	if (e->found == API_UMEM || e->expected == API_UMEM)
		report_line("%s %s(%p): invalid or corrupted buffer", head,
		    free_name, e->address);
	else if (e->expected == API_RESERVED)
		report_line("%s bad free: %s(%p) of an object that was not "
			    "handed out yet",
		    head, free_name, e->address);
	else
		report_line("%s bad free: %s(%p) of memory from %s", head,
		    free_name, e->address, alloc_names[e->expected]);
}

/* Appends the error itself, one line or more. */
static void
error_say_text(const struct error_info *e)
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
	    [UMERR_DUPWAIT] =
		"duplicate free: buffer was freed and waits for a grace period",
	    [UMERR_WAITMOD] =
		"buffer modified while it waited for a grace period"};
	static const char head[] = "umem allocator:";

	switch (e->code) {
	case UMERR_BADSIZE:
		report_line("%s bad free: free size (%zu) != alloc size "
			    "(%zu)",
		    head, e->found, e->expected);
		return;
	case UMERR_BADBASE:
		report_line("%s bad free: free address (%p) != alloc "
			    "address (%p)",
		    head, e->address, e->buffer);
		return;
	case UMERR_BADAPI:
		error_say_api(e, head);
		return;
	default:
		report_line("%s %s", head, texts[e->code]);
	}
}

static void
error_say_detail(const struct error_info *e)
{
	if (e->at_exit != 0)
		report_line("detected at exit; the buffer was not freed");
	switch (e->code) {
	case UMERR_MODIFIED:
	case UMERR_EARLY:
		report_line("modification occurred at offset 0x%lx "
			    "(0x%lx replaced by 0x%lx)",
		    e->offset, e->expected, e->found);
		break;
	case UMERR_REDZONE:
		report_line("first byte changed is at offset 0x%lx, "
			    "behind the %zu asked for",
		    e->offset, e->size);
		if (e->behind != NULL)
			report_line("detected in the next buffer, %p, which "
				    "the write may have reached",
			    e->behind);
		break;
	case UMERR_BEFORE:
		report_line("a byte was changed among the %zu before it, "
			    "or by a write far past the buffer before",
		    e->expected);
		break;
	case UMERR_WAITMOD:
		report_line("one of its first %zu bytes was changed; the "
			    "word rcu_writes allows readers to",
		    e->expected);
		break;
	case UMERR_BADBUFTAG:
		report_line(
		    "bcp ^ bxstat = %lx, should be %lx", e->found, e->expected);
		break;
	case UMERR_BADCACHE:
		report_line(
		    "buffer was allocated from %s,", cache_name(e->real_cache));
		report_line(
		    "caller attempting free to %s.", cache_name(e->cache));
		break;
	default:
		break;
	}
}

/* Appends the thread and the age of a transaction, without a newline. */
static void
error_say_time(uint64_t thread, uint64_t ago)
{
	struct message m = {.n = 0};

	message_text(&m, "thread=");
	message_dec(&m, thread);
	message_text(&m, "  time=T-");
	message_dec(&m, ago / 1000000000);
	message_text(&m, ".");
	for (uint64_t unit = 100000000; unit != 0; unit /= 10)
		message_dec(&m, ago / unit % 10);
	report_add(&m);
}

static void
error_say_transaction(const struct bufctl_audit *audit, uint64_t now)
{
	if (audit == NULL || audit->depth == 0)
		return;
	report_line(
	    "previous transaction on buffer %lx:", (uintptr_t)audit->addr);
	error_say_time(audit->thread, now - audit->timestamp);
	report_line("  slab=%lx  cache: %s", (uintptr_t)audit->slab,
	    cache_name(audit->cache));
	report_frames(audit->stack, audit->depth);
	if (audit->allocated_time == 0)
		return;
	report_line("buffer was allocated by:");
	error_say_time(audit->allocated_thread, now - audit->allocated_time);
	report_line("  size=%zu", audit->size);
	report_frames(
	    audit->stack + debug.nframes, (unsigned)audit->allocated_depth);
}

/* The address about which umem whatis prints the records. */
static const void *
error_address(const struct error_info *e)
{
	return e->buffer != NULL ? e->buffer : e->address;
}

static void
error_say_buffer(const struct error_info *e)
{
	const struct umem_cache *cache =
	    e->real_cache != NULL ? e->real_cache : e->cache;

	report_line("buffer=%lx  bufctl=%lx  cache: %s",
	    (uintptr_t)error_address(e), (uintptr_t)e->bufctl,
	    cache_name(cache));
	if (e->bufctl != NULL && e->bufctl->state != BUFCTL_NEVER)
		report_line("%p is at offset %zu of %zu bytes asked for",
		    e->address, (uintptr_t)e->address - (uintptr_t)e->buffer,
		    e->size);
	report_where();
	if (e->bufctl != NULL && e->audit == NULL)
		report_no_record();
	error_say_transaction(e->audit, e->time);
	error_say_transaction(e->before, e->time);
}

/* Adds the stack of the calling thread, and the command that explains it. */
static cold_path void
error_say_stack(const struct error_info *e)
{
	if (!debug.noabort)
		report_line("umem: heap corruption detected");
	report_line("stack trace:");
	report_stack(/* pc */ 0);
	if (!debug.noabort)
		report_crash_command();
	else if (e->audit != NULL)
		report_whatis_command(error_address(e));
}

void
error_report(const struct error_info *info)
{
	if (!report_begin(/* prefix */ ""))
		os_abort();
	store_relaxed(&log_frozen, true);
	umem_abort_info = *info;
	umem_abort_info.time = os_exact_ns();
	umem_abort_info.thread = stack_thread();
	error_say_text(&umem_abort_info);
	error_say_detail(&umem_abort_info);
	error_say_buffer(&umem_abort_info);
	report_send();
	error_say_stack(info);
	if (debug.noabort)
		store_relaxed(&log_frozen, false);
	report_end();
	if (!debug.noabort && info->at_exit == 0)
		os_abort();
}
