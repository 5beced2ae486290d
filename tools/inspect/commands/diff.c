/*
 * diff.c - umem diff: growth between two looks
 *
 * Each look is a file saved by umem leaks or umem users, or is taken now, at a
 * process or a core.  Without a file, it is one at the leaks and one at the
 * reachable blocks, in one snapshot.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "tools/inspect/commands/report.h"
#include "tools/inspect/report/flame.h"

/* The looks of an operand: one, or at leaks and what is reachable. */
struct looks {
	struct look look[2];
	size_t n;
};

/* Reads a saved look; n is 0 if the operand is no such file. */
static struct looks
read_saved(const char *operand, bool stacks)
{
	FILE *file = fopen(operand, "re");
	struct looks looks = {.n = 0};

	if (file != NULL && look_read(&looks.look[0], file, operand)) {
		looks.n = 1;
		if (getc(file) != EOF)
			fail_with(EXIT_ERROR, "%s: is damaged", operand);
		if (stacks && !looks.look[0].has_stacks)
			fail_with(EXIT_ERROR, "%s: has no stacks for --html",
			    operand);
	}
	if (file != NULL)
		fclose(file);
	return looks;
}

/* Writes looks at the target to a file, and ends the process. */
static _Noreturn void
write_looks(const char *target, bool of_users, bool stacks, FILE *file)
{
	struct look looks[2];
	sigset_t set;
	size_t n;

	/* The caller may have blocked signals that shall end the search. */
	sigemptyset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	n = report_looks(target, of_users, stacks, looks);
	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	for (size_t i = 0; i < n; i++)
		look_write(&looks[i], file, target);
	exit(EXIT_OK);
}

/*
 * Takes the looks of report_looks() in a child process, because the modules
 * that inspect a target keep its state in static variables.  Returns their
 * number; 0: that failed, and the child has printed the reason.
 */
static size_t
look_take(const char *target, bool of_users, bool stacks, struct look *looks)
{
	size_t n = 0;
	int ends[2], status;
	FILE *from, *to;
	pid_t child;

	fflush(stdout);
	if (pipe(ends) != 0 || (from = fdopen(ends[0], "r")) == NULL ||
	    (to = fdopen(ends[1], "w")) == NULL || (child = fork()) < 0)
		fail_with(EXIT_ERROR, "%s: %s", target, strerror(errno));
	if (child == 0) {
		fclose(from);
		write_looks(target, of_users, stacks, to);
	}
	fclose(to);
	/* The child writes nothing, or all; it prints the reason itself. */
	while (n < 2 && look_read(&looks[n], from, target))
		n++;
	fclose(from);
	return waitpid(child, &status, 0) == child && status == 0 ? n : 0;
}

/* Takes a look like the other one, if there is one. */
static void
take_looks(struct looks *looks, const char *operand, const struct looks *other,
    bool of_users, bool stacks)
{
	if (looks->n != 0)
		return;
	if (other->n == 1)
		of_users = other->look[0].kind == LOOK_USERS;
	looks->n = look_take(operand, of_users, stacks, looks->look);
	if (looks->n == 0)
		exit(EXIT_ERROR);
	/* A file has the leaks only. */
	if (other->n == 1)
		looks->n = 1;
}

/* Writes a page of the growth, by the call sites and by the stacks. */
static void
write_page(const struct looks *looks, const char *title)
{
	struct look more = {.kind = LOOK_GROWTH};
	const char *since = "";

	for (size_t i = 0; i < 2 * looks[0].n; i++) {
		struct growth *growth = growth_of(&looks[0].look[i / 2],
		    &looks[1].look[i / 2], /* stacks */ i % 2 != 0);

		growth_add(growth, &more);
		since = growth_since(growth);
	}
	flame_write(&more, title, xprint(" more %s", since));
}

int
command_diff(int argc, char **argv)
{
	struct looks looks[2];
	bool every = false, of_users = false, html = false, estimated = false;
	uint64_t seconds = 0;
	const struct option_word words[] = {{"e", .flag = &every},
	    {"html", .flag = &html},
	    {"t", .size = &seconds, .noun = "number of seconds"},
	    {"u", .flag = &of_users}};
	char **target =
	    options_take(argc, argv, words, array_size(words), 1, 2);
	const char *after = target[1] != NULL ? target[1] : target[0];
	const char *title = xprint("Growth of %s", after);
	int status = EXIT_OK;

	if (seconds == 0 && target[1] == NULL)
		fail_usage(
		    argv[0], "AFTER or -t, of a second or more, is missing");
	if (html && json_wanted)
		fail_usage(argv[0], "--html or --json, not both");
	if (html)
		page_check(argv[0], "--html");
	looks[0] = read_saved(target[0], html);
	looks[1] = read_saved(after, html);
	if (html && looks[1].n == 0)
		title = page_title("Growth", target_open(after));
	take_looks(&looks[0], target[0], &looks[1], of_users, html);
	while (looks[1].n == 0 && seconds != 0)
		seconds =
		    sleep(seconds < INT_MAX ? (unsigned)seconds : INT_MAX);
	take_looks(&looks[1], after, &looks[0], of_users, html);
	if (looks[0].look[0].kind != looks[1].look[0].kind)
		fail_with(EXIT_ERROR,
		    "diff: one look is at leaks, the other at users");
	if (html) {
		write_page(looks, title);
		return EXIT_OK;
	}
	json_open(NULL, '{');
	for (size_t i = 0; i < looks[0].n; i++) {
		struct growth *growth =
		    growth_of(&looks[0].look[i], &looks[1].look[i], false);

		if (looks[0].look[i].kind == LOOK_LEAKS &&
		    growth_is_more(growth))
			status = EXIT_FOUND;
		if (i != 0)
			json_open("reachable", '{');
		growth_json(growth);
		if (i != 0)
			json_close();
		if (!json_wanted)
			estimated |= growth_print(growth, every);
		if (i + 1 < looks[0].n)
			plain_print("\n");
	}
	json_close();
	if (estimated)
		puts("\n~ is an estimate from samples.");
	return status;
}
