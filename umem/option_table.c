/*
 * option_table.c - the table of all options that the environment sets
 *
 * This file is the only place that knows an option's name, type, limits and
 * initial value.  options.c parses the environment by this table, and
 * option_report.c writes it for the user.  The tests compare it with the manual
 * pages and with the variables.
 *
 * A new option is one entry here and one paragraph in umem_options(7) or
 * umem_debug(3).  The variables themselves belong to the modules that use them.
 * Entries are in alphabetical order, except that "default" comes before the
 * words that it stands for, so that reports use the shorter word.
 */
#include <assert.h>

#include "umem/option_table.h"

#include "magazine/magazine.h"
#include "umem/base/size_class.h"
#include "umem/cache/cache.h"
#include "umem/debug/debug.h"
#include "umem/debug/log.h"
#include "umem/malloc/alloc.h"
#include "umem/malloc/nofail.h"
#include "umem/malloc/sample.h"
#include "umem/rcu/defer.h"
#include "umem/upkeep/update.h"
#include "umem/upkeep/update_thread.h"
#include "vmem/huge.h"
#include "vmem/panic.h"
#include "vmem/vmem.h"

struct options options;

const char option_variable_names[OPTION_VARIABLES][16] = {
    [OPTION_OPTIONS] = "UMEM_OPTIONS",
    [OPTION_DEBUG] = "UMEM_DEBUG",
    [OPTION_LOGGING] = "UMEM_LOGGING",
};

static const struct option_word fit_words[] = {{"instant", 0},
    {"best", VM_BESTFIT}, {"first", VM_FIRSTFIT}, {"next", VM_NEXTFIT}, {}};

static const struct option_word backend_words[] = {
    {"sbrk", 0}, {"mmap", 0}, {}};

static const struct option_word huge_words[] = {
    {"auto", true}, {"no", false}, {}};

static const struct option_word message_words[] = {
    {"safe", false}, {"any", true}, {}};

static const struct option_word mode_words[] = {
    {"rseq", RSEQ_LIBC}, {"own", RSEQ_OWN}, {"locked", RSEQ_NONE}, {}};

static const struct option_word sample_words[] = {
    {"default", UMEM_SAMPLE_DEFAULT}, {}};

static const struct option_word thread_words[] = {
    {"yes", THREAD_YES}, {"no", THREAD_NO}, {"auto", THREAD_AUTO}, {}};

static const struct option_word zero_words[] = {{"null", 0}, {"block", 1}, {}};

static bool
clear_sizes(size_t unused)
{
	(void)unused;
	size_class_clear();
	return true;
}

#define TARGET(variable) .target = &(variable), .target_bytes = sizeof(variable)

