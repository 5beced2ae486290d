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

#include "umem/described.h"
#include "umem/base/cgroup.h"
#include "umem/base/number.h"
#include "umem/option_table.h"

#include "magazine/magazine.h"
#include "umem/base/size_class.h"
#include "umem/cache/cache.h"
#include "umem/debug/debug.h"
#include "umem/debug/log.h"
#include "umem/malloc/alloc.h"
#include "umem/malloc/nofail.h"
#include "umem/profile/sample.h"
#include "umem/rcu/defer.h"
#include "umem/upkeep/update.h"
#include "umem/upkeep/update_thread.h"
#include "vmem/describe.h"
#include "vmem/heap.h"
#include "vmem/huge.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/string.h"
#include "vmem/vmem.h"

struct options options;
char stats_path[MESSAGE_PATH_BYTES]; /* read at each start */

const char option_variable_names[OPTION_VARIABLES][16] = {
    [OPTION_OPTIONS] = "UMEM_OPTIONS",
    [OPTION_DEBUG] = "UMEM_DEBUG",
    [OPTION_LOGGING] = "UMEM_LOGGING",
};

/*
 * The table contains no address, so that the loader relocates nothing in it,
 * and a process that sets no option touches none of its pages.  An option names
 * its variable, its words and its function by the numbers below.  The
 * variables are known to option_targets alone.
 */
#define OPTION_TARGETS(T)                                                      \
	T(ALLOC_ZERO_BYTES, alloc_zero_bytes, )                                \
	T(CACHE_USE_MAGAZINES, cache_use_magazines, )                          \
	T(CONCURRENCY, options, .concurrency)                                  \
	T(CONFINED, options, .confined)                                        \
	T(DEBUG_CHECKNULL, debug, .checknull)                                  \
	T(DEBUG_CONTENTS_BYTES, debug, .contents_bytes)                        \
	T(DEBUG_HARDENED, debug, .hardened)                                    \
	T(DEBUG_NFRAMES, debug, .nframes)                                      \
	T(DEBUG_NOABORT, debug, .noabort)                                      \
	T(DEBUG_VERIFY_MAX, debug, .verify_max)                                \
	T(DEFER_BUDGET, defer_budget, )                                        \
	T(DEFER_DELAY_NS, defer_delay_ns, )                                    \
	T(HEAP_LIMITS_HARD, heap_limits, .hard)                                \
	T(HEAP_LIMITS_SOFT, heap_limits, .soft)                                \
	T(HELP, options, .help)                                                \
	T(HUGE_USE, huge_use, )                                                \
	T(LOG_CONTENTS, log_bytes_wanted, [LOG_CONTENTS])                      \
	T(LOG_FAIL, log_bytes_wanted, [LOG_FAIL])                              \
	T(LOG_SLAB, log_bytes_wanted, [LOG_SLAB])                              \
	T(LOG_TRANSACTION, log_bytes_wanted, [LOG_TRANSACTION])                \
	T(MAGAZINE_BYTES_MAX, magazine_bytes_most, )                           \
	T(MAGAZINE_DEPOT_MAX, magazine_depot_most, )                           \
	T(MAGAZINE_DEPOT_SHARDS, magazine_depot_shards, )                      \
	T(MESSAGE_LOG, message_log, )                                          \
	T(MODE, options, .mode)                                                \
	T(MTBF_INTERVAL, mtbf_interval, )                                      \
	T(POLICY, options, .policy)                                            \
	T(SAMPLE_WANTED, sample_wanted, )                                      \
	T(STATS_PATH, stats_path, )                                            \
	T(UPDATE_INTERVAL_NS, update_interval_ns, )                            \
	T(UPDATE_THREAD_WANTED, update_thread_wanted, )                        \
	T(VERBOSE, options, .verbose)

#define TARGET_NUMBER(id, base, member) TARGET_##id,
enum {
	TARGET_NONE,
	OPTION_TARGETS(TARGET_NUMBER) TARGETS
};

enum {
	WORDS_NONE,
	WORDS_FIT,
	WORDS_HUGE,
	WORDS_MODE,
	WORDS_SAMPLE,
	WORDS_THREAD,
	WORDS_ZERO
};

static const struct option_list {
	struct option_word word[5];
} option_word_lists[] = {
    [WORDS_FIT] = {{{"instant", 0}, {"best", VM_BESTFIT},
	{"first", VM_FIRSTFIT}, {"next", VM_NEXTFIT}}},
    [WORDS_HUGE] = {{{"auto", HUGE_AUTO}, {"no", HUGE_NO},
	{"always", HUGE_ALWAYS}}},
    [WORDS_MODE] = {{{"rseq", RSEQ_LIBC}, {"own", RSEQ_OWN},
	{"locked", RSEQ_NONE}}},
    [WORDS_SAMPLE] = {{{"default", UMEM_SAMPLE_DEFAULT}}},
    [WORDS_THREAD] = {{{"yes", THREAD_YES}, {"no", THREAD_NO},
	{"auto", THREAD_AUTO}}},
    [WORDS_ZERO] = {{{"null", 0}, {"block", 1}}},
};

