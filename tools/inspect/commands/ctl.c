/*
 * ctl.c - umem ctl: read and change the options of a running process
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "tools/inspect/model/change.h"
#include "tools/inspect/model/options.h"

/* The sampling interval, which is not the variable that the option sets. */
static bool
is_sample(const struct target_option *option)
{
	return strcmp(option->name, "sample") == 0;
}

/* Returns the present value of an option as text. */
static const char *
present_text(
    const struct target_options *options, const struct target_option *option)
{
	const struct layout *l = options->layout;
	uint64_t value = option->value;

	if (is_sample(option) &&
	    !layout_peek(l, options->target, layout_value(l, L_SAMPLING),
		L_SAMPLING_MEAN, &value))
		value = option->value;
	return options_text(options, option, value);
}

/* Finds the option of an argument "name" or "name=value", or ends. */
static const struct target_option *
argument_option(const struct target_options *options, const char *argument)
{
	char *name = xprint("%.*s", (int)strcspn(argument, "="), argument);
	const struct target_option *option = options_find(options, name);
	const char *near = options_nearest(options, name);

	if (option == NULL && near != NULL)
		fail_with(
		    EXIT_ERROR, "no option %s; did you mean %s?", name, near);
	if (option == NULL)
		fail_with(EXIT_ERROR, "no option %s; see umem options", name);
	free(name);
	return option;
}

/* Parses the value of "name=value"; ends the command if it is wrong. */
static uint64_t
argument_value(const struct target_options *options,
    const struct target_option *option, const char *argument)
{
	const char *text = strchr(argument, '=') + 1, *wrong;
	uint64_t value;

	if (!option->live)
		fail_with(EXIT_ERROR, "%s cannot change while the program runs",
		    option->name);
	wrong = options_parse(options, option, text, &value);
	if (wrong != NULL)
		fail_with(
		    EXIT_ERROR, "%s: '%s' is %s", option->name, text, wrong);
	return value;
}

static void
argument_apply(const struct target_options *options, const char *argument)
{
	const struct target_option *option = argument_option(options, argument);
	const char *old = present_text(options, option);
	uint64_t value;

	if (strchr(argument, '=') == NULL) {
		printf("%s=%s\n", option->name, old);
		return;
	}
	value = argument_value(options, option, argument);
	if (is_sample(option))
		change_sampling(options->target, options->layout, value);
	else
		change_number(
		    options->target, option->at, option->bytes, value);
	printf("%s=%s (before: %s)\n", option->name,
	    options_text(options, option, value), old);
}

static void
print_all(const struct target_options *options)
{
	const char *const row = "%-20s %-20s %s\n";

	json_open(NULL, '{');
	plain_print(row, "OPTION", "VALUE", "DEFAULT");
	for (size_t i = 0; i < options->n; i++) {
		const struct target_option *option = &options->option[i];
		const char *value = present_text(options, option);

		if (!option->live)
			continue;
		json_text(option->name, value);
		plain_print(row, option->name, value,
		    options_text(options, option, option->initial));
	}
	json_close();
}

int
command_ctl(int argc, char **argv)
{
	char **arguments = options_take(argc, argv, NULL, 0, 1, INT_MAX);
	struct target_options options;
	struct target *target;
	struct layout *layout;

	if (json_wanted && arguments[1] != NULL)
		fail_usage(argv[0], "--json only lists options");
	target = change_open(*arguments++, &layout);
	options = options_read(target, layout);
	/* All arguments are checked before the first change. */
	for (char **at = arguments; *at != NULL; at++) {
		const struct target_option *option =
		    argument_option(&options, *at);

		if (strchr(*at, '=') != NULL)
			argument_value(&options, option, *at);
	}
	for (char **at = arguments; *at != NULL; at++)
		argument_apply(&options, *at);
	target_release(target);
	if (*arguments == NULL)
		print_all(&options);
	return EXIT_OK;
}