const struct option option_table[] = {
    {
	.name = "allocator",
	.type = OPTION_WORD,
	.words = fit_words,
	TARGET(options.policy),
	.help = "how the heap selects a free range",
    },
    {
	.name = "backend",
	.type = OPTION_WORD,
	.words = backend_words,
	.wrong = "must be backend=sbrk or backend=mmap",
	.help = "accepted without effect",
    },
    {
	.name = "checked",
	.type = OPTION_FLAG,
	.implied = true,
	TARGET(cache_checked),
	.help = "report each free of a block that is not allocated",
    },
    {
	.name = "concurrency",
	.type = OPTION_COUNT,
	.minimum = 1,
	.maximum = UINT32_MAX,
	.wrong = "not a number of CPUs",
	TARGET(options.concurrency),
	.initial_text = "all",
	.help = "number of CPUs that get magazines",
    },
    {
	.name = "confined",
	.type = OPTION_FLAG,
	.implied = true,
	TARGET(options.confined),
	.help = "make only the system calls that libc's malloc makes",
    },
    {
	.name = "depot_bytes",
	.type = OPTION_SIZE,
	.maximum = GIB,
	TARGET(magazine_depot_most),
	.initial = 16 * MIB,
	.help = "maximum bytes of free objects of one size in the depot",
    },
    {
	.name = "depot_shards",
	.type = OPTION_COUNT,
	.minimum = 1,
	.maximum = MAGAZINE_SHARDS_MOST,
	.wrong = "not from 1 to 1024",
	TARGET(magazine_depot_shards),
	.initial_text = "one for every 8 CPUs",
	.help = "number of shards of each depot",
    },
    {
	.name = "hardened",
	.type = OPTION_FLAG,
	.implied = true,
	TARGET(debug.hardened),
	.help = "detect misuse of memory in production",
    },
    {
	.name = "help",
	.type = OPTION_FLAG,
	.implied = true,
	TARGET(options.help),
	.help = "write this list at the start of the process",
    },
    {
	.name = "huge_pages",
	.type = OPTION_WORD,
	.words = huge_words,
	TARGET(huge_is_allowed),
	.initial = true,
	.help = "whether a heap uses huge pages when it grows",
    },
    {
	.name = "magazine_bytes",
	.type = OPTION_SIZE,
	.minimum = KIB,
	.maximum = GIB,
	TARGET(magazine_bytes_most),
	.initial = 64 * KIB,
	.help = "maximum bytes of objects in a magazine",
    },
    {
	.name = "max_contention",
	.type = OPTION_COUNT,
	.maximum = UINT32_MAX,
	.is_clamped = true,
	TARGET(magazine_max_contention),
	.initial = 2,
	.help = "contended acquisitions above which magazines grow",
    },
    {
	.name = "messages",
	.type = OPTION_WORD,
	.words = message_words,
	TARGET(message_anywhere),
	.help = "where the library may write messages",
    },
    {
	.name = "mode",
	.type = OPTION_WORD,
	.words = mode_words,
	TARGET(options.mode),
	.initial = RSEQ_LIBC,
	.help = "how the per-CPU magazines are protected",
    },
    {
	.name = "nomagazines",
	.type = OPTION_FLAG,
	.implied = false,
	TARGET(cache_use_magazines),
	.initial = true,
	.help = "disable the magazines of all caches",
    },
    {
	.name = "perthread_cache",
	.type = OPTION_SIZE,
	.maximum = SIZE_MAX,
	.help = "accepted without effect",
    },
    {
	.name = "rcu_budget",
	.type = OPTION_SIZE,
	.minimum = 64 * KIB,
	.maximum = 1024 * GIB,
	TARGET(defer_budget),
	.initial = 64 * MIB,
	.help = "maximum memory that waits for a grace period",
    },
    {
	.name = "rcu_delay",
	.type = OPTION_MILLISECONDS,
	.minimum = 1,
	.maximum = 10000,
	.wrong = "not from 1 to 10000 milliseconds",
	TARGET(defer_delay_ns),
	.initial = 10 * 1000000,
	.help = "time before a freed object starts to wait for a grace period",
    },
    {
	.name = "reap_interval",
	.type = OPTION_SECONDS,
	.minimum = 1,
	.maximum = 1000000,
	.wrong = "not from 1 to 1000000 seconds",
	TARGET(update_interval_ns),
	.initial = 250000000,
	.initial_text = "0.25",
	.help = "minimum time between two releases of unused memory",
    },
    {
	.name = "sample",
	.type = OPTION_SIZE,
	.value_is_optional = true,
	.words = sample_words,
	.maximum = SIZE_MAX,
	.implied = UMEM_SAMPLE_DEFAULT,
	TARGET(sample_wanted),
	.initial_text = "off",
	.help = "record one allocation in about this many bytes",
    },
    {
	.name = "sbrk_minalloc",
	.type = OPTION_SIZE,
	.maximum = SIZE_MAX,
	.help = "accepted without effect",
    },
    {
	.name = "sbrk_pagesize",
	.type = OPTION_SIZE,
	.maximum = SIZE_MAX,
	.help = "accepted without effect",
    },
    {
	.name = "size_add",
	.type = OPTION_SIZE,
	.maximum = SIZE_MAX,
	.wrong = "not a multiple of 16 up to 8m, or too many sizes",
	.apply = size_class_add,
	.help = "add a size class",
    },
    {
	.name = "size_clear",
	.type = OPTION_FLAG,
	.implied = true,
	TARGET(options.sizes_cleared),
	.apply = clear_sizes,
	.help = "remove all size classes but the largest",
    },
    {
	.name = "size_remove",
	.type = OPTION_SIZE,
	.maximum = SIZE_MAX,
	.wrong = "no such size, or the largest",
	.apply = size_class_remove,
	.help = "remove a size class",
    },
    {
	.name = "thread",
	.type = OPTION_WORD,
	.words = thread_words,
	TARGET(update_thread_wanted),
	.initial = THREAD_AUTO,
	.help = "whether the library may start an upkeep thread",
    },
    {
	.name = "verbose",
	.type = OPTION_FLAG,
	.implied = true,
	TARGET(options.verbose),
	.help = "write the mode and the changed options at the start",
    },
    {
	.name = "zero_size",
	.type = OPTION_WORD,
	.words = zero_words,
	TARGET(alloc_zero_bytes),
	.help = "the result of umem_alloc(0)",
    },

    {
	.name = "default",
	.variable = OPTION_DEBUG,
	.type = OPTION_FLAG,
	.checks = UMF_AUDIT | UMF_CONTENTS | UMF_DEADBEEF | UMF_REDZONE,
	.help = "audit,contents,guards",
    },
    {
	.name = "allverbose",
	.variable = OPTION_DEBUG,
	.type = OPTION_FLAG,
	.help = "accepted without effect",
    },
    {
	.name = "audit",
	.variable = OPTION_DEBUG,
	.type = OPTION_COUNT,
	.value_is_optional = true,
	.maximum = AUDIT_FRAMES_MAX,
	.is_clamped = true,
	.checks = UMF_AUDIT | UMF_REDZONE,
	.implied = OPTION_UNCHANGED,
	TARGET(debug.nframes),
	.initial = AUDIT_FRAMES_DEFAULT,
	.help = "record thread, time and return addresses for each buffer",
    },
    {
	.name = "checknull",
	.variable = OPTION_DEBUG,
	.type = OPTION_FLAG,
	.implied = true,
	TARGET(debug.checknull),
	.help = "abort when an allocation would return NULL",
    },
    {
	.name = "contents",
	.variable = OPTION_DEBUG,
	.type = OPTION_SIZE,
	.value_is_optional = true,
	.maximum = SIZE_MAX,
	.checks = UMF_CONTENTS,
	.implied = CONTENTS_DEFAULT,
	TARGET(debug.contents_bytes),
	.initial = CONTENTS_DEFAULT,
	.help = "keep these first bytes of each freed buffer",
    },
    {
	.name = "firewall",
	.variable = OPTION_DEBUG,
	.type = OPTION_SIZE,
	.maximum = SIZE_MAX,
	.checks = UMF_FIREWALL,
	.help = "put each object of this size or more on its own pages",
    },
    {
	.name = "guards",
	.variable = OPTION_DEBUG,
	.type = OPTION_FLAG,
	.checks = UMF_DEADBEEF | UMF_REDZONE,
	.help = "fill and check free buffers, and check their redzones",
    },
    {
	.name = "lite",
	.variable = OPTION_DEBUG,
	.type = OPTION_FLAG,
	.checks = UMF_LITE,
	.help = "a cheaper subset of guards",
    },
    {
	.name = "maxverify",
	.variable = OPTION_DEBUG,
	.type = OPTION_SIZE,
	.maximum = SIZE_MAX,
	TARGET(debug.verify_max),
	.initial = SIZE_MAX,
	.initial_text = "the whole buffer",
	.help = "fill and check at most the first bytes of a buffer",
    },
    {
	.name = "mtbf",
	.variable = OPTION_DEBUG,
	.type = OPTION_COUNT,
	.maximum = UINT32_MAX,
	.is_clamped = true,
	TARGET(mtbf_interval),
	.initial_text = "off",
	.help = "make about one request in this many fail",
    },
    {
	.name = "noabort",
	.variable = OPTION_DEBUG,
	.type = OPTION_FLAG,
	.implied = true,
	TARGET(debug.noabort),
	.help = "continue the program after a report",
    },
    {
	.name = "nosignal",
	.variable = OPTION_DEBUG,
	.type = OPTION_FLAG,
	.checks = UMF_AUDIT | UMF_CHECKSIGNAL,
	.help = "report allocations made from a signal handler",
    },
    {
	.name = "random",
	.variable = OPTION_DEBUG,
	.type = OPTION_FLAG,
	.checks = UMF_RANDOMIZE,
	.help = "debug each cache with a random set of checks",
    },
    {
	.name = "rcu_writes",
	.variable = OPTION_DEBUG,
	.type = OPTION_FLAG,
	.checks = UMF_RCU_WRITES,
	.help = "with guards: buffers that wait for readers may be written to",
    },
    {
	.name = "verbose",
	.variable = OPTION_DEBUG,
	.type = OPTION_FLAG,
	.help = "accepted without effect",
    },

    {
	.name = "contents",
	.variable = OPTION_LOGGING,
	.type = OPTION_SIZE,
	.value_is_optional = true,
	.maximum = LOG_BYTES_MOST,
	.implied = LOG_BYTES_DEFAULT,
	TARGET(log_bytes_wanted[LOG_CONTENTS]),
	.initial_text = "off",
	.help = "bytes for a log of the contents of freed buffers",
    },
    {
	.name = "fail",
	.variable = OPTION_LOGGING,
	.type = OPTION_SIZE,
	.value_is_optional = true,
	.maximum = LOG_BYTES_MOST,
	.implied = LOG_BYTES_DEFAULT,
	TARGET(log_bytes_wanted[LOG_FAIL]),
	.initial_text = "off",
	.help = "bytes for a log of allocations that failed",
    },
    {
	.name = "slab",
	.variable = OPTION_LOGGING,
	.type = OPTION_SIZE,
	.value_is_optional = true,
	.maximum = LOG_BYTES_MOST,
	.implied = LOG_BYTES_DEFAULT,
	TARGET(log_bytes_wanted[LOG_SLAB]),
	.initial_text = "off",
	.help = "bytes for a log of slabs created for debugged caches",
    },
    {
	.name = "transaction",
	.variable = OPTION_LOGGING,
	.type = OPTION_SIZE,
	.value_is_optional = true,
	.maximum = LOG_BYTES_MOST,
	.implied = LOG_BYTES_DEFAULT,
	TARGET(log_bytes_wanted[LOG_TRANSACTION]),
	.initial_text = "off",
	.help = "bytes for a log of allocations and frees",
    },
};

