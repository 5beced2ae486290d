/*
 * test_options.c - every word of UMEM_OPTIONS, and malformed words
 *
 * Words change globals, so each test is a separate process.
 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "magazine/magazine.h"
#include "tests/unit/child.h"
#include "umem/cache/cache.h"
#include "umem/base/cgroup.h"
#include "umem/rcu/defer.h"
#include "umem/base/checker.h"
#include "umem/debug/debug.h"
#include "umem/option_table.h"
#include "umem/options.h"
#include "umem/base/size_class.h"
#include "umem/upkeep/update.h"
#include "umem/upkeep/update_thread.h"
#include "vmem/heap.h"
#include "vmem/os.h"
#include "vmem/vmem.h"

static char text[4096];

static void
parse_text(void)
{
	options_parse(text);
}

static void
parse(const char *words)
{
	options = (struct options){.mode = RSEQ_LIBC};
	options_parse(words);
}

/* Return the messages about the words, with the word "verbose" added. */
static const char *
said(const char *words)
{
	options = (struct options){.mode = RSEQ_LIBC};
	snprintf(text, sizeof(text), "%s,verbose", words);
	child_writes(parse_text);
	ck_assert(child_exited(0));
	return child_text;
}

static void
check_said(const char *words, const char *rest)
{
	char expected[1024];

	snprintf(expected, sizeof(expected), "%s%s%s",
	    rest[0] == '\0' ? "" : "umem: UMEM_OPTIONS: ", rest,
	    rest[0] == '\0' ? "" : "\n");
	ck_assert_str_eq(said(words), expected);
}

START_TEST(words_that_take_no_value)
{
	parse("nomagazines");
	ck_assert(!cache_use_magazines);
	parse("verbose");
	ck_assert(options.verbose);
}
END_TEST

START_TEST(each_word_with_a_value_sets_what_it_says)
{
	static const struct {
		const char *words;
		int policy;
	} fit[] = {{"allocator=best", VM_BESTFIT},
	    {"allocator=first", VM_FIRSTFIT}, {"allocator=next", VM_NEXTFIT},
	    {"allocator=instant", 0}};
	static const struct {
		const char *words;
		enum rseq_owner mode;
	} mode[] = {{"mode=locked", RSEQ_NONE}, {"mode=own", RSEQ_OWN},
	    {"mode=rseq", RSEQ_LIBC}};

	for (int i = 0; i < 4; i++) {
		parse(fit[i].words);
		ck_assert_int_eq(options.policy, fit[i].policy);
	}
	for (int i = 0; i < 3; i++) {
		parse(mode[i].words);
		ck_assert_int_eq(options.mode, mode[i].mode);
	}
	parse("concurrency=3");
	ck_assert_uint_eq(options.concurrency, 3);
	parse("concurrency=4294967295");
	ck_assert_uint_eq(options.concurrency, UINT32_MAX);
	parse("magazine_bytes=64k");
	ck_assert_uint_eq(magazine_bytes_most, 64 * KIB);
	parse("magazine_bytes=1023,magazine_bytes=2g,magazine_bytes=x");
	ck_assert_uint_eq(magazine_bytes_most, 64 * KIB);
	parse("rcu_budget=1m");
	ck_assert_uint_eq(defer_budget, MIB);
	parse("rcu_budget=63k,rcu_budget=2048t,rcu_budget=x");
	ck_assert_uint_eq(defer_budget, MIB);
	parse("rcu_delay=3");
	ck_assert_uint_eq(defer_delay_ns, 3000000);
	parse("rcu_delay=0,rcu_delay=10001,rcu_delay=1k");
	ck_assert_uint_eq(defer_delay_ns, 3000000);
	parse("depot_bytes=0");
	ck_assert_uint_eq(magazine_depot_most, 0);
	parse("depot_bytes=1g");
	ck_assert_uint_eq(magazine_depot_most, GIB);
	ck_assert_uint_eq(magazine_depot_shards, 0);
	parse("depot_shards=3");
	ck_assert_uint_eq(magazine_depot_shards, 3);
	parse("depot_shards=0,depot_shards=1025,depot_shards=x");
	ck_assert_uint_eq(magazine_depot_shards, 3);
	parse("depot_shards=1024");
	ck_assert_uint_eq(magazine_depot_shards, 1024);
	parse("reap_interval=5");
	ck_assert_uint_eq(update_interval_ns, 5000000000);
	parse("reap_interval=1000000");
	ck_assert_uint_eq(update_interval_ns, 1000000000000000);
	parse("thread=yes");
	ck_assert_int_eq(update_thread_wanted, THREAD_YES);
	parse("thread=no");
	ck_assert_int_eq(update_thread_wanted, THREAD_NO);
	parse("thread=auto");
	ck_assert_int_eq(update_thread_wanted, THREAD_AUTO);
}
END_TEST

