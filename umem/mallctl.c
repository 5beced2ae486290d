/*
 * mallctl.c - jemalloc's mallctl(), for programs that ask it for figures
 *
 * Not in libumem.  Programs that are built for jemalloc print its figures of
 * memory and ask it to release some: Redis, for example.  This library answers
 * with its own figures, of the names that such programs use; other names give
 * ENOENT, as in a jemalloc that is built without them.
 *
 * All memory is in arena 0.  Programs may create arenas and caches of threads,
 * because some end if they cannot; they get numbers, which allocx.c ignores, so
 * such an arena stays empty.  The bins are the size classes up to SIZE_SMALL.
 *
 * A MIB has the index of the name in names[], then the numbers that stand for
 * each '#', at the places where jemalloc has them.
 *
 * Source: jemalloc(3).
 */
#include <errno.h>
#include <string.h>

#include "umem/base/ready.h"
#include "umem/base/size_class.h"
#include "umem/profile/sample.h"
#include "umem/stats/stats.h"
#include "umem/stats/stats_text.h"
#include "umem/upkeep/update.h"
#include "vmem/os.h"

/* No header of the C library has these functions. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define VERSION    "5.3.0-umem"
#define ALL_ARENAS 4096 /* MALLCTL_ARENAS_ALL */
#define NPARTS     6    /* words of a name, at most */

/* Bytes of the types of values. */
#define NONE 0
#define BOOL sizeof(bool)
#define UINT sizeof(unsigned)
#define WORD sizeof(uint64_t)

/* The values of the names; some names stand for an action (name_act()). */
struct values {
	uint64_t zero, one;
	uint64_t trims, creates, dumps; /* actions */
	uint64_t page, is_profiled, version, narenas, nbins;
	uint64_t bin; /* class of the next ones */
	uint64_t bin_bytes, bin_chunks, bin_live, bin_slabs;
	uint64_t allocated, active, large, mapped, metadata, retained, small;
	uint64_t active_pages;
};

#define VALUE(member) offsetof(struct values, member)

static const struct name {
	char text[40]; /* '#' stands for a number */
	uint8_t bytes;
	uint8_t value; /* offset in struct values */
	bool may_write;
} names[] = {{"arena.#.decay", NONE, VALUE(trims), false},
    {"arena.#.purge", NONE, VALUE(trims), false},
    {"arenas.bin.#.nregs", UINT, VALUE(bin_chunks), false},
    {"arenas.bin.#.size", WORD, VALUE(bin_bytes), false},
    {"arenas.create", UINT, VALUE(creates), false},
    {"arenas.narenas", UINT, VALUE(narenas), false},
    {"arenas.nbins", UINT, VALUE(nbins), false},
    {"arenas.page", WORD, VALUE(page), false},
    {"background_thread", BOOL, VALUE(one), true},
    {"epoch", WORD, VALUE(one), true},
    {"opt.prof", BOOL, VALUE(is_profiled), false},
    {"prof.active", BOOL, VALUE(is_profiled), true},
    {"prof.dump", WORD, VALUE(dumps), true},
    {"stats.active", WORD, VALUE(active), false},
    {"stats.allocated", WORD, VALUE(allocated), false},
    {"stats.arenas.#.bins.#.curregs", WORD, VALUE(bin_live), false},
    {"stats.arenas.#.bins.#.curslabs", WORD, VALUE(bin_slabs), false},
    {"stats.arenas.#.large.allocated", WORD, VALUE(large), false},
    {"stats.arenas.#.pactive", WORD, VALUE(active_pages), false},
    {"stats.arenas.#.pmuzzy", WORD, VALUE(zero), false},
    {"stats.arenas.#.small.allocated", WORD, VALUE(small), false},
    {"stats.mapped", WORD, VALUE(mapped), false},
    {"stats.metadata", WORD, VALUE(metadata), false},
    {"stats.resident", WORD, VALUE(mapped), false},
    {"stats.retained", WORD, VALUE(retained), false},
    {"tcache.create", UINT, VALUE(creates), false},
    {"tcache.destroy", UINT, VALUE(zero), true},
    {"thread.tcache.flush", NONE, VALUE(zero), false},
    {"version", WORD, VALUE(version), false}};

static unsigned ncreated; /* [a] numbers of arenas and caches given out */

static void
read_bin(const struct stats_cache *cache, void *arg)
{
	struct values *v = arg;

	if (cache->class % NODE_CLASSES != v->bin || v->bin == 0)
		return;
	v->bin_live += cache->nlive;
	v->bin_slabs += cache->nslabs;
	if (cache->nslabs != 0)
		v->bin_chunks = cache->nchunks / cache->nslabs;
}

/* Reads the figures of arena 0. */
static void
read_arena(struct values *v)
{
	size_t page = os_page_size();
	struct umem_stats s;

	stats_read(&s);
	v->allocated = s.live_bytes + s.sampled_bytes;
	v->active = s.heap_bytes - s.dirty_bytes;
	v->active_pages = v->active / page;
	v->large = s.large_bytes + s.sampled_bytes;
	v->small = s.live_bytes - s.large_bytes;
	v->mapped = s.mapped_bytes;
	v->metadata = s.own_bytes;
	if (s.committed_bytes > s.heap_bytes)
		v->retained = s.committed_bytes - s.heap_bytes;
	stats_each_cache(read_bin, v);
}

/*
 * Reads the values for a name with these numbers; returns false if it has the
 * number of a bin that does not exist.
 */