const unsigned option_table_length = array_size(option_table);

static_assert(sizeof(bool) == 1 && sizeof(unsigned) == 4 && sizeof(size_t) == 8,
    "the sizes of targets that the functions below access");

/* Nanoseconds in the unit of a duration; 1 for other types. */
static uint64_t
option_scale(const struct option *option)
{
	return option->type == OPTION_SECONDS        ? 1000000000
	       : option->type == OPTION_MILLISECONDS ? 1000000
						     : 1;
}

/* The target as it is stored, in nanoseconds if it is a duration. */
static uint64_t
option_stored(const struct option *option)
{
	umem_assert(option->target != NULL);
	switch (option->target_bytes) {
	case 1:
		return *(const bool *)option->target;
	case 4:
		return *(const uint32_t *)option->target;
	default:
		umem_assert(option->target_bytes == 8);
		return *(const uint64_t *)option->target;
	}
}

uint64_t
option_value(const struct option *option)
{
	return option_stored(option) / option_scale(option);
}

uint64_t
option_initial(const struct option *option)
{
	return option->initial / option_scale(option);
}

bool
option_is_initial(const struct option *option)
{
	return option_stored(option) == option->initial;
}

void
option_store(const struct option *option, uint64_t value)
{
	uint64_t stored = value * option_scale(option);

	umem_assert(option->target != NULL);
	umem_assert(stored / option_scale(option) == value);
	switch (option->target_bytes) {
	case 1:
		umem_assert(stored <= 1);
		*(bool *)option->target = stored != 0;
		break;
	case 4:
		umem_assert(stored <= UINT32_MAX);
		*(uint32_t *)option->target = (uint32_t)stored;
		break;
	default:
		umem_assert(option->target_bytes == 8);
		*(uint64_t *)option->target = stored;
	}
}
