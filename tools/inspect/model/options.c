/*
 * options.c - the options of the target's library
 *
 * The library describes its table of options and the variables that they set
 * (umem/option_table.c), so this file knows no option by name, and no limit.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/base/memory.h"
#include "tools/inspect/model/options.h"
#include "umem/base/number.h"
#include "umem/word.h"

/* More options, and bytes of one, than any version has. */
#define OPTIONS_MAX      500
#define OPTION_BYTES_MAX 65536

static uint64_t
option_get(const struct target_options *options, const void *record,
    enum layout_entry entry)
{
	return layout_get(options->layout, record, entry);
}

/* Copies a text member of a record. */
static const char *
text_of(const struct target_options *options, const char *record,
    enum layout_entry entry)
{
	const struct describe_entry *d = &options->layout->known[entry];

	return plain_text(record + d->value, d->bytes);
}

static bool
is_type(const struct target_options *options,
    const struct target_option *option, enum layout_entry type)
{
	return option->type == layout_value(options->layout, type);
}

/* Reads where the variable of an option is, and its value. */
static bool
read_variable(struct target_options *options, struct target_option *option,
    uint64_t number)
{
	const struct layout *l = options->layout;
	uint64_t each = layout_value(l, L_OPTION_TARGET_BYTES);
	uint64_t at = layout_value(l, L_OPTION_TARGETS) + number * each;
	const char *record;

	if (number == 0 || each == 0 ||
	    number >= l->known[L_OPTION_TARGETS].bytes / each)
		return false;
	record = target_fetch(options->target, at, each);
	if (record == NULL)
		return false;
	option->at = at + option_get(options, record, L_OPTION_TARGET_AT);
	option->bytes = option_get(options, record, L_OPTION_TARGET_SIZE);
	/* A damaged target may give any size. */
	if (option->bytes > OPTION_BYTES_MAX)
		return false;
	return target_peek(options->target, option->at, &option->value,
	    option->bytes < 8 ? option->bytes : 8);
}

static void
read_option(struct target_options *options, const char *record)
{
	const struct layout *l = options->layout;
	struct target_option *option = &options->option[options->n];
	const struct describe_entry *lists = &l->known[L_OPTION_LISTS];
	uint64_t bytes = layout_value(l, L_OPTION_LIST_BYTES);
	uint64_t list = option_get(options, record, L_OPTION_LIST);

	*option = (struct target_option){
	    .name = text_of(options, record, L_OPTION_NAME),
	    .type = (unsigned)option_get(options, record, L_OPTION_TYPE),
	    .live = option_get(options, record, L_OPTION_LIVE) != 0,
	    .clamped = option_get(options, record, L_OPTION_CLAMPED) != 0,
	    .is_log = option_get(options, record, L_OPTION_VARIABLE) ==
		      layout_value(l, L_OPTION_LOGGING),
	    .shares = option_get(options, record, L_OPTION_SHARE) != 0,
	    .initial = option_get(options, record, L_OPTION_INITIAL),
	    .meaning = text_of(options, record, L_OPTION_INITIAL_TEXT),
	    .minimum = option_get(options, record, L_OPTION_MINIMUM),
	    .maximum = option_get(options, record, L_OPTION_MAXIMUM)};
	if (bytes != 0 && list < lists->bytes / bytes)
		option->words = lists->value + list * bytes;
	if (read_variable(
		options, option, option_get(options, record, L_OPTION_TARGET)))
		options->n++;
}

struct target_options
options_read(struct target *target, const struct layout *layout)
{
	struct target_options options = {.target = target, .layout = layout};
	uint64_t at = layout_value(layout, L_OPTION_TABLE);
	uint64_t each = layout_value(layout, L_OPTION_BYTES);
	uint64_t n = each == 0 ? 0 : layout->known[L_OPTION_TABLE].bytes / each;
	const char *table;

	if (n > OPTIONS_MAX)
		n = OPTIONS_MAX;
	table = target_fetch(target, at, n * each);
	options.option = xalloc((n + 1) * sizeof(*options.option));
	for (uint64_t i = 0; table != NULL && i < n; i++)
		read_option(&options, table + i * each);
	return options;
}

const struct target_option *
options_find(const struct target_options *options, const char *name)
{
	for (size_t i = 0; i < options->n; i++)
		if (strcmp(options->option[i].name, name) == 0)
			return &options->option[i];
	return NULL;
}

const char *
options_nearest(const struct target_options *options, const char *name)
{
	const char *near = NULL;

	for (size_t i = 0; i < options->n; i++)
		near = word_nearer(name, options->option[i].name, near);
	return near;
}

/* Nanoseconds in the unit of a duration, 1 for other types. */
static uint64_t
scale_of(
    const struct target_options *options, const struct target_option *option)
{
	return is_type(options, option, L_OPTION_SECONDS)        ? 1000000000
	       : is_type(options, option, L_OPTION_MILLISECONDS) ? 1000000
								 : 1;
}

