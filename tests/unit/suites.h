/*
 * suites.h - the list of unit test suites
 *
 * tests/unit/test_slab.c defines slab_suite(); the Makefile makes the list
 * from the names of the files, so a new one needs no edit.
 */
#ifndef TESTS_UNIT_SUITES_H
#define TESTS_UNIT_SUITES_H

#include <check.h>

struct room {
	const char *name;
	Suite *(*suite)(void);
};

/* Ends with a NULL name. */
extern const struct room rooms[];

#endif
