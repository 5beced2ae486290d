/*
 * log.c - rings of events
 *
 * There are four logs: transactions (copies of audit records), contents (the
 * first bytes of freed buffers), failures, and slab creations.
 *
 * A log is a ring of entries of one size.  A thread gets the number of its
 * entry by an atomic addition, and takes the entry if it has an older number:
 * by a compare-and-swap to LOG_BUSY, so that one thread writes to it.  It
 * stores its own number after the bytes.  If another thread has the entry,
 * or has put a newer one there, because the ring has come round, the new entry
 * is lost.  A thread that ends between, or stays behind in fork(), leaves an
 * entry that is busy for ever: the ring is one entry smaller.  A reader passes
 * over entries that are busy or too old, and sorts the others by their times.
 *
 * An entry stays in place until the ring comes round, so a pointer to an entry
 * (contents) is valid for a while, and stays readable.
 *
 * While a report is made, no entries are stored.  Therefore the log still shows
 * the events that led to the error.
 */
#include <string.h>

#include "umem/debug/log.h"
#include "vmem/account.h"
#include "vmem/os.h"
#include "vmem/panic.h"

struct log logs[LOG_KINDS];
size_t log_bytes_wanted[LOG_KINDS];
bool log_frozen;

/* Creates a log of about bytes; it has at least one entry. */
static void
log_create(struct log *log, size_t bytes, size_t entry_bytes)
{
	size_t each = sizeof(struct log_entry) + align_up(entry_bytes, 8);
	size_t all = align_up(bytes < each ? each : bytes, os_page_size());
	char *at = os_map(all);

	if (at == NULL)
		return;
	os_name(at, all, "umem log");
	account_add(&account.tables, all);
	log->bytes = all;
	log->entry_bytes = each;
	log->nentries = all / each;
	log->base = at;
}

void
log_start(void)
{
	for (unsigned i = 0; i < LOG_KINDS; i++)
		if (log_bytes_wanted[i] != 0 && logs[i].base == NULL)
			log_create(&logs[i], log_bytes_wanted[i],
			    i == LOG_CONTENTS
				? debug.contents_bytes
				: bufctl_log_bytes(debug.nframes));
}

/* Copies n bytes by atomic stores, because a reader may look meanwhile. */
static void
words_copy(uint64_t *to, const char *from, size_t n)
{
	uint64_t word;

	for (; n >= sizeof(word); n -= sizeof(word), from += sizeof(word)) {
		memcpy(&word, from, sizeof(word));
		store_relaxed(to, word);
		to++;
	}
	if (n == 0)
		return;
	word = 0;
	memcpy(&word, from, n);
	store_relaxed(to, word);
}

void *
log_put(enum log_kind kind, const void *entry, size_t n)
{
	struct log *log = &logs[kind];
	struct log_entry *to;
	uint64_t number, old;

	if (!log_is_on(kind) || n > log->entry_bytes - sizeof(*to))
		return NULL;
	number = add_relaxed(&log->nput, 1);
	to = (void *)(log->base +
		      (number - 1) % log->nentries * log->entry_bytes);
	old = load_relaxed(&to->number);
	/* LOG_BUSY is larger than every number. */
	if (old >= number ||
	    !__atomic_compare_exchange_n(&to->number, &old, LOG_BUSY, false,
		__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return NULL;
	/* A reader that finds the old number finds the old bytes, too. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	words_copy(to->words, entry, n);
	store_release(&to->number, number);
	return to->words;
}
