/*
 * suites.h - the list of unit test suites
 *
 * The Makefile generates the list from the names of the files, so a new file
 * needs no edit.  For example, tests/unit/test_slab.c defines slab_suite().
 */
#ifndef TESTS_UNIT_SUITES_H
#define TESTS_UNIT_SUITES_H

#include <check.h>

struct room {
	const char *name;
	Suite *(*suite)(void);
};

/* The last entry has a NULL name. */
extern const struct room rooms[];

#endif