START_TEST(what_is_right_is_not_mentioned)
{
	static const char *const right[] = {"soft_limit=5m", "soft_limit=5M",
	    "depot_bytes=1k", "depot_bytes=2K", "allocator=best",
	    "concurrency=1", "nomagazines", "sample=0", "sample=16777215t",
	    "sample=17179869183G", "sample=3T", "sample=18446744073709551615",
	    "verbose", "reap_interval=1", "  concurrency=1\t",
	    "concurrency = 1", "\n verbose"};

	for (unsigned i = 0; i < array_size(right); i++)
		check_said(right[i], "");
}
END_TEST

START_TEST(what_is_wrong_is_said_in_these_words)
{
	static const char *const wrong[][2] = {
	    {"nonsense", "'nonsense' not recognized"},
	    {"nonsense=5", "'nonsense' not recognized"},
	    {"Verbose", "'Verbose' not recognized; did you mean 'verbose'?"},
	    {"verbos", "'verbos' not recognized; did you mean 'verbose'?"},
	    {"verbosee", "'verbosee' not recognized; did you mean 'verbose'?"},
	    {"verbsoe=1", "'verbsoe' not recognized; did you mean 'verbose'?"},
	    {"verbzze", "'verbzze' not recognized; did you mean 'verbose'?"},
	    {"vrbzze", "'vrbzze' not recognized"},
	    {"deptoBytes=1",
		"'deptoBytes' not recognized; did you mean 'depot_bytes'?"},
	    {"depot-byte=1",
		"'depot-byte' not recognized; did you mean 'depot_bytes'?"},
	    {"x", "'x' not recognized"},
	    {"moed=own", "'moed' not recognized; did you mean 'mode'?"},
	    {"mod=own", "'mod' not recognized; did you mean 'mode'?"},
	    {"mood=own", "'mood' not recognized"},
	    {"guards", "'guards' not recognized; it is a word of UMEM_DEBUG"},
	    {"slab=1m", "'slab' not recognized; it is a word of UMEM_LOGGING"},
	    {"", "empty option"},
	    {"  ", "empty option"},
	    {"=5", "empty option"},
	    {" = 5", "empty option"},
	    {"concurrency=1,,nomagazines", "empty option"},
	    {"nomagazines=1", "nomagazines: does not take a value. ignored"},
	    {"verbose=", "verbose: does not take a value. ignored"},
	    {"verbose=1", "verbose: does not take a value. ignored"},
	    {"concurrency", "concurrency: Required value missing"},
	    {"concurrency=", "concurrency: Required value missing"},
	    {"concurrency= ", "concurrency: Required value missing"},
	    {"backend=sbrk", "'backend' not recognized"},
	    {"depot_bytes", "depot_bytes: Required value missing"},
	    {"concurrency=x", "concurrency: not a number"},
	    {"concurrency=-1", "concurrency: not a number"},
	    {"concurrency=+1", "concurrency: not a number"},
	    {"concurrency=1x", "concurrency: not a number"},
	    {"concurrency=1k", "concurrency: not a number"},
	    {"concurrency=0x10", "concurrency: not a number"},
	    {"concurrency=1 2", "concurrency: not a number"},
	    {"depot_bytes=16kk", "depot_bytes: not a number"},
	    {"depot_bytes=16q", "depot_bytes: not a number"},
	    {"depot_bytes=1.5k", "depot_bytes: not a number"},
	    {"depot_bytes=k", "depot_bytes: not a number"},
	    {"depot_bytes=16\xff", "depot_bytes: not a number"},
	    {"depot_bytes=16 k", "depot_bytes: not a number"},
	    {"concurrency=18446744073709551616", "concurrency: overflowed"},
	    {"concurrency=99999999999999999999999", "concurrency: overflowed"},
	    {"sample=18446744073709551615k", "sample: overflowed"},
	    {"sample=17179869184g", "sample: overflowed"},
	    {"sample=16777216T", "sample: overflowed"},
	    {"allocator=worst", "allocator: 'worst' not recognized"},
	    {"thread=perhaps", "thread: 'perhaps' not recognized"},
	    {"mode=fast", "mode: 'fast' not recognized"},
	    {"mode=lock", "mode: 'lock' not recognized; did you mean "
			  "'locked'?"},
	    {"allocator=fist", "allocator: 'fist' not recognized; did you mean "
			       "'first'?"},
	};

	for (unsigned i = 0; i < array_size(wrong); i++)
		check_said(wrong[i][0], wrong[i][1]);
}
END_TEST