/* Reads the nth word of an option; false at the end of its list. */
static bool
read_word_of(const struct target_options *options,
    const struct target_option *option, size_t n, const char **name,
    uint64_t *value)
{
	const struct layout *l = options->layout;
	uint64_t each = layout_value(l, L_OPTION_WORD_BYTES);
	const char *record;

	if (option->words == 0 || each == 0 ||
	    n >= layout_value(l, L_OPTION_LIST_BYTES) / each)
		return false;
	record = target_fetch(options->target, option->words + n * each, each);
	if (record == NULL)
		return false;
	*name = text_of(options, record, L_OPTION_WORD_NAME);
	*value = option_get(options, record, L_OPTION_WORD_VALUE);
	return **name != '\0';
}

/* Returns a number of bytes with the largest unit that divides it. */
static const char *
exact_size(uint64_t bytes)
{
	static const char units[] = NUMBER_UNITS;
	size_t unit = 0;

	while (bytes != 0 && bytes % KIB == 0 && unit < strlen(units)) {
		bytes /= KIB;
		unit++;
	}
	return unit == 0 ? xprint("%lu", bytes)
			 : xprint("%lu%c", bytes, units[unit - 1]);
}

const char *
options_text(const struct target_options *options,
    const struct target_option *option, uint64_t value)
{
	uint64_t of_word;
	const char *name;

	if (is_type(options, option, L_OPTION_FLAG))
		return value != option->initial ? "yes" : "no";
	if (is_type(options, option, L_OPTION_PATH) && value != 0) {
		name = target_fetch(options->target, option->at, option->bytes);
		return name == NULL ? "" : plain_text(name, option->bytes);
	}
	if (value == option->initial && *option->meaning != '\0')
		return option->meaning;
	if (is_type(options, option, L_OPTION_SIZE))
		return exact_size(value);
	for (size_t i = 0; read_word_of(options, option, i, &name, &of_word);
	     i++)
		if (of_word == value)
			return name;
	return xprint("%lu", value / scale_of(options, option));
}

static const char *
parse_number(const struct target_options *options,
    const struct target_option *option, const char *text, uint64_t *value)
{
	bool is_size = is_type(options, option, L_OPTION_SIZE);
	enum number_result result = NUMBER_OK;

	if (!option->shares ||
	    !number_parse_share(
		text, memory_limit_of(options->target->pid), value))
		result = number_parse(text, is_size, value);
	if (result == NUMBER_OVERFLOWED)
		return "too large";
	if (result != NUMBER_OK)
		return option->shares ? "neither a size nor a share"
		       : is_size      ? "not a size"
				      : "not a number";
	if (*value > option->maximum && option->clamped)
		*value = option->maximum;
	/* Some options have no limit above. */
	if (*value < option->minimum && option->maximum == UINT64_MAX)
		return xprint("less than %s", exact_size(option->minimum));
	if (*value < option->minimum || *value > option->maximum)
		return xprint("not from %s to %s",
		    is_size ? exact_size(option->minimum)
			    : xprint("%lu", option->minimum),
		    is_size ? exact_size(option->maximum)
			    : xprint("%lu", option->maximum));
	*value *= scale_of(options, option);
	return NULL;
}

const char *
options_parse(const struct target_options *options,
    const struct target_option *option, const char *text, uint64_t *value)
{
	const char *name, *names = "";

	if (is_type(options, option, L_OPTION_FLAG)) {
		bool is_on = strcmp(text, "yes") == 0;

		*value = is_on != (option->initial != 0);
		return is_on || strcmp(text, "no") == 0 ? NULL
							: "not yes or no";
	}
	if (*option->meaning != '\0' && strcmp(text, option->meaning) == 0) {
		*value = option->initial;
		return NULL;
	}
	for (size_t i = 0; read_word_of(options, option, i, &name, value);
	     i++) {
		if (strcmp(name, text) == 0)
			return NULL;
		names = i == 0 ? name : xprint("%s or %s", names, name);
	}
	if (is_type(options, option, L_OPTION_WORD))
		return xprint("not %s", names);
	return parse_number(options, option, text, value);
}

/* Does the option differ from its default? */
static bool
is_changed(
    const struct target_options *options, const struct target_option *option)
{
	/* Of a path, the value is its first bytes. */
	if (is_type(options, option, L_OPTION_PATH))
		return (option->value & 0xff) != 0;
	return option->value != option->initial;
}

const char *
options_changed(const struct target_options *options)
{
	const char *text = "", *separator = "";
	bool is_log = false;

	if (options->n == 0)
		return "unknown";
	for (size_t i = 0; i < options->n; i++) {
		const struct target_option *option = &options->option[i];

		if (!is_changed(options, option))
			continue;
		if (option->is_log && !is_log)
			separator =
			    *text == '\0' ? "UMEM_LOGGING=" : " UMEM_LOGGING=";
		is_log = option->is_log;
		text = xprint("%s%s%s", text, separator, option->name);
		if (!is_type(options, option, L_OPTION_FLAG))
			text = xprint("%s=%s", text,
			    options_text(options, option, option->value));
		separator = ",";
	}
	return *text == '\0' ? "none" : text;
}
