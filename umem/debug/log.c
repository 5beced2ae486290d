/*
 * log.c - rings of events
 *
 * There are four logs: transactions (copies of audit records), contents (the
 * first bytes of freed buffers), failures, and slab creations.
 *
 * A log consists of sub-buffers, four for each CPU.  Each CPU fills one that
 * no other CPU fills.  When it is full, the CPU takes the next in turn, which
 * holds the oldest entries.  So a log contains the latest entries, and the
 * entries of one CPU are in order.  A reader sorts them by their times.
 *
 * An entry stays in place until its sub-buffer is used again, so a pointer to
 * an entry (lastlog, contents) is valid for a while, and stays readable.
 *
 * While a report is made, no entries are stored.  Therefore the log still shows
 * the events that led to the error.
 *
 * Locking: each CPU has one lock in each log.  next guards which CPU fills
 * which sub-buffer, so that no two CPUs fill one sub-buffer.
 */
#include <string.h>

#include "umem/debug/described.h"
#include "umem/debug/log.h"
#include "vmem/account.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/describe.h"

struct log logs[LOG_KINDS];
size_t log_bytes_wanted[LOG_KINDS];
bool log_frozen;

/* As in libumem. */
#define SUBBUFS_PER_CPU 4

/* Minimum size of a sub-buffer, in bytes, so that the longest record fits. */
#define SUBBUF_MIN 4096

static void
log_create(struct log *log, size_t bytes)
{
	size_t page = os_page_size();
	size_t ncpus = os_cpus_allowed();
	size_t cpus_bytes = align_up(ncpus * sizeof(struct log_cpu), page);
	size_t subbuf = bytes / (ncpus * SUBBUFS_PER_CPU);
	size_t all;
	char *at;

	subbuf = align_up(subbuf < SUBBUF_MIN ? SUBBUF_MIN : subbuf, page);
	if (__builtin_mul_overflow(subbuf, ncpus * SUBBUFS_PER_CPU, &all) ||
	    __builtin_add_overflow(all, cpus_bytes, &all))
		return;
	at = os_map(all);
	if (at == NULL)
		return;
	os_name(at, all, "umem log");
	account_add(&account.tables, all);
	log->cpu = (struct log_cpu *)(void *)at;
	log->ncpus = ncpus;
	log->subbuf_bytes = subbuf;
	log->nsubbufs = ncpus * SUBBUFS_PER_CPU;
	log->bytes = all - cpus_bytes;
	lock_init(&log->next, LOCK_LOG_NEXT);
	for (size_t i = 0; i < ncpus; i++)
		lock_init(&log->cpu[i].lock, LOCK_LOG);
	log->base = at + cpus_bytes;
}

void
log_start(void)
{
	for (unsigned i = 0; i < LOG_KINDS; i++)
		if (log_bytes_wanted[i] != 0 && logs[i].base == NULL)
			log_create(&logs[i], log_bytes_wanted[i]);
}

static bool
log_subbuf_is_filled(const struct log *log, uint32_t subbuf)
{
	lock_assert_held(&log->next);
	for (uint64_t i = 0; i < log->ncpus; i++)
		if (log->cpu[i].subbuf == subbuf && log->cpu[i].nsubbufs != 0)
			return true;
	return false;
}

/* Returns how many CPUs fill the sub-buffer. */
static inline unsigned
log_fillers_locked(const struct log *log, uint32_t subbuf)
{
	unsigned n = 0;

	lock_assert_held(&log->next);
	for (uint64_t i = 0; i < log->ncpus; i++)
		n += log->cpu[i].subbuf == subbuf && log->cpu[i].nsubbufs != 0;
	return n;
}

/* Is the CPU's position in its sub-buffer, and the rest of it counted? */
static inline bool
log_check_locked(const struct log *log, const struct log_cpu *cpu)
{
	char *start = log->base + cpu->subbuf * log->subbuf_bytes;

	lock_assert_held(&cpu->lock);
	if (cpu->nsubbufs == 0)
		return cpu->at == NULL && cpu->avail == 0;
	return cpu->subbuf < log->nsubbufs && cpu->at >= start &&
	       cpu->at + cpu->avail == start + log->subbuf_bytes;
}

/*
 * Takes the oldest sub-buffer that no CPU is filling.  There is one, because
 * there are more sub-buffers than CPUs.
 */
static void
log_next_subbuf_locked(struct log *log, struct log_cpu *cpu)
{
	uint32_t subbuf;
	bool is_new;

	lock_assert_held(&cpu->lock);
	umem_assert(log->nsubbufs > log->ncpus);
	lock_take(&log->next);
	do
		subbuf = (uint32_t)(log->nused++ % log->nsubbufs);
	while (log_subbuf_is_filled(log, subbuf));
	cpu->subbuf = subbuf;
	cpu->nsubbufs++;
	umem_assert(log_fillers_locked(log, subbuf) == 1);
	is_new = log->nused <= log->nsubbufs;
	lock_release(&log->next);
	cpu->at = log->base + subbuf * log->subbuf_bytes;
	cpu->avail = log->subbuf_bytes;
	/* A reader stops at zeros; new memory is zero already. */
	if (!is_new)
		memset(cpu->at, 0, log->subbuf_bytes);
}

void *
log_put(enum log_kind kind, const void *entry, size_t n)
{
	struct log *log = &logs[kind];
	struct log_cpu *cpu;
	char *at = NULL;

	if (!log_is_on(kind) || n > log->subbuf_bytes)
		return NULL;
	cpu = &log->cpu[os_cpu() % log->ncpus];
	lock_take(&cpu->lock);
	umem_assert(log_check_locked(log, cpu));
	if (cpu->avail < n)
		log_next_subbuf_locked(log, cpu);
	at = cpu->at;
	memcpy(at, entry, n);
	cpu->at += align_up(n, 8);
	cpu->avail -= align_up(n, 8) < cpu->avail ? align_up(n, 8) : cpu->avail;
	cpu->nhits++;
	umem_assert(log_check_locked(log, cpu));
	lock_release(&cpu->lock);
	return at;
}

static void
log_each_lock(void (*f)(struct lock *))
{
	for (unsigned i = 0; i < LOG_KINDS; i++)
		for (uint64_t c = 0; logs[i].base != NULL && c < logs[i].ncpus;
		     c++)
			f(&logs[i].cpu[c].lock);
}

void
log_lock_for_fork(void)
{
	log_each_lock(lock_take_for_fork);
}

void
log_unlock_for_fork(void)
{
	log_each_lock(lock_release_for_fork);
}

DESCRIBE(DESCRIBED_LOGS);