START_TEST(values_out_of_range_change_nothing_and_are_told)
{
	static const char *const words[] = {"concurrency=0",
	    "concurrency=4294967296", "reap_interval=0",
	    "reap_interval=1000001", "depot_bytes=2g", "magazine_bytes=1"};

	for (unsigned i = 0; i < array_size(words); i++) {
		char name[32];
		uint64_t interval = update_interval_ns;
		unsigned n = size_classes.n;

		snprintf(name, sizeof(name),
		    "umem: UMEM_OPTIONS: %.*s: ", (int)strcspn(words[i], "="),
		    words[i]);
		ck_assert_ptr_eq(strstr(said(words[i]), name), child_text);
		parse(words[i]);
		size_class_start();
		ck_assert_uint_eq(options.concurrency, 0);
		ck_assert_uint_eq(update_interval_ns, interval);
		ck_assert_uint_eq(size_classes.n, n);
	}
}
END_TEST

static void
parse_as_it_is(void)
{
	options = (struct options){.mode = RSEQ_LIBC};
	options_parse(text);
}

START_TEST(what_is_wrong_is_said_without_verbose)
{
	static const char *const words[] = {"hardend", "concurrency=2,hardend",
	    "hardend,verbose", " hardend ,nomagazines",
	    "verbose,hardend,verbose"};

	for (unsigned i = 0; i < array_size(words); i++) {
		strcpy(text, words[i]);
		ck_assert_str_eq(child_writes(parse_as_it_is),
		    "umem: UMEM_OPTIONS: 'hardend' not recognized; did you "
		    "mean 'hardened'?\n");
		ck_assert(child_exited(0));
	}
}
END_TEST

START_TEST(a_wrong_item_does_not_stop_the_next)
{
	parse("nonsense,concurrency=x,,=,depot_bytes=q, concurrency=5 ,more");
	ck_assert_uint_eq(options.concurrency, 5);
	parse("concurrency=5,concurrency=6,");
	ck_assert_uint_eq(options.concurrency, 6);
	parse(" concurrency\t= 7 ");
	ck_assert_uint_eq(options.concurrency, 7);
	parse("");
	ck_assert_uint_eq(options.concurrency, 0);
}
END_TEST

