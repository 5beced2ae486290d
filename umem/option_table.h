/* option_table.h - the table of the options; see option_table.c */
#ifndef UMEM_OPTION_TABLE_H
#define UMEM_OPTION_TABLE_H

#include "umem/options.h"
#include "vmem/base.h"

enum option_variable {
	OPTION_OPTIONS, /* UMEM_OPTIONS */
	OPTION_DEBUG,   /* UMEM_DEBUG */
	OPTION_LOGGING, /* UMEM_LOGGING */
	OPTION_VARIABLES
};

/* The names of the three variables, by enum option_variable. */
extern const char option_variable_names[OPTION_VARIABLES][16];

enum option_type {
	OPTION_FLAG,    /* takes no value */
	OPTION_COUNT,   /* a decimal number */
	OPTION_SIZE,    /* a number of bytes, which may end in k, m, g or t */
	OPTION_SECONDS, /* a decimal number; the target has nanoseconds */
	OPTION_MILLISECONDS, /* a decimal number; the target has nanoseconds */
	OPTION_WORD          /* one of option.words */
};

/* A word that an option takes as its value; a list ends with an empty name. */
struct option_word {
	char name[8];
	uint64_t value;
};

/* option.implied: a missing value leaves the target as it is. */
#define OPTION_UNCHANGED UINT64_MAX

/*
 * One option.  An option without target, checks and apply is accepted without
 * effect.
 */
struct option {
	char name[16];
	uint8_t variable;       /* enum option_variable */
	uint8_t type;           /* enum option_type */
	bool value_is_optional; /* the value may be missing: implied applies */
	bool is_clamped;        /* a value above maximum counts as maximum */
	uint8_t target_bytes;   /* size of the target: 1, 4 or 8 */
	uint32_t checks;  /* UMF_*, for the caches of a part of UMEM_DEBUG */
	void *target;     /* variable that the value is stored in, or NULL */
	uint64_t initial; /* of the target, before the options are read */
	uint64_t implied; /* stored if there is no value */
	uint64_t minimum, maximum; /* as the user writes them, inclusive */
	const struct option_word *words; /* NULL: a number only */
	const char *initial_text;        /* NULL: initial, as a value */
	const char *wrong;               /* message about a refused value */
	bool (*apply)(size_t value); /* NULL, or does more than the target */
	const char *help;
};

extern const struct option option_table[];
extern const unsigned option_table_length;

/*
 * The value of the target, in the unit that the user writes.  Only for options
 * with a target.
 */
uint64_t option_value(const struct option *option);

/* The value of option_value() before the options are read, rounded down. */
uint64_t option_initial(const struct option *option);

/* Is the target of the option as it was before the options were read? */
bool option_is_initial(const struct option *option);

/* Stores a value that option_value() will return. */
void option_store(const struct option *option, uint64_t value);

#endif
