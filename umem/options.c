/*
 * options.c - reads UMEM_OPTIONS, UMEM_DEBUG and UMEM_LOGGING
 *
 * Items are separated by commas, blanks around them are ignored, and an item is
 * a word or word=value.  The words and their values are in option_table.c.  An
 * unknown word and a wrong value are ignored, each with a message that offers
 * the nearest known word.  No other file reads the environment.  This file
 * calls no getenv(), because the first malloc may come before libc has set
 * itself up.
 *
 * UMEM_DEBUG may have several parts, separated by semicolons.  A part that ends
 * in a colon and patterns of names applies to caches of these names, a part
 * without patterns to all other caches.
 *
 * Source: umem_debug(3MALLOC); messages of libumem's envvar.c.
 */
#include <elf.h>

#include "umem/debug/debug.h"
#include "umem/debug/log.h"
#include "umem/malloc/nofail.h"
#include "umem/option_table.h"
#include "umem/options.h"
#include "umem/word.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/string.h"

/* The longest item; libumem has the same limit. */
#define ITEM_MAX 511

/* One item of a variable, while it is parsed. */
struct item {
	enum option_variable variable;
	char text[ITEM_MAX + 1];   /* its name, after item_split() */
	char *value;               /* NULL: the item has no "=" */
	struct debug_choice *part; /* if the variable is UMEM_DEBUG */
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

static const char *
item_variable_name(const struct item *item)
{
	umem_assert(item->variable < OPTION_VARIABLES);
	return option_variable_names[item->variable];
}

/* Reports that an item of a known name is wrong. */
static void
item_complain(const struct item *item, const char *text)
{
	message_line("%s: %s: %s", item_variable_name(item), item->text, text);
}

/* The variable other than that of the item that has an option of its name. */
static const char *
item_other_variable(const struct item *item)
{
	for (unsigned i = 0; i < option_table_length; i++)
		if (option_table[i].variable != item->variable &&
		    string_is_equal(option_table[i].name, item->text))
			return option_variable_names[option_table[i].variable];
	return NULL;
}

/* Reports an item whose name no option of its variable has. */
static void
item_complain_unknown(const struct item *item)
{
	const char *name = item_variable_name(item);
	const char *other = item_other_variable(item), *near = NULL;

	for (unsigned i = 0; i < option_table_length; i++)
		if (option_table[i].variable == item->variable)
			near =
			    word_nearer(item->text, option_table[i].name, near);
	if (other != NULL)
		message_line("%s: '%s' not recognized; it is a word of %s",
		    name, item->text, other);
	else if (near != NULL)
		message_line("%s: '%s' not recognized; did you mean '%s'?",
		    name, item->text, near);
	else
		message_line("%s: '%s' not recognized", name, item->text);
}

/* Reports a value that is not a word of the option. */
static void
item_complain_value(const struct item *item, const struct option *option)
{
	const char *name = item_variable_name(item), *near = NULL;

	for (const struct option_word *word = option_words(option);
	     word->name[0] != '\0'; word++)
		near = word_nearer(item->value, word->name, near);
	if (near != NULL)
		message_line("%s: %s: '%s' not recognized; did you mean '%s'?",
		    name, item->text, item->value, near);
	else
		message_line("%s: %s: '%s' not recognized", name, item->text,
		    item->value);
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

/* Parses the value of the item, with a message if it is wrong. */
static bool
option_parse_value(
    const struct option *option, const struct item *item, uint64_t *value)
{
	const char *wrong;

	umem_assert(item->value != NULL);
	wrong = option_parse(option, item->value, value);
	if (wrong == NULL)
		return true;
	if (option->type == OPTION_WORD)
		item_complain_value(item, option);
	else
		item_complain(item, wrong);
	return false;
}

/* Applies an item that names this option. */
static void
option_apply(const struct option *option, const struct item *item)
{
	uint64_t value = option_implied(option);

	if (option->type == OPTION_PATH) {
		if (!option_store_path(option, item->value))
			item_complain(item, "too long");
		return;
	}
	if (item->value != NULL && !option_parse_value(option, item, &value))
		return;
	/* A word without its value keeps that of another item. */
	if (option_target(option) != NULL &&
	    (item->value != NULL || value != option->initial))
		option_store(option, value);
	if (option->checks == 0)
		return;
	umem_assert(item->part != NULL);
	item->part->flags |= option->checks;
	if ((option->checks & UMF_FIREWALL) != 0)
		item->part->firewall_min = value;
}

/* Does the item have a value if and only if the option takes one? */
static bool
item_check_value(const struct item *item, const struct option *option)
{
	if (option->type == OPTION_FLAG) {
		if (item->value == NULL)
			return true;
		item_complain(item, "does not take a value. ignored");
		return false;
	}
	if (item->value == NULL ? option->value_is_optional
				: *item->value != '\0')
		return true;
	item_complain(item, "Required value missing");
	return false;
}

static void
item_apply(const struct item *item)
{
	for (unsigned i = 0; i < option_table_length; i++) {
		const struct option *option = &option_table[i];

		if (option->variable != item->variable ||
		    !string_is_equal(option->name, item->text))
			continue;
		if (item_check_value(item, option))
			option_apply(option, item);
		return;
	}
	item_complain_unknown(item);
}

/*
 * Copies [from, to) without the blanks at both ends.  Returns false if it is
 * too long.
 */
static bool
item_copy(struct item *item, const char *from, const char *to)
{
	size_t n;

	umem_assert(from <= to);
	while (from < to && is_blank(*from))
		from++;
	while (to > from && is_blank(to[-1]))
		to--;
	n = (size_t)(to - from);
	item->value = NULL;
	memcpy(item->text, from, n > ITEM_MAX ? 20 : n);
	item->text[n > ITEM_MAX ? 20 : n] = '\0';
	if (n <= ITEM_MAX)
		return true;
	message_line("%s: argument \"%s...\" too long",
	    item_variable_name(item), item->text);
	return false;
}

/* Divides "name = value": the text becomes the name alone. */
static void
item_split(struct item *item)
{
	char *equals = item->text + string_span(item->text, "=");

	umem_assert(item->value == NULL);
	if (*equals == '\0')
		return;
	item->value = equals + 1;
	while (is_blank(*item->value))
		item->value++;
	while (equals > item->text && is_blank(equals[-1]))
		equals--;
	*equals = '\0';
}

static void
items_apply(struct item *item, const char *text)
{
	for (const char *at = text; *at != '\0';) {
		const char *end = at + string_span(at, ",");

		if (item_copy(item, at, end)) {
			item_split(item);
			if (*item->text != '\0')
				item_apply(item);
			else
				message_line("%s: empty option",
				    item_variable_name(item));
		}
		at = *end == ',' ? end + 1 : end;
	}
}

void
options_parse(const char *text)
{
	struct item item = {.variable = OPTION_OPTIONS};

	items_apply(&item, text);
	debug.on |= debug.hardened;
}

/*
 * Applies one part of UMEM_DEBUG, "words" or "words:patterns", from at to end.
 */
static void
debug_part_apply(const char *at, const char *end)
{
	char words[2 * ITEM_MAX];
	struct item item = {.variable = OPTION_DEBUG};
	const char *colon = string_find(at, ':', (size_t)(end - at));
	size_t n = (size_t)((colon != NULL ? colon : end) - at);
	size_t npatterns = colon == NULL ? 0 : (size_t)(end - colon - 1);

	umem_assert(at <= end && debug.nchoices <= DEBUG_CHOICES);
	if (debug.nchoices == DEBUG_CHOICES || n >= sizeof(words) ||
	    npatterns >= sizeof(item.part->patterns)) {
		message_line("%s: too long, or too many parts",
		    item_variable_name(&item));
		return;
	}
	item.part = &debug.choice[debug.nchoices++];
	memcpy(words, at, n);
	words[n] = '\0';
	if (colon != NULL)
		memcpy(item.part->patterns, colon + 1, npatterns);
	items_apply(&item, words);
	debug.on |= (item.part->flags & ~UMF_RCU_WRITES) != 0;
}

void
options_parse_debug(const char *text)
{
	while (*text != '\0') {
		const char *end = text + string_span(text, ";");

		debug_part_apply(text, end);
		text = *end == ';' ? end + 1 : end;
	}
	debug.mtbf = mtbf_interval;
}

void
options_parse_logging(const char *text)
{
	struct item item = {.variable = OPTION_LOGGING};

	items_apply(&item, text);
	/* Contents can only be logged if they are kept. */
	for (unsigned i = 0;
	     log_bytes_wanted[LOG_CONTENTS] != 0 && i < debug.nchoices; i++)
		debug.choice[i].flags |= UMF_CONTENTS;
}

/* Returns the NULL-terminated array of the environment, or NULL. */
static start_path char **
environment_array(void)
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
environment_value(const char *name)
{
	size_t n = strlen(name);
	char **at = environment_array();

	for (; at != NULL && *at != NULL; at++)
		if (string_begins_with(*at, name) && (*at)[n] == '=')
			return *at + n + 1;
	return NULL;
}

/* Compares by instructions, because a text would be on a page of its own. */
static start_path bool
begins_with_umem(const char *text)
{
	return text[0] == 'U' && text[1] == 'M' && text[2] == 'E' &&
	       text[3] == 'M' && text[4] == '_';
}

/*
 * Each process comes here.  Another variable whose name begins with UMEM_ only
 * starts the library early.
 */
start_path bool
options_are_given(void)
{
	char **at = environment_array();

	for (; at != NULL && *at != NULL; at++)
		if (begins_with_umem(*at))
			return true;
	return _umem_options_init != NULL || _umem_debug_init != NULL ||
	       _umem_logging_init != NULL;
}

/*
 * Parses the text of the variable or, if that is not set, of the program's
 * function.
 */
static void
options_read_variable(enum option_variable variable, const char *(*init)(void),
    void (*parse)(const char *text))
{
	const char *text = environment_value(option_variable_names[variable]);

	if (text == NULL && init != NULL)
		text = init();
	if (text != NULL)
		parse(text);
}

void
options_read(void)
{
	options = (struct options){.mode = RSEQ_LIBC};
	options.secure = os_auxv(AT_SECURE) != 0;
	/* Otherwise each process would read the names and texts of options. */
	if (options.secure || !options_are_given())
		return;
	options_read_variable(
	    OPTION_OPTIONS, _umem_options_init, options_parse);
	options_read_variable(
	    OPTION_DEBUG, _umem_debug_init, options_parse_debug);
	options_read_variable(
	    OPTION_LOGGING, _umem_logging_init, options_parse_logging);
}