/* A word of UMEM_LOGGING: the size of a log. */
#define LOG_OPTION(word, number, text)                                         \
	{.name = (word),                                                       \
	    .variable = OPTION_LOGGING,                                        \
	    .type = OPTION_SIZE,                                               \
	    .value_is_optional = true,                                         \
	    .maximum = LOG_BYTES_MAX,                                          \
	    .implied = LOG_BYTES_DEFAULT,                                      \
	    .target = (number),                                                \
	    .initial_text = "off",                                             \
	    .help = (text)}

const struct option option_table[] = {
    {
	.name = "allocator",
	.type = OPTION_WORD,
	.words = WORDS_FIT,
	.target = TARGET_POLICY,
	.help = "how the heap selects a free range",
    },
    {
	.name = "concurrency",
	.type = OPTION_COUNT,
	.minimum = 1,
	.maximum = UINT32_MAX,
	.target = TARGET_CONCURRENCY,
	.initial_text = "all",
	.help = "number of CPUs that get magazines",
    },
    {
	.name = "confined",
	.type = OPTION_FLAG,
	.target = TARGET_CONFINED,
	.help = "make only the system calls that libc's malloc makes",
    },
    {
	.name = "depot_bytes",
	.type = OPTION_SIZE,
	.maximum = GIB,
	.is_live = true,
	.target = TARGET_MAGAZINE_DEPOT_MAX,
	.initial = 16 * MIB,
	.help = "maximum bytes of free objects of one size in the depot",
    },
    {
	.name = "depot_shards",
	.type = OPTION_COUNT,
	.minimum = 1,
	.maximum = MAGAZINE_SHARDS_MAX,
	.target = TARGET_MAGAZINE_DEPOT_SHARDS,
	.initial_text = "one for every 8 CPUs",
	.help = "number of shards of each depot",
    },
    {
	.name = "hard_limit",
	.type = OPTION_SIZE,
	.takes_share = true,
	.minimum = MIB,
	.maximum = SIZE_MAX,
	.is_live = true,
	.target = TARGET_HEAP_LIMITS_HARD,
	.initial_text = "none",
	.help = "memory of the heap above which requests fail",
    },
    {
	.name = "hardened",
	.type = OPTION_FLAG,
	.target = TARGET_DEBUG_HARDENED,
	.help = "detect misuse of memory in production",
    },
    {
	.name = "help",
	.type = OPTION_FLAG,
	.target = TARGET_HELP,
	.help = "write this list at the start of the process",
    },
    {
	.name = "huge_pages",
	.type = OPTION_WORD,
	.words = WORDS_HUGE,
	.is_live = true,
	.target = TARGET_HUGE_USE,
	.initial = HUGE_AUTO,
	.help = "which growth of the heap uses huge pages",
    },
    {
	.name = "log",
	.type = OPTION_PATH,
	.target = TARGET_MESSAGE_LOG,
	.initial_text = "standard error",
	.help = "file for all messages; %p is the process",
    },
    {
	.name = "magazine_bytes",
	.type = OPTION_SIZE,
	.minimum = KIB,
	.maximum = GIB,
	.target = TARGET_MAGAZINE_BYTES_MAX,
	.initial = 64 * KIB,
	.help = "unit of the memory in magazines",
    },
    {
	.name = "mode",
	.type = OPTION_WORD,
	.words = WORDS_MODE,
	.target = TARGET_MODE,
	.initial = RSEQ_LIBC,
	.help = "how the per-CPU magazines are protected",
    },
    {
	.name = "nomagazines",
	.type = OPTION_FLAG,
	.target = TARGET_CACHE_USE_MAGAZINES,
	.initial = true,
	.help = "disable the magazines of all caches",
    },
    {
	.name = "rcu_budget",
	.type = OPTION_SIZE,
	.minimum = 64 * KIB,
	.maximum = 1024 * GIB,
	.is_live = true,
	.target = TARGET_DEFER_BUDGET,
	.initial = 64 * MIB,
	.help = "maximum memory that waits for a grace period",
    },
    {
	.name = "rcu_delay",
	.type = OPTION_MILLISECONDS,
	.minimum = 1,
	.maximum = 10000,
	.is_live = true,
	.target = TARGET_DEFER_DELAY_NS,
	.initial = 10000000,
	.help = "time before a freed object starts to wait for a grace period",
    },
    {
	.name = "reap_interval",
	.type = OPTION_SECONDS,
	.minimum = 1,
	.maximum = 1000000,
	.is_live = true,
	.target = TARGET_UPDATE_INTERVAL_NS,
	.initial = 250000000,
	.initial_text = "0.25",
	.help = "minimum time between two releases of unused memory",
    },
    {
	.name = "sample",
	.type = OPTION_SIZE,
	.value_is_optional = true,
	.words = WORDS_SAMPLE,
	.maximum = SIZE_MAX,
	.implied = UMEM_SAMPLE_DEFAULT,
	.is_live = true,
	.target = TARGET_SAMPLE_WANTED,
	.initial_text = "off",
	.help = "record one allocation in about this many bytes",
    },
    {
	.name = "soft_limit",
	.type = OPTION_SIZE,
	.takes_share = true,
	.minimum = MIB,
	.maximum = SIZE_MAX,
	.is_live = true,
	.target = TARGET_HEAP_LIMITS_SOFT,
	.initial_text = "none",
	.help = "memory of the heap above which unused memory is released",
    },
    {
	.name = "stats",
	.type = OPTION_PATH,
	.target = TARGET_STATS_PATH,
	.initial_text = "none",
	.help = "file for statistics at exit; %p is the process",
    },
    {
	.name = "thread",
	.type = OPTION_WORD,
	.words = WORDS_THREAD,
	.target = TARGET_UPDATE_THREAD_WANTED,
	.initial = THREAD_AUTO,
	.help = "whether the library may start an upkeep thread",
    },
    {
	.name = "verbose",
	.type = OPTION_FLAG,
	.target = TARGET_VERBOSE,
	.help = "write the mode and the changed options at the start",
    },
    {
	.name = "zero_size",
	.type = OPTION_WORD,
	.words = WORDS_ZERO,
	.target = TARGET_ALLOC_ZERO_BYTES,
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
	.name = "audit",
	.variable = OPTION_DEBUG,
	.type = OPTION_COUNT,
	.value_is_optional = true,
	.maximum = AUDIT_FRAMES_MAX,
	.is_clamped = true,
	.checks = UMF_AUDIT | UMF_REDZONE,
	.implied = AUDIT_FRAMES_DEFAULT,
	.target = TARGET_DEBUG_NFRAMES,
	.initial = AUDIT_FRAMES_DEFAULT,
	.help = "record thread, time and return addresses for each buffer",
    },
    {
	.name = "checknull",
	.variable = OPTION_DEBUG,
	.type = OPTION_FLAG,
	.is_live = true,
	.target = TARGET_DEBUG_CHECKNULL,
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
	.target = TARGET_DEBUG_CONTENTS_BYTES,
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
	.name = "maxverify",
	.variable = OPTION_DEBUG,
	.type = OPTION_SIZE,
	.maximum = SIZE_MAX,
	.target = TARGET_DEBUG_VERIFY_MAX,
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
	.target = TARGET_MTBF_INTERVAL,
	.initial_text = "off",
	.help = "make about one request in this many fail",
    },
    {
	.name = "noabort",
	.variable = OPTION_DEBUG,
	.type = OPTION_FLAG,
	.is_live = true,
	.target = TARGET_DEBUG_NOABORT,
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
	.name = "rcu_writes",
	.variable = OPTION_DEBUG,
	.type = OPTION_FLAG,
	.checks = UMF_RCU_WRITES,
	.help = "with guards: buffers that wait for readers may be written to",
    },

    LOG_OPTION("contents", TARGET_LOG_CONTENTS,
	"bytes for a log of the contents of freed buffers"),
    LOG_OPTION(
	"fail", TARGET_LOG_FAIL, "bytes for a log of allocations that failed"),
    LOG_OPTION("slab", TARGET_LOG_SLAB,
	"bytes for a log of slabs created for debugged caches"),
    LOG_OPTION("transaction", TARGET_LOG_TRANSACTION,
	"bytes for a log of allocations and frees"),
};

