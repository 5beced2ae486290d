/*
 * options.c - the words of UMEM_OPTIONS, UMEM_DEBUG and UMEM_LOGGING
 *
 * Items are separated by commas, blanks around them are ignored, and an item is
 * a word or word=value.  An unknown word and a wrong value are ignored, each
 * with a message.  No other file reads the environment.  This file calls no
 * getenv(), because the first malloc may come before libc has set itself up.
 *
 * UMEM_DEBUG may have several parts, separated by semicolons.  A part that ends
 * in a colon and patterns of names applies to caches of these names, a part
 * without patterns to all other caches.
 *
 * Source: umem_debug(3MALLOC); messages of libumem's envvar.c.
 */
#include <elf.h>
#include <string.h>

#include "magazine/magazine.h"
#include "umem/malloc/alloc.h"
#include "umem/cache/cache.h"
#include "umem/debug/debug.h"
#include "umem/rcu/defer.h"
#include "umem/debug/log.h"
#include "umem/malloc/nofail.h"
#include "umem/options.h"
#include "umem/malloc/sample.h"
#include "umem/base/size_class.h"
#include "umem/upkeep/update.h"
#include "umem/upkeep/update_thread.h"
#include "vmem/heap.h"
#include "vmem/huge.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/vmem.h"

/* The three variables. */
#define OPTIONS "UMEM_OPTIONS"
#define DEBUG   "UMEM_DEBUG"
#define LOGGING "UMEM_LOGGING"

/* The longest item; libumem has the same limit. */
#define ITEM_MAX 511

struct word;

struct item {
	const char *variable;
	const struct word *words; /* the last has no name */
	char text[ITEM_MAX + 1];
	char *name;
	char *value; /* NULL: the item has no "=" */
	struct options *options;
	struct debug_choice *choice; /* if the variable is UMEM_DEBUG */
	bool tell;                   /* write messages */
};

/* A program may define these; they are called if the variable is not set. */
#pragma weak _umem_options_init
#pragma weak _umem_debug_init
#pragma weak _umem_logging_init

/*
 * The environment of libc after it has started; before that, the stack of the
 * process.
 */
extern char **__environ __attribute__((weak));
extern void *__libc_stack_end __attribute__((weak));

