/*
 * main.c - runs all unit tests, or the suites that are named
 *
 *	unit [suite ...]	CK_FORK=no runs them in one process, for gdb
 *	unit --list		prints the names of the suites, one per line
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/suites.h"

static const struct room *
find(const char *name)
{
	for (const struct room *room = rooms; room->name; room++)
		if (strcmp(room->name, name) == 0)
			return room;
	return NULL;
}

int
main(int argc, char **argv)
{
	SRunner *runner;
	int nfailed;

	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (const struct room *room = rooms; room->name; room++)
			puts(room->name);
		return EXIT_SUCCESS;
	}
	runner = srunner_create(NULL);
	for (const struct room *room = rooms; argc == 1 && room->name; room++)
		srunner_add_suite(runner, room->suite());
	for (int i = 1; i < argc; i++) {
		const struct room *room = find(argv[i]);

		if (room == NULL) {
			srunner_free(runner);
			fprintf(stderr, "unit: no tests for %s\n", argv[i]);
			return 2;
		}
		srunner_add_suite(runner, room->suite());
	}
	srunner_run_all(runner, CK_ENV);
	nfailed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return nfailed ? EXIT_FAILURE : EXIT_SUCCESS;
}
