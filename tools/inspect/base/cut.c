/*
 * cut.c - a mapped file that becomes shorter
 *
 * This command maps cores (target_core.c), and libelf maps programs, libraries
 * and files of debugging information.  If such a file becomes shorter, the
 * kernel sends SIGBUS to the process that reads the lost part.  The command
 * then fails with a message that names the file.
 *
 * These reads are neither inside malloc() nor inside an operation on a stream,
 * so the handler may use both.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/base/cut.h"
#include "tools/inspect/base/text.h"

/* Returns the name of the file that this process has mapped at at, or NULL. */
static const char *
file_mapped_at(uint64_t at)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	const char *found = NULL;
	char *line = NULL;
	size_t capacity = 0;

	while (maps != NULL && found == NULL &&
	       getline(&line, &capacity, maps) > 0) {
		uint64_t start, end;
		int name = 0;

		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %n", &start, &end,
			&name) == 2 &&
		    at >= start && at < end && line[name] == '/')
			found = plain_text(line + name, SIZE_MAX);
	}
	free(line);
	if (maps != NULL)
		fclose(maps);
	return found;
}

static void
take_bus_error(int number, siginfo_t *info, void *context)
{
	const char *name = info->si_code == BUS_ADRERR
			       ? file_mapped_at((uintptr_t)info->si_addr)
			       : NULL;

	(void)context;
	if (name != NULL)
		fail_with(EXIT_ERROR,
		    "%s: the file became shorter while umem read it", name);
	/* The read is repeated, and the signal ends the process. */
	signal(number, SIG_DFL);
}

void
cut_watch(void)
{
	/* fail_with() may leave the handler by longjmp(). */
	struct sigaction action = {.sa_sigaction = take_bus_error,
	    .sa_flags = SA_SIGINFO | SA_NODEFER};

	sigaction(SIGBUS, &action, NULL);
}
