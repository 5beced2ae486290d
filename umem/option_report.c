/*
 * option_report.c - writes the options and their values for the user
 *
 * option_report_changes() is for the word verbose: one message for each option
 * that differs from its default.  option_report_all() is for the word help: a
 * list of all options.  Both read the variables that the options set, so they
 * show the values that the library uses.
 */
#include "umem/debug/debug.h"
#include "umem/stats/text.h"
#include "umem/base/number.h"
#include "umem/option_table.h"
#include "umem/options.h"
#include "vmem/panic.h"

/* Appends a number of bytes with the largest unit that divides it. */
static void
append_size(struct message *m, uint64_t bytes)
{
	static const char units[] = NUMBER_UNITS;
	unsigned i = 0;

	while (bytes != 0 && bytes % KIB == 0 && i < sizeof(units) - 1) {
		bytes /= KIB;
		i++;
	}
	message_dec(m, bytes);
	if (i > 0)
		message_text(m, (const char[]){units[i - 1], '\0'});
}

/* Appends a value as the user would write it. */
static void
append_value(struct message *m, const struct option *option, uint64_t value)
{
	umem_assert(option->type != OPTION_FLAG);
	umem_assert(option->type != OPTION_PATH);
	if (option->type == OPTION_SIZE) {
		append_size(m, value);
		return;
	}
	if (option->type != OPTION_WORD) {
		message_dec(m, value);
		return;
	}
	for (const struct option_word *word = option_words(option);
	     word->name[0] != '\0'; word++)
		if (word->value == value) {
			message_text(m, word->name);
			return;
		}
	umem_assert(!"the value of an option has a word");
}

static void
append_initial(struct message *m, const struct option *option)
{
	if (option->initial_text[0] != '\0')
		message_text(m, option->initial_text);
	else
		append_value(m, option, option_initial(option));
}

void
option_report_value(struct message *m, const struct option *option)
{
	umem_assert(option_target(option) != NULL);
	if (option->type == OPTION_FLAG)
		message_text(m, option_is_initial(option) ? "no" : "yes");
	else if (option->type == OPTION_PATH)
		message_text(m, option_target(option));
	else if (option->initial_text[0] != '\0' && option_is_initial(option))
		message_text(m, option->initial_text);
	else
		append_value(m, option, option_value(option));
}

/* Writes the text of m as a message about a variable. */
static void
option_report_send(enum option_variable variable, struct message *m)
{
	umem_assert(m->n < sizeof(m->text));
	m->text[m->n] = '\0';
	message_line("%s: %s", option_variable_names[variable], m->text);
}

/* Writes "name" or "name=value (default value)" if the option was changed. */
static void
report_option(const struct option *option)
{
	struct message m = {.n = 0};

	const void *target = option_target(option);

	if (target == NULL || option_is_initial(option))
		return;
	/* The report itself shows that the user has asked for it. */
	if (target == &options.verbose || target == &options.help)
		return;
	message_text(&m, option->name);
	if (option->type != OPTION_FLAG) {
		message_text(&m, "=");
		option_report_value(&m, option);
		message_text(&m, " (default ");
		append_initial(&m, option);
		message_text(&m, ")");
	}
	option_report_send(option->variable, &m);
}

/*
 * Writes the words of one part of UMEM_DEBUG, and its patterns.  Words that
 * turn on no further check are left out.
 */
static void
report_part(const struct debug_choice *part)
{
	struct message m = {.n = 0};
	unsigned shown = 0;

	for (unsigned i = 0; i < option_table_length; i++) {
		const struct option *option = &option_table[i];

		if ((option->checks & ~part->flags) != 0 ||
		    (option->checks & ~shown) == 0)
			continue;
		if (shown != 0)
			message_text(&m, ",");
		message_text(&m, option->name);
		if ((option->checks & UMF_FIREWALL) != 0) {
			message_text(&m, "=");
			append_size(&m, part->firewall_min);
		}
		shown |= option->checks;
	}
	/* A part may consist of words that apply to all caches. */
	if (shown == 0)
		return;
	if (part->patterns[0] != '\0') {
		message_text(&m, ":");
		message_text(&m, part->patterns);
	}
	option_report_send(OPTION_DEBUG, &m);
}

void
option_report_changes(void)
{
	for (unsigned i = 0; i < option_table_length; i++)
		report_option(&option_table[i]);
	umem_assert(debug.nchoices <= DEBUG_CHOICES);
	for (unsigned i = 0; i < debug.nchoices; i++)
		report_part(&debug.choice[i]);
}

/* Appends the syntax of the value, as in the manual pages. */
static void
append_argument(struct message *m, const struct option *option)
{
	static const char numbers[][16] = {
	    [OPTION_COUNT] = "number",
	    [OPTION_SIZE] = "size",
	    [OPTION_SECONDS] = "seconds",
	    [OPTION_MILLISECONDS] = "milliseconds",
	    [OPTION_PATH] = "path",
	};
	bool is_first = option->type == OPTION_WORD;

	if (option->type == OPTION_FLAG)
		return;
	message_text(m, option->value_is_optional ? "[=" : "=");
	if (!is_first)
		message_text(m, numbers[option->type]);
	for (const struct option_word *word = option_words(option);
	     word->name[0] != '\0'; word++) {
		message_text(m, is_first ? "" : "|");
		message_text(m, word->name);
		is_first = false;
	}
	message_text(m, option->value_is_optional ? "]" : "");
}

/* Appends the limits of a number, the default and the value if it differs. */
static void
append_values(struct message *m, const struct option *option)
{
	bool has_maximum = option->maximum != 0 &&
			   option->maximum != UINT32_MAX &&
			   option->maximum != SIZE_MAX;

	append_initial(m, option);
	message_text(m, " by default");
	if (option->minimum != 0) {
		message_text(m, ", from ");
		append_value(m, option, option->minimum);
	}
	if (has_maximum) {
		message_text(m, option->minimum != 0 ? " to " : ", up to ");
		append_value(m, option, option->maximum);
	}
	if (!option_is_initial(option)) {
		message_text(m, "; now ");
		option_report_value(m, option);
	}
}

/* Has the user turned on the flag, or its checks in a part of UMEM_DEBUG? */
static bool
option_is_on(const struct option *option)
{
	if (option_target(option) != NULL && option->type == OPTION_FLAG)
		return !option_is_initial(option);
	for (unsigned i = 0; i < debug.nchoices; i++)
		if (option->checks != 0 &&
		    (option->checks & ~debug.choice[i].flags) == 0)
			return true;
	return false;
}

/* Appends the entry of an option: its syntax, its purpose and its values. */
static void
report_explain(struct text *text, const struct option *option)
{
	struct message m = {.n = 0};

	message_text(&m, "  ");
	message_text(&m, option->name);
	append_argument(&m, option);
	message_text(&m, "\n      ");
	message_text(&m, option->help);
	if (option_is_on(option))
		message_text(&m, "; now on");
	if (option_target(option) != NULL && option->type != OPTION_FLAG) {
		message_text(&m, "\n      ");
		append_values(&m, option);
	}
	message_text(&m, "\n");
	text_add(text, &m);
}

void
option_report_all(struct text *text)
{
	for (unsigned v = 0; v < OPTION_VARIABLES; v++) {
		text_line(text, "%s\n", option_variable_names[v]);
		for (unsigned i = 0; i < option_table_length; i++)
			if (option_table[i].variable == v)
				report_explain(text, &option_table[i]);
	}
}
