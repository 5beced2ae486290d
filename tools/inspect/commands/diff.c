/*
 * diff.c - umem diff: growth between two looks
 *
 * Each look is a file saved by umem leaks or umem users, or is taken now, at a
 * process or a core.
 */
#include <getopt.h>
#include <stdlib.h>
#include <time.h>

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

static void
wait_seconds(uint64_t seconds)
{
	struct timespec rest = {.tv_sec = (time_t)seconds};

	while (rest.tv_sec + rest.tv_nsec > 0 && nanosleep(&rest, &rest) != 0)
		;
}

int
command_diff(int argc, char **argv)
{
	struct look look[2];
	bool is_saved[2], every = false, of_leaks = true;
	uint64_t seconds = 0;
	int letter;

	while ((letter = next_option(argc, argv, "et:u")) != -1)
		switch (letter) {
		case 'e':
			every = true;
			break;
		case 't':
			seconds = size_argument(
			    optarg, "diff: ", "number of seconds");
			break;
		case 'u':
			of_leaks = false;
			break;
		}
	expect_arguments(argc, argv, 2, 2);
	for (int i = 0; i < 2; i++) {
		is_saved[i] = read_saved(argv[optind + i], &look[i]);
		if (is_saved[i])
			of_leaks = look[i].of_leaks;
	}
	if (!is_saved[0])
		take_look(argv[optind], of_leaks, &look[0]);
	if (!is_saved[1]) {
		wait_seconds(seconds);
		take_look(argv[optind + 1], of_leaks, &look[1]);
	}
	return look_print_growth(&look[0], &look[1], every);
}
