/*
 * diff.c - umem diff: growth between two looks
 *
 * Each look is a file saved by umem leaks or umem users, or is taken now, at a
 * process or a core.
 */
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/inspect/commands/commands.h"
#include "tools/inspect/report/look.h"

/* Reads a saved look; returns false if the operand is no such file. */
static bool
read_saved(const char *operand, struct look *look)
{
	FILE *file = fopen(operand, "re");
	bool is_saved = file != NULL && look_read(look, file, operand);

	if (file != NULL)
		fclose(file);
	return is_saved;
}

static void
take_look(const char *target, bool of_leaks, struct look *look)
{
	if (!look_take(target, of_leaks, look))
		exit(EXIT_ERROR);
}

int
command_diff(int argc, char **argv)
{
	struct look look[2];
	const char *target[2];
	bool is_saved[2], every = false, of_leaks = true;
	uint64_t seconds = 0;
	int letter;

	while ((letter = next_option(argc, argv, "et:u")) != -1)
		if (letter == 't')
			seconds = size_argument(
			    optarg, "diff: ", "number of seconds");
		else if (letter == 'u')
			of_leaks = false;
		else
			every = true;
	expect_arguments(argc, argv, seconds != 0 ? 1 : 2, 2);
	target[0] = argv[optind];
	target[1] = argv[argc - 1];
	for (int i = 0; i < 2; i++) {
		is_saved[i] = read_saved(target[i], &look[i]);
		if (is_saved[i])
			of_leaks = look[i].of_leaks;
	}
	if (!is_saved[0])
		take_look(target[0], of_leaks, &look[0]);
	if (!is_saved[1]) {
		while (seconds != 0)
			seconds = sleep(
			    seconds < INT_MAX ? (unsigned)seconds : INT_MAX);
		take_look(target[1], of_leaks, &look[1]);
	}
	return look_print_growth(&look[0], &look[1], every);
}