START_TEST(an_item_has_511_bytes_at_most)
{
	char words[1100], expected[1200];

	memset(words, 'x', sizeof(words));
	words[511] = '\0';
	snprintf(expected, sizeof(expected), "'%s' not recognized", words);
	check_said(words, expected);
	words[511] = 'x';
	words[512] = '\0';
	check_said(words, "argument \"xxxxxxxxxxxxxxxxxxxx...\" too long");
	/* Trailing blanks do not count. */
	words[511] = ' ';
	check_said(words, expected);
	/*
	 * A value of the greatest length is accepted; one byte more is too
	 * long.
	 */
	memset(words, '0', sizeof(words));
	memcpy(words, "concurrency=", 12);
	memcpy(words + 510, "9", 2);
	parse(words);
	ck_assert_uint_eq(options.concurrency, 9);
	memcpy(words + 510, "009", 4);
	parse(words);
	ck_assert_uint_eq(options.concurrency, 0);
	check_said(words, "argument \"concurrency=00000000...\" too long");
	/* The word after one that is too long is still read. */
	strcpy(words + 600, "");
	memset(words, 'y', 600);
	strcat(words, ",concurrency=3");
	parse(words);
	ck_assert_uint_eq(options.concurrency, 3);
}
END_TEST

/* Random text is read to the end, and never ends the program. */
START_TEST(no_text_is_fatal)
{
	static const char bytes[] =
	    ",,,===  \tconcurrencysamplelogverbose0123456789kmgt\xff\x01-";
	char words[700];

	srand(11);
	/* These words cause many messages. */
	ck_assert_int_eq(dup2(open("/dev/null", O_WRONLY), 2), 2);
	for (int i = 0; i < 3000; i++) {
		int n = rand() % 699;

		for (int j = 0; j < n; j++)
			words[j] = bytes[(size_t)rand() % (sizeof(bytes) - 1)];
		words[n] = '\0';
		parse(words);
		options.verbose = false;
	}
	size_class_start();
	ck_assert_uint_ge(size_classes.n, 1);
}
END_TEST

START_TEST(the_variable_is_read_from_the_environment)
{
	static char *none[] = {NULL};
	char **kept = environ;

	setenv("UMEM_OPTIONS_", "concurrency=1", 1);
	setenv("XUMEM_OPTIONS", "concurrency=2", 1);
	setenv("UMEM_OPTIONS", "concurrency=3,allocator=next", 1);
	options_read();
	ck_assert_uint_eq(options.concurrency, 3);
	ck_assert_int_eq(options.policy, VM_NEXTFIT);
	ck_assert(!options.secure);
	unsetenv("UMEM_OPTIONS");
	options_read();
	ck_assert_uint_eq(options.concurrency, 0);
	setenv("UMEM_OPTIONS", "", 1);
	options_read();
	ck_assert_uint_eq(options.concurrency, 0);
	environ = none;
	options_read();
	ck_assert_int_eq(options.policy, 0);
	environ = NULL;
	options_read();
	environ = kept;
}
END_TEST

/*
 * Undoes what the start of this process has set: the mode that the environment
 * of a test run may ask for, and no magazines under a memory checker.
 */
static void
undo_start(void)
{
	options = (struct options){.mode = RSEQ_LIBC};
	if (checker_on)
		cache_use_magazines = true;
}

/* The initial values of the table are those that the modules define. */
START_TEST(each_variable_has_the_default_of_the_table)
{
	undo_start();
	for (unsigned i = 0; i < option_table_length; i++) {
		const struct option *option = &option_table[i];

		if (option_target(option) == NULL)
			continue;
		ck_assert_msg(option_is_initial(option), "%s", option->name);
	}
}
END_TEST

