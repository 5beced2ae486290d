/* arguments.c - options and arguments of the subcommands */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "tools/inspect/target/target.h"

uint64_t
address_argument(const char *text, const char *prefix, const char *noun)
{
	uint64_t address;

	if (!parse_address(text, &address))
		fail_with(EXIT_ERROR, "%s%s is no %s", prefix, text, noun);
	return address;
}

uint64_t
size_argument(const char *text, const char *prefix, const char *noun)
{
	uint64_t bytes;

	if (!parse_size(text, &bytes))
		fail_with(EXIT_ERROR, "%s%s is no %s", prefix, text, noun);
	return bytes;
}

int
next_long_option(
    int argc, char **argv, const char *letters, const struct option *longs)
{
	/* These letters stand for the common words. */
	assert(strpbrk(letters, "FJR") == NULL);
	for (;;) {
		char *name = argv[0];
		int letter;

		/* getopt_long() begins its messages with this word. */
		argv[0] = xprint("umem: %s", name);
		letter = getopt_long(argc, argv, letters, longs, NULL);
		free(argv[0]);
		argv[0] = name;
		if (letter == '?')
			fail_usage(argv[0], NULL);
		if (letter == 'F')
			alloc_forced = true;
		else if (letter == 'J')
			json_wanted = true;
		else if (letter == 'R')
			target_sysroot = optarg;
		else
			return letter;
	}
}

int
next_option(int argc, char **argv, const char *letters)
{
	static const struct option longs[] = {
	    COMMON_OPTIONS, {NULL, 0, NULL, 0}};

	return next_long_option(argc, argv, letters, longs);
}

void
no_option(int argc, char **argv)
{
	int letter = next_option(argc, argv, "");

	assert(letter == -1);
	(void)letter;
}

const char *
target_argument(int argc, char **argv)
{
	no_option(argc, argv);
	return only_argument(argc, argv);
}

void
expect_arguments(int argc, char **argv, int least, int most)
{
	int n = argc - optind;

	if (n == 0 && least > 0)
		fail_usage(argv[0], "no argument is given");
	if (n < least)
		fail_usage(argv[0], "an argument is missing");
	if (n > most)
		fail_usage(argv[0],
		    xprint("one argument too many: %s", argv[optind + most]));
}

const char *
only_argument(int argc, char **argv)
{
	expect_arguments(argc, argv, 1, 1);
	return argv[optind];
}
