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
extern hidden const char option_variable_names[OPTION_VARIABLES][16];

enum option_type {
	OPTION_FLAG,    /* takes no value; negates the initial one */
	OPTION_COUNT,   /* a decimal number */
	OPTION_SIZE,    /* a number of bytes, which may end in k, m, g or t */
	OPTION_SECONDS, /* a decimal number; the target has nanoseconds */
	OPTION_MILLISECONDS, /* a decimal number; the target has nanoseconds */
	OPTION_WORD,         /* one of option.words */
	OPTION_PATH          /* a text, stored as an absolute path */
};

/* A word that an option takes as its value; a list ends with an empty name. */
struct option_word {
	char name[8];
	uint64_t value;
};

struct option {
	char name[16];
	uint8_t variable;       /* enum option_variable */
	uint8_t type;           /* enum option_type */
	bool value_is_optional; /* the value may be missing: implied applies */
	bool is_clamped;        /* a value above maximum counts as maximum */
	bool is_live;           /* may change while the program runs */
	bool takes_share; /* a size may be a percentage of the cgroup's limit */
	uint8_t target;   /* see option_target() */
	uint8_t words;    /* see option_words() */
	uint32_t checks;  /* UMF_*, for the caches of a part of UMEM_DEBUG */
	uint64_t initial; /* of the target, before the options are read */
	uint64_t implied; /* stored if there is no value */
	uint64_t minimum, maximum; /* as the user writes them, inclusive */
	char initial_text[24];     /* "": initial, as a value */
	char help[64];
};

extern hidden const struct option option_table[];
extern hidden const unsigned option_table_length;

/* The variable that the value is stored in, or NULL. */
void *option_target(const struct option *option);

/* The words that the option takes; an empty list: a number only. */
const struct option_word *option_words(const struct option *option);

/* The value that is stored if there is none. */
static inline uint64_t
option_implied(const struct option *option)
{
	return option->type == OPTION_FLAG ? option->initial == 0
					   : option->implied;
}

/*
 * Parses a value as the user writes it: a word or a number.  Sets *value and
 * returns NULL, or returns what is wrong with the text.  Not for OPTION_FLAG
 * and OPTION_PATH.
 */
const char *option_parse(
    const struct option *option, const char *text, uint64_t *value);

/*
 * The value of the target, in the unit that the user writes.  Only for options
 * with a target that is a number.
 */
uint64_t option_value(const struct option *option);

/* The value of option_value() before the options are read, rounded down. */
uint64_t option_initial(const struct option *option);

/* Is the target of the option as it was before the options were read? */
bool option_is_initial(const struct option *option);

/* Stores a value that option_value() will return. */
void option_store(const struct option *option, uint64_t value);

/* Stores the initial value. */
void option_reset(const struct option *option);

/*
 * Stores the path that is the value of an OPTION_PATH.  A relative one begins
 * at the present working directory.  Returns false if it is too long.
 */
bool option_store_path(const struct option *option, const char *path);

/*
 * Appends the present value as text, "yes" or "no" for a flag; see
 * option_report.c.
 */
struct message;
void option_report_value(struct message *m, const struct option *option);

#endif