static void
tell(const struct item *item, const char *text)
{
	if (item->tell)
		say("%s: %s: %s", item->variable, item->name, text);
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

/*
 * Parses a decimal number, with a message if it is wrong.  Sets *rest to the
 * text behind the digits.
 */
static bool
number(const struct item *item, size_t *n, const char **rest)
{
	const char *at = item->value;

	*n = 0;
	if (*at < '0' || *at > '9') {
		tell(item, "not a number");
		return false;
	}
	for (; *at >= '0' && *at <= '9'; at++) {
		size_t digit = (size_t)(*at - '0');

		if (*n > (SIZE_MAX - digit) / 10) {
			tell(item, "overflowed");
			return false;
		}
		*n = *n * 10 + digit;
	}
	*rest = at;
	return true;
}

static bool
count_of(const struct item *item, size_t *n)
{
	const char *rest;

	if (!number(item, n, &rest))
		return false;
	if (*rest == '\0')
		return true;
	tell(item, "not a number");
	return false;
}

static bool
size_of(const struct item *item, size_t *n)
{
	static const char units[] = "kmgt";
	const char *rest, *unit;
	unsigned shift;

	if (!number(item, n, &rest))
		return false;
	if (*rest == '\0')
		return true;
	unit = strchr(units, *rest | 0x20);
	if (unit == NULL || rest[1] != '\0') {
		tell(item, "not a number");
		return false;
	}
	shift = (unsigned)(unit - units + 1) * 10;
	if (*n > SIZE_MAX >> shift) {
		tell(item, "overflowed");
		return false;
	}
	*n <<= shift;
	return true;
}

struct choice {
	const char *word;
	int value;
};

static bool
choose(const struct item *item, const struct choice *choice, int *value)
{
	for (; choice->word != NULL; choice++)
		if (strcmp(choice->word, item->value) == 0) {
			*value = choice->value;
			return true;
		}
	if (item->tell)
		say("%s: %s: '%s' not recognized", item->variable, item->name,
		    item->value);
	return false;
}

static void
set_mode(struct item *item)
{
	static const struct choice modes[] = {{"rseq", RSEQ_LIBC},
	    {"own", RSEQ_OWN}, {"locked", RSEQ_NONE}, {0, 0}};
	int value;

	if (choose(item, modes, &value))
		item->options->mode = (enum rseq_owner)value;
}

static void
set_thread(struct item *item)
{
	static const struct choice words[] = {{"auto", THREAD_AUTO},
	    {"yes", THREAD_YES}, {"no", THREAD_NO}, {0, 0}};
	int value;

	if (choose(item, words, &value))
		update_thread_wanted = (enum update_thread)value;
}

static void
set_allocator(struct item *item)
{
	static const struct choice words[] = {{"best", VM_BESTFIT},
	    {"first", VM_FIRSTFIT}, {"next", VM_NEXTFIT}, {"instant", 0},
	    {0, 0}};
	int value;

	if (choose(item, words, &value))
		item->options->policy = value;
}

static void
set_backend(struct item *item)
{
	if (strcmp(item->value, "sbrk") != 0 &&
	    strcmp(item->value, "mmap") != 0)
		tell(item, "must be backend=sbrk or backend=mmap");
}

static void
set_concurrency(struct item *item)
{
	size_t n;

	if (!count_of(item, &n))
		return;
	if (n == 0 || n > UINT32_MAX)
		tell(item, "not a number of CPUs");
	else
		item->options->concurrency = (unsigned)n;
}

static void
set_contention(struct item *item)
{
	size_t n;

	if (count_of(item, &n))
		magazine_max_contention =
		    n > UINT32_MAX ? UINT32_MAX : (unsigned)n;
}

/* Parses a size from least to most, with a message if it is wrong. */
static bool
size_between(struct item *item, size_t least, size_t most, size_t *n)
{
	if (!size_of(item, n))
		return false;
	if (*n >= least && *n <= most)
		return true;
	tell(item, "too small or too large");
	return false;
}

static void
set_magazine_bytes(struct item *item)
{
	size_t n;

	if (size_between(item, KIB, GIB, &n))
		magazine_bytes_most = n;
}

static void
set_depot_bytes(struct item *item)
{
	size_t n;

	if (size_between(item, 0, GIB, &n))
		magazine_depot_most = n;
}

static void
set_depot_shards(struct item *item)
{
	size_t n;

	if (!count_of(item, &n))
		return;
	if (n == 0 || n > MAGAZINE_SHARDS_MOST)
		tell(item, "not from 1 to 1024");
	else
		magazine_depot_shards = (unsigned)n;
}

static void
set_huge_pages(struct item *item)
{
	static const struct choice words[] = {
	    {"auto", true}, {"no", false}, {0, 0}};
	int value;

	if (choose(item, words, &value))
		huge_allow(value);
}

static void
set_messages(struct item *item)
{
	static const struct choice words[] = {
	    {"safe", false}, {"any", true}, {0, 0}};
	int value;

	if (choose(item, words, &value))
		message_anywhere = value;
}

static void
set_interval(struct item *item)
{
	size_t n;

	if (!count_of(item, &n))
		return;
	if (n == 0 || n > 1000000)
		tell(item, "not from 1 to 1000000 seconds");
	else
		update_interval_ns = n * 1000000000;
}

static void
set_rcu_budget(struct item *item)
{
	size_t n;

	if (size_between(item, 64 * KIB, 1024 * GIB, &n))
		defer_budget = n;
}

static void
set_rcu_delay(struct item *item)
{
	size_t n;

	if (!count_of(item, &n))
		return;
	if (n == 0 || n > 10000)
		tell(item, "not from 1 to 10000 milliseconds");
	else
		defer_delay_ns = n * 1000000;
}

static void
set_zero_size(struct item *item)
{
	static const struct choice words[] = {
	    {"null", 0}, {"block", 1}, {0, 0}};
	int value;

	if (choose(item, words, &value))
		alloc_zero_bytes = (size_t)value;
}

static void
set_nomagazines(struct item *item)
{
	(void)item;
	cache_use_magazines = false;
}

static void
set_checked(struct item *item)
{
	(void)item;
	cache_checked = true;
}

static void
set_hardened(struct item *item)
{
	(void)item;
	debug.hardened = debug.on = true;
}

static void
set_sample(struct item *item)
{
	if (item->value == NULL || strcmp(item->value, "default") == 0)
		sample_wanted = UMEM_SAMPLE_DEFAULT;
	else if (!size_of(item, &sample_wanted))
		sample_wanted = 0;
}

static void
set_confined(struct item *item)
{
	item->options->confined = true;
}

static void
set_verbose(struct item *item)
{
	item->options->verbose = true;
}

static void
add_size(struct item *item)
{
	size_t n;

	if (size_of(item, &n) && !size_class_add(n))
		tell(item, "not a multiple of 16 up to 8m, or too many sizes");
}

static void
remove_size(struct item *item)
{
	size_t n;

	if (size_of(item, &n) && !size_class_remove(n))
		tell(item, "no such size, or the largest");
}

static void
clear_sizes(struct item *item)
{
	(void)item;
	size_class_clear();
}

static void
check_size(struct item *item)
{
	size_t n;

	size_of(item, &n);
}

/* Functions for the words of UMEM_DEBUG. */

static void
set_flags(struct item *item, unsigned flags)
{
	item->choice->flags |= flags;
}

static void
set_audit(struct item *item)
{
	size_t n;

	set_flags(item, UMF_AUDIT | UMF_REDZONE);
	if (item->value != NULL && count_of(item, &n))
		debug.nframes =
		    n > AUDIT_FRAMES_MAX ? AUDIT_FRAMES_MAX : (unsigned)n;
}

static void
set_contents(struct item *item)
{
	size_t n = CONTENTS_DEFAULT;

	set_flags(item, UMF_CONTENTS);
	if (item->value == NULL || size_of(item, &n))
		debug.contents_bytes = n;
}

static void
set_guards(struct item *item)
{
	set_flags(item, UMF_DEADBEEF | UMF_REDZONE);
}

static void
set_default(struct item *item)
{
	set_flags(item, UMF_AUDIT | UMF_CONTENTS | UMF_DEADBEEF | UMF_REDZONE);
}

static void
set_nosignal(struct item *item)
{
	set_flags(item, UMF_AUDIT | UMF_CHECKSIGNAL);
}

static void
set_firewall(struct item *item)
{
	size_t n;

	if (!size_of(item, &n))
		return;
	set_flags(item, UMF_FIREWALL);
	item->choice->firewall_min = n;
}

static void
set_lite(struct item *item)
{
	set_flags(item, UMF_LITE);
}

static void
set_maxverify(struct item *item)
{
	size_t n;

	if (size_of(item, &n))
		debug.verify_max = n;
}

/* A word of libumem that has nothing to act on. */
static void
ignore(struct item *item)
{
	(void)item;
}

static void
set_noabort(struct item *item)
{
	(void)item;
	debug.noabort = true;
}

static void
set_mtbf(struct item *item)
{
	size_t n;

	if (!count_of(item, &n))
		return;
	debug.mtbf = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
	mtbf_interval = debug.mtbf;
}

static void
set_random(struct item *item)
{
	set_flags(item, UMF_RANDOMIZE);
}

static void
set_rcu_writes(struct item *item)
{
	set_flags(item, UMF_RCU_WRITES);
}

static void
set_checknull(struct item *item)
{
	(void)item;
	debug.checknull = true;
}

/* Functions for the words of UMEM_LOGGING. */

static void
set_log(struct item *item, enum log_kind kind)
{
	size_t n = LOG_BYTES_DEFAULT;

	if (item->value != NULL && !size_between(item, 0, LOG_BYTES_MOST, &n))
		return;
	log_bytes_wanted[kind] = n;
}

static void
set_transaction(struct item *item)
{
	set_log(item, LOG_TRANSACTION);
}

static void
set_log_contents(struct item *item)
{
	set_log(item, LOG_CONTENTS);
}

static void
set_fail(struct item *item)
{
	set_log(item, LOG_FAIL);
}

static void
set_slab(struct item *item)
{
	set_log(item, LOG_SLAB);
}

enum takes {
	NO_VALUE,
	VALUE,
	MAY_VALUE
};

struct word {
	const char *name;
	enum takes takes;
	void (*set)(struct item *item);
};

static const struct word option_words[] = {
    {"allocator", VALUE, set_allocator},
    {"backend", VALUE, set_backend},
    {"checked", NO_VALUE, set_checked},
    {"concurrency", VALUE, set_concurrency},
    {"confined", NO_VALUE, set_confined},
    {"depot_bytes", VALUE, set_depot_bytes},
    {"depot_shards", VALUE, set_depot_shards},
    {"hardened", NO_VALUE, set_hardened},
    {"huge_pages", VALUE, set_huge_pages},
    {"magazine_bytes", VALUE, set_magazine_bytes},
    {"max_contention", VALUE, set_contention},
    {"messages", VALUE, set_messages},
    {"mode", VALUE, set_mode},
    {"nomagazines", NO_VALUE, set_nomagazines},
    {"perthread_cache", VALUE, check_size},
    {"rcu_budget", VALUE, set_rcu_budget},
    {"rcu_delay", VALUE, set_rcu_delay},
    {"reap_interval", VALUE, set_interval},
    {"sample", MAY_VALUE, set_sample},
    {"sbrk_minalloc", VALUE, check_size},
    {"sbrk_pagesize", VALUE, check_size},
    {"size_add", VALUE, add_size},
    {"size_clear", NO_VALUE, clear_sizes},
    {"size_remove", VALUE, remove_size},
    {"thread", VALUE, set_thread},
    {"verbose", NO_VALUE, set_verbose},
    {"zero_size", VALUE, set_zero_size},
    {NULL, NO_VALUE, NULL},
};

static const struct word debug_words[] = {
    {"allverbose", NO_VALUE, ignore},
    {"audit", MAY_VALUE, set_audit},
    {"checknull", NO_VALUE, set_checknull},
    {"contents", MAY_VALUE, set_contents},
    {"default", NO_VALUE, set_default},
    {"firewall", VALUE, set_firewall},
    {"guards", NO_VALUE, set_guards},
    {"lite", NO_VALUE, set_lite},
    {"maxverify", VALUE, set_maxverify},
    {"mtbf", VALUE, set_mtbf},
    {"noabort", NO_VALUE, set_noabort},
    {"nosignal", NO_VALUE, set_nosignal},
    {"random", NO_VALUE, set_random},
    {"rcu_writes", NO_VALUE, set_rcu_writes},
    {"verbose", NO_VALUE, ignore},
    {NULL, NO_VALUE, NULL},
};

static const struct word logging_words[] = {
    {"contents", MAY_VALUE, set_log_contents},
    {"fail", MAY_VALUE, set_fail},
    {"slab", MAY_VALUE, set_slab},
    {"transaction", MAY_VALUE, set_transaction},
    {NULL, NO_VALUE, NULL},
};

static void
item_apply(struct item *item)
{
	for (const struct word *word = item->words; word->name != NULL;
	     word++) {
		if (strcmp(word->name, item->name) != 0)
			continue;
		if (word->takes == NO_VALUE && item->value != NULL)
			tell(item, "does not take a value. ignored");
		else if ((word->takes == VALUE || item->value != NULL) &&
			 (item->value == NULL || *item->value == '\0'))
			tell(item, "Required value missing");
		else
			word->set(item);
		return;
	}
	if (item->tell)
		say("%s: '%s' not recognized", item->variable, item->name);
}

/*
 * Copies [from, to) without the blanks at both ends.  Returns false if it is
 * too long.
 */
static bool
item_copy(struct item *item, const char *from, const char *to)
{
	size_t n;

	while (from < to && is_blank(*from))
		from++;
	while (to > from && is_blank(to[-1]))
		to--;
	n = (size_t)(to - from);
	item->name = item->text;
	item->value = NULL;
	memcpy(item->text, from, n > ITEM_MAX ? 20 : n);
	item->text[n > ITEM_MAX ? 20 : n] = '\0';
	if (n <= ITEM_MAX)
		return true;
	if (item->tell)
		say("%s: argument \"%s...\" too long", item->variable,
		    item->text);
	return false;
}

static void
item_split(struct item *item)
{
	char *equals = strchr(item->text, '=');

	if (equals == NULL)
		return;
	item->value = equals + 1;
	while (is_blank(*item->value))
		item->value++;
	while (equals > item->text && is_blank(equals[-1]))
		equals--;
	*equals = '\0';
}

/*
 * Applies the items of a text.  If only is not NULL, it applies only the items
 * equal to it.
 */
static void
pass(struct item *item, const char *text, const char *only)
{
	for (const char *at = text; *at != '\0';) {
		const char *end = at + strcspn(at, ",");

		if (item_copy(item, at, end) &&
		    (only == NULL || strcmp(item->text, only) == 0)) {
			item_split(item);
			if (*item->text != '\0')
				item_apply(item);
			else if (item->tell)
				say("%s: empty option", item->variable);
		}
		at = *end == ',' ? end + 1 : end;
	}
}

void
options_parse(struct options *options, const char *text)
{
	struct item item = {
	    .variable = OPTIONS, .words = option_words, .options = options};

	/* "messages=any" also applies to messages about the words before it. */
	pass(&item, text, "messages=any");
	item.tell = true;
	pass(&item, text, NULL);
}

/*
 * Applies one part of UMEM_DEBUG, "words" or "words:patterns", from at to end.
 */
static void
debug_part(const char *at, const char *end)
{
	char words[2 * ITEM_MAX];
	struct item item = {
	    .variable = DEBUG, .words = debug_words, .tell = true};
	const char *colon = memchr(at, ':', (size_t)(end - at));
	size_t n = (size_t)((colon != NULL ? colon : end) - at);
	size_t npatterns = colon == NULL ? 0 : (size_t)(end - colon - 1);

	if (debug.nchoices == DEBUG_CHOICES || n >= sizeof(words) ||
	    npatterns >= sizeof(item.choice->patterns)) {
		say("%s: too long, or too many parts", DEBUG);
		return;
	}
	item.choice = &debug.choice[debug.nchoices++];
	memcpy(words, at, n);
	words[n] = '\0';
	if (colon != NULL)
		memcpy(item.choice->patterns, colon + 1, npatterns);
	pass(&item, words, NULL);
	debug.random |= (item.choice->flags & UMF_RANDOMIZE) != 0;
	debug.on |= (item.choice->flags & ~UMF_RCU_WRITES) != 0;
}

void
options_parse_debug(const char *text)
{
	if (debug.contents_bytes == 0)
		debug.contents_bytes = CONTENTS_DEFAULT;
	while (*text != '\0') {
		const char *end = text + strcspn(text, ";");

		debug_part(text, end);
		text = *end == ';' ? end + 1 : end;
	}
}

void
options_parse_logging(const char *text)
{
	struct item item = {
	    .variable = LOGGING, .words = logging_words, .tell = true};

	pass(&item, text, NULL);
	/* Contents can only be logged if they are kept. */
	for (unsigned i = 0;
	     log_bytes_wanted[LOG_CONTENTS] != 0 && i < debug.nchoices; i++)
		debug.choice[i].flags |= UMF_CONTENTS;
}

static char **
environment(void)
{
	char **at;

	if (&__environ != NULL && __environ != NULL)
		return __environ;
	if (&__libc_stack_end == NULL || __libc_stack_end == NULL)
		return NULL;
	/*
	 * The stack has the number of arguments, the arguments, a NULL, and
	 * then the variables.
	 */
	at = __libc_stack_end;
	return at + 1 + *(size_t *)__libc_stack_end + 1;
}

static const char *
variable(const char *name)
{
	size_t n = strlen(name);
	char **at = environment();

	for (; at != NULL && *at != NULL; at++)
		if (strncmp(*at, name, n) == 0 && (*at)[n] == '=')
			return *at + n + 1;
	return NULL;
}

bool
options_are_given(void)
{
	return _umem_options_init != NULL || _umem_debug_init != NULL ||
	       _umem_logging_init != NULL || variable(OPTIONS) != NULL ||
	       variable(DEBUG) != NULL || variable(LOGGING) != NULL;
}

/*
 * The text of the variable or, if that is not set, of the program's function.
 */
static const char *
text_of(const char *name, const char *(*init)(void))
{
	const char *text = variable(name);

	return text == NULL && init != NULL ? init() : text;
}

void
options_read(struct options *options)
{
	const char *text;

	*options = (struct options){.mode = RSEQ_LIBC};
	options->secure = os_auxv(AT_SECURE) != 0;
	if (options->secure)
		return;
	text = text_of(OPTIONS, _umem_options_init);
	if (text != NULL)
		options_parse(options, text);
	text = text_of(DEBUG, _umem_debug_init);
	if (text != NULL)
		options_parse_debug(text);
	text = text_of(LOGGING, _umem_logging_init);
	if (text != NULL)
		options_parse_logging(text);
}
