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

/*
 * A row of the table: the word, its type, the number of its variable, a text
 * for the user, and other members.
 */
#define OPTION(word, kind, number, text, ...)                                  \
	{.name = (word),                                                       \
	    .type = OPTION_##kind,                                             \
	    .target = TARGET_##number,                                         \
	    .help = (text),                                                    \
	    __VA_ARGS__}
#define DEBUG_OPTION(word, kind, number, text, ...)                            \
	OPTION(word, kind, number, text, .variable = OPTION_DEBUG, __VA_ARGS__)
#define LOG_OPTION(word, number, text)                                         \
	OPTION(word, SIZE, number, text, .variable = OPTION_LOGGING,           \
	    .value_is_optional = true, .maximum = LOG_BYTES_MAX,               \
	    .implied = LOG_BYTES_DEFAULT, .initial_text = "off")

const struct option option_table[] = {
    OPTION("allocator", WORD, POLICY, "how the heap selects a free range",
	.words = WORDS_FIT),
    OPTION("concurrency", COUNT, CONCURRENCY,
	"number of CPUs that get magazines", .minimum = 1,
	.maximum = UINT32_MAX, .initial_text = "all"),
    OPTION("confined", FLAG, CONFINED,
	"make only the system calls that libc's malloc makes"),
    OPTION("depot_bytes", SIZE, MAGAZINE_DEPOT_MAX,
	"maximum bytes of one size in a depot, for every 16 CPUs",
	.maximum = GIB, .is_live = true, .initial = 16 * MIB),
    OPTION("depot_shards", COUNT, MAGAZINE_DEPOT_SHARDS,
	"number of shards of each depot", .minimum = 1,
	.maximum = MAGAZINE_SHARDS_MAX, .initial_text = "one for every 4 CPUs"),
    OPTION("hard_limit", SIZE, HEAP_LIMITS_HARD,
	"memory of the heap above which requests fail", .takes_share = true,
	.minimum = MIB, .maximum = SIZE_MAX, .is_live = true,
	.initial_text = "none"),
    OPTION("hardened", FLAG, DEBUG_HARDENED,
	"detect misuse of memory in production"),
    OPTION("help", FLAG, HELP, "write this list at the start of the process"),
    OPTION("huge_pages", WORD, HUGE_USE,
	"which growth of the heap uses huge pages", .words = WORDS_HUGE,
	.is_live = true, .initial = HUGE_AUTO),
    OPTION("log", PATH, MESSAGE_LOG, "file for all messages; %p is the process",
	.initial_text = "standard error"),
    OPTION("magazine_bytes", SIZE, MAGAZINE_BYTES_MAX,
	"unit of the memory in magazines", .minimum = KIB, .maximum = GIB,
	.initial = 64 * KIB),
    OPTION("mode", WORD, MODE, "how the per-CPU magazines are protected",
	.words = WORDS_MODE, .initial = RSEQ_LIBC),
    OPTION("nomagazines", FLAG, CACHE_USE_MAGAZINES,
	"disable the magazines of all caches", .initial = true),
    OPTION("rcu_budget", SIZE, DEFER_BUDGET,
	"maximum memory that waits for a grace period", .minimum = 64 * KIB,
	.maximum = 1024 * GIB, .is_live = true, .initial = 64 * MIB),
    OPTION("rcu_delay", MILLISECONDS, DEFER_DELAY_NS,
	"time before a freed object starts to wait for a grace period",
	.minimum = 1, .maximum = 10000, .is_live = true, .initial = 10000000),
    OPTION("reap_interval", SECONDS, UPDATE_INTERVAL_NS,
	"minimum time between two releases of unused memory", .minimum = 1,
	.maximum = 1000000, .is_live = true, .initial = 250000000,
	.initial_text = "0.25"),
    OPTION("sample", SIZE, SAMPLE_WANTED,
	"record one allocation in about this many bytes",
	.value_is_optional = true, .words = WORDS_SAMPLE, .maximum = SIZE_MAX,
	.implied = UMEM_SAMPLE_DEFAULT, .is_live = true, .initial_text = "off"),
    OPTION("soft_limit", SIZE, HEAP_LIMITS_SOFT,
	"memory of the heap above which unused memory is released",
	.takes_share = true, .minimum = MIB, .maximum = SIZE_MAX,
	.is_live = true, .initial_text = "none"),
    OPTION("stats", PATH, STATS_PATH,
	"file for statistics at exit; %p is the process",
	.initial_text = "none"),
    OPTION("thread", WORD, UPDATE_THREAD_WANTED,
	"whether the library may start an upkeep thread", .words = WORDS_THREAD,
	.initial = THREAD_AUTO),
    OPTION("verbose", FLAG, VERBOSE,
	"write the mode and the changed options at the start"),
    OPTION("zero_size", WORD, ALLOC_ZERO_BYTES, "the result of umem_alloc(0)",
	.words = WORDS_ZERO),

    DEBUG_OPTION("default", FLAG, NONE, "audit,contents,guards",
	.checks = UMF_AUDIT | UMF_CONTENTS | UMF_DEADBEEF | UMF_REDZONE),
    DEBUG_OPTION("audit", COUNT, DEBUG_NFRAMES,
	"record thread, time and return addresses for each buffer",
	.value_is_optional = true, .maximum = AUDIT_FRAMES_MAX,
	.is_clamped = true, .checks = UMF_AUDIT | UMF_REDZONE,
	.implied = AUDIT_FRAMES_DEFAULT, .initial = AUDIT_FRAMES_DEFAULT),
    DEBUG_OPTION("checknull", FLAG, DEBUG_CHECKNULL,
	"abort when an allocation would return NULL", .is_live = true),
    DEBUG_OPTION("contents", SIZE, DEBUG_CONTENTS_BYTES,
	"keep these first bytes of each freed buffer",
	.value_is_optional = true, .maximum = SIZE_MAX, .checks = UMF_CONTENTS,
	.implied = CONTENTS_DEFAULT, .initial = CONTENTS_DEFAULT),
    DEBUG_OPTION("firewall", SIZE, NONE,
	"put each object of this size or more on its own pages",
	.maximum = SIZE_MAX, .checks = UMF_FIREWALL),
    DEBUG_OPTION("guards", FLAG, NONE,
	"fill and check free buffers, and check their redzones",
	.checks = UMF_DEADBEEF | UMF_REDZONE),
    DEBUG_OPTION("maxverify", SIZE, DEBUG_VERIFY_MAX,
	"fill and check at most the first bytes of a buffer",
	.maximum = SIZE_MAX, .initial = SIZE_MAX,
	.initial_text = "the whole buffer"),
    DEBUG_OPTION("mtbf", COUNT, MTBF_INTERVAL,
	"make about one request in this many fail", .maximum = UINT32_MAX,
	.is_clamped = true, .initial_text = "off"),
    DEBUG_OPTION("noabort", FLAG, DEBUG_NOABORT,
	"continue the program after a report", .is_live = true),
    DEBUG_OPTION("nosignal", FLAG, NONE,
	"report allocations made from a signal handler",
	.checks = UMF_AUDIT | UMF_CHECKSIGNAL),
    DEBUG_OPTION("rcu_writes", FLAG, NONE,
	"with guards: buffers that wait for readers may be written to",
	.checks = UMF_RCU_WRITES),

    LOG_OPTION("contents", LOG_CONTENTS,
	"bytes for a log of the contents of freed buffers"),
    LOG_OPTION("fail", LOG_FAIL, "bytes for a log of allocations that failed"),
    LOG_OPTION("slab", LOG_SLAB,
	"bytes for a log of slabs created for debugged caches"),
    LOG_OPTION("transaction", LOG_TRANSACTION,
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
	__asm__ volatile(                                                      \
	    ".pushsection .rodata.option_targets\n\t"                          \
	    ".org option_targets + 16 * " ASM_NUMBER "0\n"                     \
	    "0:\t.quad " #base " + " ASM_NUMBER "1 - 0b, " ASM_NUMBER "2\n\t"  \
	    ".popsection"                                                      \
	    :                                                                  \
	    : "i"(TARGET_##id), "i"((char *)&(base member) - (char *)&(base)), \
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

const char *
option_parse(const struct option *option, const char *text, uint64_t *value)
{
	umem_assert(option->type != OPTION_FLAG && option->type != OPTION_PATH);
	if (option_parse_word(option, text, value))
		return NULL;
	if (option->type == OPTION_WORD)
		return "not recognized";
	if (!option->takes_share || !option_parse_share(text, value))
		switch (
		    number_parse(text, option->type == OPTION_SIZE, value)) {
		case NUMBER_MALFORMED:
			return option->takes_share
				   ? "neither a size nor a share"
				   : "not a number";
		case NUMBER_OVERFLOWED:
			return "overflowed";
		case NUMBER_OK:
			break;
		}
	if (*value > option->maximum && option->is_clamped)
		*value = option->maximum;
	return *value >= option->minimum && *value <= option->maximum
		   ? NULL
		   : "too small or too large";
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
	const char *target = option_target(option);

	umem_assert(option->type != OPTION_PATH || target != NULL);
	if (option->type == OPTION_PATH)
		return *target == '\0';
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

	umem_assert(option->type == OPTION_PATH && target != NULL);
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