/* Of two options of one variable none has the other's name. */
START_TEST(names_are_unique_and_defaults_are_legal)
{
	for (unsigned i = 0; i < option_table_length; i++) {
		const struct option *option = &option_table[i];

		for (unsigned j = 0; j < i; j++)
			ck_assert(
			    option_table[j].variable != option->variable ||
			    strcmp(option_table[j].name, option->name));
		ck_assert_msg(option->help[0] != '\0', "%s", option->name);
		/* The compiler cuts a longer text off without a warning. */
		ck_assert_int_eq(option->name[sizeof(option->name) - 1], '\0');
		ck_assert_int_eq(option->help[sizeof(option->help) - 1], '\0');
		ck_assert_int_eq(
		    option->initial_text[sizeof(option->initial_text) - 1],
		    '\0');
		ck_assert((option->type == OPTION_WORD) <=
			  (option_words(option)->name[0] != '\0'));
		if (option_target(option) == NULL ||
		    option->type == OPTION_FLAG ||
		    option->type == OPTION_WORD ||
		    option->initial_text[0] != '\0')
			continue;
		ck_assert_uint_ge(option_initial(option), option->minimum);
		ck_assert_uint_le(option_initial(option), option->maximum);
	}
}
END_TEST

static const struct option *tested;

static void
parse_tested(void)
{
	static void (*const parsers[])(const char *) = {
	    [OPTION_OPTIONS] = options_parse,
	    [OPTION_DEBUG] = options_parse_debug,
	    [OPTION_LOGGING] = options_parse_logging};

	parsers[tested->variable](text);
}

/*
 * Parses "name" followed by a text, here and in a child.  Checks the message of
 * the child; complaint is "" if there must be none.
 */
static void
check_item(const char *rest, const char *complaint)
{
	char expected[1024];

	snprintf(text, sizeof(text), "%s%s", tested->name, rest);
	snprintf(expected, sizeof(expected), "umem: %s: %s: %s\n",
	    option_variable_names[tested->variable], tested->name, complaint);
	ck_assert_str_eq(
	    child_writes(parse_tested), complaint[0] == '\0' ? "" : expected);
	ck_assert(child_exited(0));
	parse_tested();
}

/* Parses "name=" and a number, and checks the message and the value. */
static void
check_number(uint64_t number, const char *complaint, uint64_t expected)
{
	char rest[32];

	snprintf(rest, sizeof(rest), "=%lu", (unsigned long)number);
	check_item(rest, complaint);
	if (option_target(tested) != NULL)
		ck_assert_uint_eq(option_value(tested), expected);
}

/* Parses a text that is wrong, which must change nothing. */
static void
check_wrong(const char *rest, const char *complaint)
{
	struct debug before = debug;
	uint64_t value =
	    option_target(tested) != NULL ? option_value(tested) : 0;

	check_item(rest, complaint);
	if (option_target(tested) != NULL)
		ck_assert_uint_eq(option_value(tested), value);
	ck_assert(before.on == debug.on);
	for (unsigned i = 0; i < debug.nchoices; i++)
		ck_assert_uint_eq(
		    debug.choice[i].flags, before.choice[i].flags);
	/* Each text is a part, and there are few parts. */
	debug.nchoices = before.nchoices;
}

static void
check_limits(void)
{
	const char *wrong = "too small or too large";
	uint64_t least = tested->minimum, most = tested->maximum;

	check_number(least, "", least);
	check_number(most, "", most);
	if (least > 0)
		check_number(least - 1, wrong, most);
	check_number(least, "", least);
	if (tested->is_clamped)
		check_number(most + 1, "", most);
	else if (most < UINT64_MAX)
		check_number(most + 1, wrong, least);
	else
		check_wrong("=18446744073709551616", "overflowed");
}

/* A part of UMEM_DEBUG with this word has all checks of the word. */
static void
check_checks(void)
{
	struct debug_choice *part = &debug.choice[0];

	debug.nchoices = 0;
	part->flags = 0;
	check_item(tested->type == OPTION_FLAG ? "" : "=64", "");
	ck_assert_uint_eq(part->flags, tested->checks);
	if ((tested->checks & UMF_FIREWALL) != 0)
		ck_assert_uint_eq(part->firewall_min, 64);
	debug.nchoices = 0;
	part->flags = 0;
}

static void
check_flag(void)
{
	check_wrong("=", "does not take a value. ignored");
	check_wrong("=1", "does not take a value. ignored");
	check_item("", "");
	if (option_target(tested) != NULL) {
		ck_assert_uint_eq(option_value(tested), option_implied(tested));
		ck_assert(!option_is_initial(tested));
	}
}

