/*
 * cmd_diff.c - umem diff: growth between two looks
 *
 * Each look is a file saved by umem leaks or umem users, or is taken now, at a
 * process or a core.  The command takes it in a child process, because the
 * modules that inspect a target keep its state in static variables.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/inspect/leaks.h"
#include "tools/inspect/look.h"
#include "tools/inspect/snapshot.h"
#include "tools/inspect/users.h"

/* Writes a look at the target to a descriptor. */
static _Noreturn void
write_look(const char *target, bool of_leaks, int to)
{
	struct model *model =
	    snapshot_open(target, of_leaks ? MODEL_POINTERS : 0);
	struct look look = of_leaks ? leaks_look(model) : users_look(model);
	FILE *file = fdopen(to, "w");

	if (file == NULL)
		fail_with(EXIT_ERROR, "diff: %s", strerror(errno));
	look_write(&look, file, target);
	exit(EXIT_OK);
}

static struct look
take_look(const char *target, bool of_leaks)
{
	struct look look;
	int ends[2], status;
	FILE *file;
	pid_t child;

	fflush(stdout);
	if (pipe(ends) != 0 || (child = fork()) < 0)
		fail_with(EXIT_ERROR, "diff: %s", strerror(errno));
	if (child == 0) {
		close(ends[0]);
		write_look(target, of_leaks, ends[1]);
	}
	close(ends[1]);
	file = fdopen(ends[0], "r");
	if (file == NULL)
		fail_with(EXIT_ERROR, "diff: %s", strerror(errno));
	/* The child writes nothing, or all; it prints the reason itself. */
	if (!look_read(&look, file, target))
		look.nrows = SIZE_MAX;
	fclose(file);
	if (waitpid(child, &status, 0) != child || status != 0 ||
	    look.nrows == SIZE_MAX)
		exit(EXIT_ERROR);
	return look;
}

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
	if (argc - optind != 2)
		fail_usage(argv[0]);
	for (int i = 0; i < 2; i++) {
		is_saved[i] = read_saved(argv[optind + i], &look[i]);
		if (is_saved[i])
			of_leaks = look[i].of_leaks;
	}
	if (!is_saved[0])
		look[0] = take_look(argv[optind], of_leaks);
	if (!is_saved[1]) {
		wait_seconds(seconds);
		look[1] = take_look(argv[optind + 1], of_leaks);
	}
	return look_print_growth(&look[0], &look[1], every);
}
