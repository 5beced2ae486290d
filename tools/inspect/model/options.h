/* options.h - the options of the target's library; see options.c */
#ifndef TOOLS_OPTIONS_H
#define TOOLS_OPTIONS_H

#include "tools/inspect/model/layout.h"

struct target_option {
	const char *name;
	unsigned type;       /* the target's OPTION_FLAG and so on */
	bool live;           /* may change while the program runs */
	bool clamped;        /* a value above the maximum is the maximum */
	bool is_log;         /* a word of UMEM_LOGGING */
	bool shares;         /* takes a share of the cgroup's limit */
	uint64_t at, bytes;  /* of the variable */
	uint64_t value;      /* the variable, as it is stored */
	uint64_t initial;    /* the value before the options were read */
	const char *meaning; /* of the initial value; "": the value itself */
	uint64_t minimum, maximum; /* as the user writes them */
	uint64_t words;            /* the target's list of words */
};

/* The options that have a variable. */
struct target_options {
	struct target *target;
	const struct layout *layout;
	struct target_option *option;
	size_t n;
};

/* Reads the options; n is 0 if a core does not have them. */
struct target_options options_read(
    struct target *target, const struct layout *layout);

/* Returns the option of this name, or NULL. */
const struct target_option *options_find(
    const struct target_options *options, const char *name);

/* Returns the name most like this one, or NULL. */
const char *options_nearest(
    const struct target_options *options, const char *name);

/* Returns the value as the user writes it, "yes" or "no" for a flag. */
const char *options_text(const struct target_options *options,
    const struct target_option *option, uint64_t value);

/*
 * Parses a value as options_text() returns it, and as it is to be stored.
 * Returns NULL, or the reason for which it is wrong.
 */
const char *options_parse(const struct target_options *options,
    const struct target_option *option, const char *text, uint64_t *value);

/*
 * Returns the words that differ from their defaults, those of UMEM_LOGGING
 * behind its name, "none", or "unknown" if the target lacks the table.
 */
const char *options_changed(const struct target_options *options);

#endif
