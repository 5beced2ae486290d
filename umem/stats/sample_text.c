/*
 * sample_text.c - the live samples by call site, as a text
 *
 * A call site is the samples with one stack.  The text has those with the most
 * memory, the largest first:
 *
 *	samples: 1234 so far, 2 not kept; one in about 524288 bytes
 *	 about bytes about blocks samples newest (s) oldest (s)
 *	    53000000         1200      99          1        100
 *		srv+0x1a2c
 *		libc.so.6+0x29d90
 *	12 more call sites: about 8000000 bytes in 300 blocks, 31 samples
 *	module srv: /usr/sbin/srv, linked at 0x0, build ID 0123456789abcdef
 *	end of samples
 *
 * A frame is a module and a return address as it is in the file of the module.
 * The names of functions would need a search of the symbols of each module,
 * which is left to the reader of the text.
 *
 * Bounds
 *	Memory: a table that is mapped for it alone and has a call site for each
 *	record.  With PAGE_MAP_SAMPLES records this is 16 MiB, and the text is
 *	at most 2 MiB, of which the touched part is resident.  Nothing is
 *	allocated from the heap, so the text does not change the samples that it
 *	shows.
 *	Time: sample_each() holds sample_lock for some microseconds at a time.
 *	The rest runs without a lock.  With the largest table, the searches for
 *	the SITES_SHOWN largest call sites read 3 million entries.
 *
 * Samples in records that are created after the table are left out.
 */
#include <string.h>

#include "umem/debug/debug.h"
#include "umem/debug/module.h"
#include "umem/profile/sample.h"
#include "umem/profile/sample_count.h"
#include "umem/stats/sample_text.h"
#include "vmem/hash.h"
#include "vmem/os.h"

/* Call sites that are listed; one line has the sum of the others. */
#define SITES_SHOWN 100

/* Bytes of text for a row, for a frame, and for all modules. */
#define ROW_BYTES     ((size_t)128)
#define FRAME_BYTES   ((size_t)256)
#define MODULES_BYTES (64 * KIB)

/* The live samples with one stack. */
struct site {
	double bytes, blocks; /* that the samples stand for */
	uint64_t newest, oldest;
	struct sample_stack *stack; /* with a reference */
	uint32_t nsamples;
	bool is_printed;
};

struct sites {
	size_t mapped;
	uint32_t n, most;  /* call sites */
	uint32_t mask;     /* slots less 1 */
	uint32_t *slots;   /* by hash: number of the call site; 0: free */
	struct site *site; /* the first is unused */
};

static struct site *
site_at(const struct sites *sites, uint32_t i)
{
	umem_assert(i != 0 && i <= sites->n);
	return &sites->site[i];
}

/* Returns an empty table for at most that many call sites, or NULL. */
static struct sites *
sites_create(uint32_t most)
{
	size_t nslots = 1, bytes;
	struct sites *sites;

	while (nslots < 2 * (size_t)most + 1)
		nslots *= 2;
	bytes = align_up(sizeof(*sites) + (most + 1) * sizeof(struct site) +
			     nslots * sizeof(*sites->slots),
	    os_page_size());
	sites = os_map(bytes);
	if (sites == NULL)
		return NULL;
	sites->mapped = bytes;
	sites->most = most;
	sites->mask = (uint32_t)nslots - 1;
	sites->site = (void *)(sites + 1);
	sites->slots = (void *)(sites->site + most + 1);
	return sites;
}

static void
sites_delete(struct sites *sites)
{
	if (sites == NULL)
		return;
	for (uint32_t i = 1; i <= sites->n; i++)
		sample_stack_drop(sites->site[i].stack);
	os_unmap(sites, sites->mapped);
}

/*
 * Returns the call site with this stack, of which a record keeps a reference
 * meanwhile; a new one has no samples.  No stack is stored twice, so equal
 * stacks have one address.
 */
static struct site *
sites_find(struct sites *sites, struct sample_stack *stack)
{
	uint32_t slot = (uint32_t)stack->hash & sites->mask;
	struct site *site;

	for (; sites->slots[slot] != 0; slot = (slot + 1) & sites->mask) {
		site = site_at(sites, sites->slots[slot]);
		if (site->stack == stack)
			return site;
	}
	umem_assert(sites->n < sites->most);
	sites->slots[slot] = ++sites->n;
	site = site_at(sites, sites->n);
	sample_stack_hold(stack);
	site->stack = stack;
	return site;
}

/* Adds a sample to its call site; for sample_each(). */
static void
sites_add(const struct sample *s, void *arg)
{
	struct sites *sites = arg;
	struct site *site = sites_find(sites, s->stack);
	uint64_t size = load_relaxed(&s->size);
	double blocks = 1;

	/* With a mean of 1, every block is a sample. */
	if (s->counted != 0 && s->mean > 1)
		blocks = (double)sample_weight(s->counted, s->mean) /
			 (double)s->counted;
	site->blocks += blocks;
	site->bytes += blocks * (double)size;
	if (site->nsamples == 0 || s->time > site->newest)
		site->newest = s->time;
	if (site->nsamples == 0 || s->time < site->oldest)
		site->oldest = s->time;
	site->nsamples++;
}