static void
check_words(void)
{
	char rest[32];

	for (const struct option_word *word = option_words(tested);
	     word->name[0] != '\0'; word++) {
		snprintf(rest, sizeof(rest), "=%s", word->name);
		check_item(rest, "");
		if (option_target(tested) != NULL)
			ck_assert_uint_eq(option_value(tested), word->value);
		debug.nchoices = 0;
	}
	if (tested->type == OPTION_WORD)
		check_wrong("=worst", "'worst' not recognized");
}

/* Texts that are no number for any option. */
static void
check_malformed(void)
{
	static const char *const texts[] = {"=x", "=-1", "=+1", "= 1 2", "=1x",
	    "=1kk", "=0x10", "=1.5", "=k", "=1 k", "=\xff"};

	for (unsigned i = 0; i < array_size(texts); i++)
		check_wrong(texts[i], tested->takes_share
					  ? "neither a size nor a share"
					  : "not a number");
	check_wrong("=99999999999999999999999", "overflowed");
	if (tested->type == OPTION_SIZE)
		check_wrong("=16777216t", "overflowed");
	else
		check_wrong("=1k", "not a number");
}

/* A relative path is stored as an absolute one. */
static void
check_path(void)
{
	const char *stored = option_target(tested);
	char rest[MESSAGE_PATH_BYTES + 2];

	memset(rest, 'x', sizeof(rest));
	/* No message can be written there. */
	memcpy(rest, "=/proc/none/", 12);
	rest[MESSAGE_PATH_BYTES] = '\0';
	check_item(rest, "");
	ck_assert_str_eq(stored, rest + 1);
	rest[MESSAGE_PATH_BYTES] = 'x';
	rest[MESSAGE_PATH_BYTES + 1] = '\0';
	check_item(rest, "too long");
	ck_assert_uint_eq(strlen(stored), MESSAGE_PATH_BYTES - 1);
	ck_assert_int_eq(chdir("/proc"), 0);
	check_item("=x.%p", "");
	ck_assert_str_eq(stored, "/proc/x.%p");
	rest[MESSAGE_PATH_BYTES] = '\0';
	rest[1] = 'x';
	check_item(rest, "too long");
	check_item("=", "Required value missing");
	check_item("", "Required value missing");
	ck_assert_str_eq(stored, "/proc/x.%p");
}

START_TEST(each_option_takes_its_limits_and_refuses_the_rest)
{
	tested = &option_table[_i];
	/* The parser writes its messages here, too. */
	ck_assert_int_eq(dup2(open("/dev/null", O_WRONLY), 2), 2);
	if (tested->type == OPTION_PATH) {
		check_path();
		return;
	}
	if (tested->checks != 0)
		check_checks();
	if (tested->type == OPTION_FLAG) {
		check_flag();
		return;
	}
	check_words();
	check_wrong("=", "Required value missing");
	if (!tested->value_is_optional)
		check_wrong("", "Required value missing");
	if (tested->type == OPTION_WORD)
		return;
	check_malformed();
	check_limits();
	if (tested->value_is_optional) {
		uint64_t value = option_value(tested);

		check_item("", "");
		ck_assert_uint_eq(option_value(tested),
		    tested->implied == tested->initial ? value
						       : tested->implied);
	}
}
END_TEST

static void
report_changes(void)
{
	size_class_start();
	option_report_changes();
}

