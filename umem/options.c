/*
 * options.c - table of UMEM_OPTIONS words, and the parser
 *
 * Items are separated by commas, blanks around them do not matter, and an
 * item is a word or word=value.  What is not understood is left out, and said
 * with verbose.  The only file that looks at the environment; it calls no
 * getenv(), since the first malloc may come before libc has set itself up.
 *
 * Source: umem_debug(3MALLOC); messages of libumem's envvar.c.
 */
#include <elf.h>
#include <string.h>

#include "magazine/magazine.h"
#include "umem/cache.h"
#include "umem/options.h"
#include "umem/size_class.h"
#include "umem/update.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/vmem.h"

#define VARIABLE "UMEM_OPTIONS"

/* The longest item; libumem has the same limit. */
#define ITEM_MAX 511

struct item {
	char text[ITEM_MAX + 1];
	char *name;
	char *value; /* NULL: there was no "=" */
	struct options *options;
	bool tell; /* write messages */
};

/* A program may have one; asked if the variable is not set. */
extern const char *_umem_options_init(void) __attribute__((weak));

/* libc's, once it has started; until then, the stack of the process. */
extern char **__environ __attribute__((weak));
extern void *__libc_stack_end __attribute__((weak));

static void
tell(const struct item *item, const char *text)
{
	if (item->tell)
		say("%s: %s: %s", VARIABLE, item->name, text);
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

/* A number of base 10.  Says what is wrong; *rest is behind the digits. */
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
		say("%s: %s: '%s' not recognized", VARIABLE, item->name,
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
set_nomagazines(struct item *item)
{
	(void)item;
	cache_use_magazines = false;
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

enum takes {
	NO_VALUE,
	VALUE
};

static const struct word {
	const char *name;
	enum takes takes;
	void (*set)(struct item *item);
} words[] = {
    {"allocator", VALUE, set_allocator},
    {"backend", VALUE, set_backend},
    {"concurrency", VALUE, set_concurrency},
    {"max_contention", VALUE, set_contention},
    {"mode", VALUE, set_mode},
    {"nomagazines", NO_VALUE, set_nomagazines},
    {"perthread_cache", VALUE, check_size},
    {"reap_interval", VALUE, set_interval},
    {"sbrk_minalloc", VALUE, check_size},
    {"sbrk_pagesize", VALUE, check_size},
    {"size_add", VALUE, add_size},
    {"size_clear", NO_VALUE, clear_sizes},
    {"size_remove", VALUE, remove_size},
    {"thread", VALUE, set_thread},
    {"verbose", NO_VALUE, set_verbose},
};

static void
item_apply(struct item *item)
{
	for (size_t i = 0; i < array_size(words); i++) {
		const struct word *word = &words[i];

		if (strcmp(word->name, item->name) != 0)
			continue;
		if (word->takes == NO_VALUE && item->value != NULL)
			tell(item, "does not take a value. ignored");
		else if (word->takes == VALUE &&
			 (item->value == NULL || *item->value == '\0'))
			tell(item, "Required value missing");
		else
			word->set(item);
		return;
	}
	if (item->tell)
		say("%s: '%s' not recognized", VARIABLE, item->name);
}

/* Cuts blanks off both ends of [from, to) and copies; false: too long. */
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
		say("%s: argument \"%s...\" too long", VARIABLE, item->text);
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

/* How a pass over the text treats what it finds. */
static void
pass(struct options *options, const char *text, bool verbose_only, bool tells)
{
	struct item item = {.options = options, .tell = tells};

	for (const char *at = text; *at != '\0';) {
		const char *end = at + strcspn(at, ",");

		if (item_copy(&item, at, end) &&
		    (!verbose_only || strcmp(item.text, "verbose") == 0)) {
			item_split(&item);
			if (*item.text != '\0')
				item_apply(&item);
			else if (tells)
				say("%s: empty option", VARIABLE);
		}
		at = *end == ',' ? end + 1 : end;
	}
}

void
options_parse(struct options *options, const char *text)
{
	/* Messages depend on verbose, wherever in the text it stands. */
	pass(options, text, true, false);
	pass(options, text, false, options->verbose);
}

static char **
environment(void)
{
	char **at;

	if (&__environ != NULL && __environ != NULL)
		return __environ;
	if (&__libc_stack_end == NULL || __libc_stack_end == NULL)
		return NULL;
	/* The number of arguments, they and a NULL, then the variables. */
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

void
options_read(struct options *options)
{
	const char *text;

	*options = (struct options){.mode = RSEQ_LIBC};
	options->secure = os_auxv(AT_SECURE) != 0;
	if (options->secure)
		return;
	text = variable(VARIABLE);
	if (text == NULL && _umem_options_init != NULL)
		text = _umem_options_init();
	if (text != NULL)
		options_parse(options, text);
}