/* Returns the call site with the most bytes that is not printed, or NULL. */
static struct site *
sites_largest(const struct sites *sites)
{
	struct site *largest = NULL;

	for (uint32_t i = 1; i <= sites->n; i++) {
		struct site *site = site_at(sites, i);

		if (!site->is_printed &&
		    (largest == NULL || site->bytes > largest->bytes))
			largest = site;
	}
	return largest;
}

static void
text_add_frame(struct text *text, struct modules *modules, uintptr_t pc)
{
	const char *name = NULL;
	uintptr_t in_file;

	/* A call at the end of a module returns behind it. */
	if (modules != NULL)
		name = modules_find(modules, pc - 1, &in_file);
	if (name != NULL)
		text_line(text, "\t%s+%p\n", name, (void *)(in_file + 1));
	else
		text_line(text, "\t%p\n", (void *)pc);
}

static uint64_t
age_seconds(uint64_t now, uint64_t time)
{
	return now > time ? (now - time) / 1000000000 : 0;
}

static void
text_add_site(struct text *text, struct modules *modules,
    const struct site *site, uint64_t now)
{
	struct message line = {.n = 0};

	text_pad_number(&line, (uint64_t)site->bytes, 12);
	text_pad_number(&line, (uint64_t)(site->blocks + 0.5), 13);
	text_pad_number(&line, site->nsamples, 8);
	text_pad_number(&line, age_seconds(now, site->newest), 11);
	text_pad_number(&line, age_seconds(now, site->oldest), 11);
	message_text(&line, "\n");
	text_add(text, &line);
	if (site->stack->depth == 0)
		text_line(text, "\t?\n");
	for (unsigned i = 0; i < site->stack->depth; i++)
		text_add_frame(text, modules, site->stack->pc[i]);
}

static void
text_add_rest(struct text *text, const struct sites *sites)
{
	double bytes = 0, blocks = 0;
	size_t nsites = 0, nsamples = 0;

	for (uint32_t i = 1; i <= sites->n; i++) {
		const struct site *site = site_at(sites, i);

		if (site->is_printed)
			continue;
		bytes += site->bytes;
		blocks += site->blocks;
		nsamples += site->nsamples;
		nsites++;
	}
	if (nsites != 0)
		text_line(text,
		    "%zu more call sites: about %lu bytes in %lu blocks, "
		    "%zu samples\n",
		    nsites, (uint64_t)bytes, (uint64_t)(blocks + 0.5),
		    nsamples);
}

/* Appends a module; for modules_each_used(). */
static void
text_add_module(const struct module_used *m, void *text)
{
	text_line(text, "module %s: %s, linked at %p, build ID %s\n", m->name,
	    m->path, (void *)m->linked_at,
	    m->id[0] != '\0' ? m->id : "not known");
}

static void
text_add_sites(struct text *text, struct sites *sites)
{
	struct modules *modules = modules_create();
	uint64_t now = os_exact_ns();
	struct site *site;

	text_line(text, " about bytes about blocks samples newest (s) "
			"oldest (s)\n");
	for (int i = 0; i < SITES_SHOWN; i++) {
		site = sites_largest(sites);
		if (site == NULL)
			break;
		site->is_printed = true;
		text_add_site(text, modules, site, now);
	}
	text_add_rest(text, sites);
	if (modules != NULL)
		modules_each_used(modules, text_add_module, text);
	else
		text_line(text, "the modules cannot be read; the addresses are "
				"those in the process\n");
	modules_delete(modules);
}

static void
text_add_counts(struct text *text, const struct sample_totals *counts)
{
	size_t mean = load_relaxed(&sampling.mean);

	text_line(text, "samples: %lu so far, %lu not kept; ", counts->ntaken,
	    counts->nlost);
	if (mean != 0)
		text_line(text, "one in about %zu bytes\n", mean);
	else if (sampling.is_allowed)
		text_line(text, "sampling is off\n");
	else
		text_line(text, "none while every block is checked\n");
}

struct text *
sample_text_create(void)
{
	struct sample_totals counts = sample_totals_read();
	struct sites *sites = sites_create(counts.nrecords);
	uint32_t nshown =
	    counts.nrecords < SITES_SHOWN ? counts.nrecords : SITES_SHOWN;
	struct text *text = NULL;

	if (sites != NULL)
		text = text_create(
		    ROW_BYTES * 4 + MODULES_BYTES +
		    nshown * (ROW_BYTES + SAMPLE_FRAMES * FRAME_BYTES));
	if (text != NULL) {
		text_add_counts(text, &counts);
		sample_each(counts.nrecords, sites_add, sites);
		if (sites->n != 0)
			text_add_sites(text, sites);
		text_begin_end(text);
		if (text->ncut != 0)
			text_line(text, "%zu lines more\n", text->ncut);
		text_line(text, "end of samples\n");
	}
	sites_delete(sites);
	return text;
}