START_TEST(the_report_has_the_options_that_differ_from_their_defaults)
{
	undo_start();
	ck_assert_str_eq(child_writes(report_changes), "");
	options_parse("depot_bytes=1000,depot_bytes=4m,depot_shards=3,"
		      "rcu_delay=10,mode=locked,sample=1536,"
		      "nomagazines,reap_interval=2,verbose,"
		      "allocator=instant");
	options_parse_debug("guards,audit=20,mtbf=9;contents,audit,guards,"
			    "firewall=64k:umem_*,a");
	options_parse_logging("slab,fail=1g");
	ck_assert_str_eq(child_writes(report_changes),
	    "umem: UMEM_OPTIONS: depot_bytes=4m (default 16m)\n"
	    "umem: UMEM_OPTIONS: depot_shards=3"
	    " (default one for every 4 CPUs)\n"
	    "umem: UMEM_OPTIONS: mode=locked (default rseq)\n"
	    "umem: UMEM_OPTIONS: nomagazines\n"
	    "umem: UMEM_OPTIONS: reap_interval=2 (default 0.25)\n"
	    "umem: UMEM_OPTIONS: sample=1536 (default off)\n"
	    "umem: UMEM_DEBUG: audit=20 (default 15)\n"
	    "umem: UMEM_DEBUG: mtbf=9 (default off)\n"
	    "umem: UMEM_LOGGING: fail=1g (default off)\n"
	    "umem: UMEM_LOGGING: slab=64k (default off)\n"
	    "umem: UMEM_DEBUG: audit,guards\n"
	    "umem: UMEM_DEBUG: default,firewall=64k:umem_*,a\n");
}
END_TEST

START_TEST(a_share_is_one_of_the_limit_of_the_cgroup)
{
	static const char *const wrong[] = {"0%", "101%", "%", "50%%", "5.5%",
	    "-1%", "1000%", "1m%", "0", "1k"};
	size_t all = cgroup_memory_limit();

	ck_assert_uint_gt(all, MIB);
	ck_assert_uint_le(all, os_ram());
	parse("hard_limit=50%");
	ck_assert_uint_eq(heap_limits.hard, align_down(all / 2, MIB));
	parse("hard_limit=100%");
	ck_assert_uint_eq(heap_limits.hard, align_down(all, MIB));
	parse("soft_limit=25%");
	ck_assert_uint_eq(heap_limits.soft, align_down(all / 4, MIB));
	parse("hard_limit=3g");
	ck_assert_uint_eq(heap_limits.hard, 3 * GIB);
	for (unsigned i = 0; i < array_size(wrong); i++) {
		char word[32];

		snprintf(word, sizeof(word), "hard_limit=%s", wrong[i]);
		ck_assert_ptr_nonnull(
		    strstr(said(word), "UMEM_OPTIONS: hard_limit: "));
		parse(word);
		ck_assert_uint_eq(heap_limits.hard, 3 * GIB);
	}
	ck_assert_ptr_nonnull(strstr(said("reap_interval=5%"), "not a number"));
}
END_TEST

Suite *
options_suite(void)
{
	Suite *suite = suite_create("options");
	TCase *tc = tcase_create("options");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, words_that_take_no_value);
	tcase_add_test(tc, each_word_with_a_value_sets_what_it_says);
	tcase_add_test(tc, what_is_right_is_not_mentioned);
	tcase_add_test(tc, what_is_wrong_is_said_in_these_words);
	tcase_add_test(tc, values_out_of_range_change_nothing_and_are_told);
	tcase_add_test(tc, what_is_wrong_is_said_without_verbose);
	tcase_add_test(tc, a_wrong_item_does_not_stop_the_next);
	tcase_add_test(tc, an_item_has_511_bytes_at_most);
	tcase_add_test(tc, no_text_is_fatal);
	tcase_add_test(tc, the_variable_is_read_from_the_environment);
	tcase_add_test(tc, each_variable_has_the_default_of_the_table);
	tcase_add_test(tc, names_are_unique_and_defaults_are_legal);
	tcase_add_loop_test(tc,
	    each_option_takes_its_limits_and_refuses_the_rest, 0,
	    (int)option_table_length);
	tcase_add_test(
	    tc, the_report_has_the_options_that_differ_from_their_defaults);
	tcase_add_test(tc, a_share_is_one_of_the_limit_of_the_cgroup);
	suite_add_tcase(suite, tc);
	return suite;
}