static bool
values_read(const struct name *name, const size_t *mib, struct values *v)
{
	/* Only stats.arenas begins so. */
	bool is_of_arena = name->text[6] == 'a' && name->text[7] == 'r';
	size_t bin = is_of_arena ? mib[4] : mib[2];

	*v = (struct values){.one = 1,
	    .page = os_page_size(),
	    .is_profiled = sample_is_on(),
	    .version = (uintptr_t)VERSION,
	    .narenas = load_relaxed(&ncreated) + 1,
	    .nbins = size_class_small(SIZE_SMALL)};
	if (name->value > VALUE(bin) && name->value <= VALUE(bin_slabs)) {
		if (bin >= v->nbins)
			return false;
		v->bin = bin + 1;
		v->bin_bytes = size_classes.bytes[v->bin];
	}
	/* The members from bin on are figures; reading them takes 0.1 ms. */
	if (name->value > VALUE(bin) &&
	    (!is_of_arena || mib[2] == 0 || mib[2] == ALL_ARENAS))
		read_arena(v);
	return true;
}

/* Stores the lowest bytes of a value. */
static void
value_store(void *to, size_t bytes, uint64_t value)
{
	bool is_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;

	memcpy(
	    to, (char *)&value + (is_big ? sizeof(value) - bytes : 0), bytes);
}

static int
dump_profile(const char *path)
{
	int fd = path == NULL || *path == '\0' ? -1 : message_open(path);
	int error;

	if (fd < 0)
		return EFAULT;
	error = umem_dump(fd, UMEM_DUMP_STATS) == 0 ? 0 : errno;
	os_close(fd);
	return error;
}

/* Does the action of a name, beside its value. */
static int
name_act(const struct name *name, struct values *v, const void *in)
{
	const char *path;
	bool on;

	if (name->value == VALUE(trims)) {
		update_trim();
	} else if (name->value == VALUE(creates)) {
		v->creates = add_relaxed(&ncreated, 1);
	} else if (name->value == VALUE(dumps) && in != NULL) {
		memcpy(&path, in, sizeof(path));
		return dump_profile(path);
	} else if (name->value == VALUE(is_profiled) && in != NULL) {
		memcpy(&on, in, sizeof(on));
		if (on != sample_is_on() && umem_sample(on ? MIB : 0) != 0)
			return errno;
	}
	return 0;
}

/*
 * Compares a name with the text of a caller, and stores the number of its
 * words, and the numbers among them.
 */
static bool
matches(const char *name, const char *text, size_t *mib, size_t *nmib)
{
	size_t part = 0;

	for (; *name != '\0'; name++) {
		if (*name != '#') {
			if (*text++ != *name)
				return false;
			part += *name == '.';
			continue;
		}
		if (*text < '0' || *text > '9')
			return false;
		for (mib[part] = 0; *text >= '0' && *text <= '9'; text++)
			mib[part] = mib[part] * 10 + (size_t)(*text - '0');
	}
	*nmib = part + 1;
	return *text == '\0';
}

static int
control(const size_t *mib, void *out, size_t *outbytes, const void *in,
    size_t inbytes)
{
	const struct name *name = &names[mib[0]];
	struct values values;
	int error;

	if (!umem_ready())
		return EAGAIN;
	if (!values_read(name, mib, &values))
		return ENOENT;
	if (in != NULL && !name->may_write)
		return EPERM;
	if ((in != NULL && inbytes != name->bytes) ||
	    (out != NULL && (outbytes == NULL || *outbytes != name->bytes)))
		return EINVAL;
	error = name_act(name, &values, in);
	if (error == 0 && out != NULL)
		value_store(out, name->bytes,
		    *(uint64_t *)(void *)((char *)&values + name->value));
	return error;
}

public int
mallctlnametomib(const char *name, size_t *mib, size_t *nmib)
{
	size_t all[NPARTS], n;

	for (size_t i = 0; i < array_size(names); i++) {
		memset(all, 0, sizeof(all));
		if (!matches(names[i].text, name, all, &n))
			continue;
		all[0] = i;
		if (n < *nmib)
			*nmib = n;
		memcpy(mib, all, *nmib * sizeof(*mib));
		return 0;
	}
	return ENOENT;
}

public int
mallctlbymib(const size_t *mib, size_t nmib, void *out, size_t *outbytes,
    void *in, size_t inbytes)
{
	int saved = errno, error;
	size_t all[NPARTS] = {0};

	if (nmib == 0 || nmib > NPARTS || mib[0] >= array_size(names))
		return ENOENT;
	memcpy(all, mib, nmib * sizeof(*mib));
	error = control(all, out, outbytes, in, inbytes);
	errno = saved;
	return error;
}

public int
mallctl(const char *name, void *out, size_t *outbytes, void *in, size_t inbytes)
{
	size_t mib[NPARTS], n = NPARTS;

	return mallctlnametomib(name, mib, &n) != 0
		   ? ENOENT
		   : mallctlbymib(mib, n, out, outbytes, in, inbytes);
}

/* The text is that of umem_metrics(). */
public void
malloc_stats_print(
    void (*write)(void *arg, const char *text), void *arg, const char *options)
{
	struct text *text = umem_ready() ? stats_text_create() : NULL;

	(void)options;
	if (text == NULL)
		return;
	if (write != NULL)
		write(arg, text->bytes);
	else
		message_write_standard(text->bytes, text->n);
	text_delete(text);
}