const unsigned option_table_length = array_size(option_table);

/*
 * The variable of each target, as the distance from this entry, and its bytes,
 * by number.  The assembler makes the entries; see vmem/describe.h.
 */
extern hidden const struct option_variable_at {
	int64_t distance;
	uint64_t bytes;
} option_targets[TARGETS];

#define TARGET_AT(id, base, member)                                            \
	__asm__ volatile(".pushsection .rodata.option_targets\n\t"             \
			 ".org option_targets + 16 * %c0\n"                    \
			 "0:\t.quad " #base " + %c1 - 0b, %c2\n\t"             \
			 ".popsection"                                         \
			 :                                                     \
			 : "i"(TARGET_##id),                                   \
			 "i"((char *)&(base member) - (char *)&(base)),        \
			 "i"(sizeof(base member)));

static __attribute__((used)) cold_path void
option_targets_define(void)
{
	__asm__ volatile(".pushsection .rodata.option_targets, \"a\"\n\t"
			 ".balign 16\n"
			 "option_targets:\n\t"
			 ".popsection");
	OPTION_TARGETS(TARGET_AT)
}

void *
option_target(const struct option *option)
{
	const struct option_variable_at *target =
	    &option_targets[option->target];

	umem_assert(option->target < TARGETS);
	return option->target == TARGET_NONE
		   ? NULL
		   : (char *)target + target->distance;
}

static size_t
option_target_bytes(const struct option *option)
{
	umem_assert(option->target < TARGETS);
	return option_targets[option->target].bytes;
}

const struct option_word *
option_words(const struct option *option)
{
	umem_assert(option->words < array_size(option_word_lists));
	return option_word_lists[option->words].word;
}

/* Parses a value that is one of the words of the option. */
static bool
option_parse_word(
    const struct option *option, const char *text, uint64_t *value)
{
	for (const struct option_word *word = option_words(option);
	     word->name[0] != '\0'; word++)
		if (string_is_equal(word->name, text)) {
			*value = word->value;
			return true;
		}
	return false;
}

/*
 * Parses a share of the cgroup's limit, which a confined process cannot read.
 */
static bool
option_parse_share(const char *text, uint64_t *value)
{
	return text[string_span(text, "%")] == '%' && !os_is_confined() &&
	       number_parse_share(text, cgroup_memory_limit(), value);
}

enum option_result
option_parse(const struct option *option, const char *text, uint64_t *value)
{
	umem_assert(option->type != OPTION_FLAG && option->type != OPTION_PATH);
	if (option_parse_word(option, text, value))
		return OPTION_OK;
	if (option->type == OPTION_WORD)
		return OPTION_NO_WORD;
	if (!option->takes_share || !option_parse_share(text, value))
		switch (
		    number_parse(text, option->type == OPTION_SIZE, value)) {
		case NUMBER_MALFORMED:
			return OPTION_NO_NUMBER;
		case NUMBER_OVERFLOWED:
			return OPTION_OVERFLOWED;
		case NUMBER_OK:
			break;
		}
	if (*value > option->maximum && option->is_clamped)
		*value = option->maximum;
	return *value >= option->minimum && *value <= option->maximum
		   ? OPTION_OK
		   : OPTION_OUT_OF_RANGE;
}

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
	const void *target = option_target(option);

	umem_assert(target != NULL);
	switch (option_target_bytes(option)) {
	case 1:
		return *(const bool *)target;
	case 4:
		return *(const uint32_t *)target;
	default:
		umem_assert(option_target_bytes(option) == 8);
		return *(const uint64_t *)target;
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
	if (option->type == OPTION_PATH)
		return *(const char *)option_target(option) == '\0';
	return option_stored(option) == option->initial;
}

/* Stores a value in nanoseconds if it is a duration. */
static void
option_store_scaled(const struct option *option, uint64_t stored)
{
	void *target = option_target(option);

	umem_assert(target != NULL);
	switch (option_target_bytes(option)) {
	case 1:
		umem_assert(stored <= 1);
		store_relaxed((bool *)target, stored != 0);
		break;
	case 4:
		umem_assert(stored <= UINT32_MAX);
		store_relaxed((uint32_t *)target, (uint32_t)stored);
		break;
	default:
		umem_assert(option_target_bytes(option) == 8);
		store_relaxed((uint64_t *)target, stored);
	}
}

void
option_store(const struct option *option, uint64_t value)
{
	uint64_t stored = value * option_scale(option);

	umem_assert(stored / option_scale(option) == value);
	option_store_scaled(option, stored);
}

void
option_reset(const struct option *option)
{
	option_store_scaled(option, option->initial);
}

bool
option_store_path(const struct option *option, const char *path)
{
	char *target = option_target(option), full[MESSAGE_PATH_BYTES];
	size_t n = 0, most = sizeof(full), bytes = strlen(path) + 1;

	umem_assert(option->type == OPTION_PATH);
	umem_assert(option_target_bytes(option) == most);
	if (path[0] != '/' && os_working_directory(full, most - 1)) {
		n = strlen(full);
		full[n++] = '/';
	}
	if (bytes > most - n)
		return false;
	memcpy(full + n, path, bytes);
	memcpy(target, full, n + bytes);
	return true;
}

DESCRIBE(DESCRIBED_OPTIONS);
