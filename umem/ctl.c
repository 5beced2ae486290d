/*
 * ctl.c - umem_ctl(): options that may change while the program runs
 *
 * These are the options that are marked is_live in option_table.c: the library
 * reads their variables at each use.  "sample" goes by umem_sample(), because
 * its state has more than one word.
 */
#include <errno.h>

#include "umem/base/ready.h"
#include "umem/profile/sample.h"
#include "umem/option_table.h"
#include "umem/umem.h"
#include "vmem/string.h"

/* The option of this name that has a value; UMEM_OPTIONS comes first. */
static const struct option *
ctl_find(const char *name)
{
	for (unsigned i = 0; i < option_table_length; i++)
		if (string_is_equal(option_table[i].name, name) &&
		    option_target(&option_table[i]) != NULL)
			return &option_table[i];
	return NULL;
}

/* Parses a value other than the initial one; "yes" is that of a flag. */
static bool
ctl_parse(const struct option *option, const char *text, uint64_t *value)
{
	if (option->type == OPTION_FLAG) {
		*value = option_implied(option);
		return string_is_equal(text, "yes");
	}
	return option_parse(option, text, value) == NULL;
}

/* Returns 0 or an error number. */
static int
ctl_set(const struct option *option, const char *text)
{
	/* Such as "off" for sample. */
	const char *initial =
	    option->type == OPTION_FLAG ? "no" : option->initial_text;
	bool resets = initial[0] != '\0' && string_is_equal(text, initial);
	uint64_t value = 0;

	if (!option->is_live)
		return EPERM;
	if (!resets && !ctl_parse(option, text, &value))
		return EINVAL;
	if (option_target(option) == &sample_wanted)
		return umem_sample(value) == 0 ? 0 : errno;
	if (resets)
		option_reset(option);
	else
		option_store(option, value);
	return 0;
}

public int
umem_ctl(const char *name, const char *value, char *old, size_t bytes)
{
	int saved = errno, error;
	const struct option *option = ctl_find(name);
	struct message m = {.n = 0};

	umem_ready();
	if (option == NULL)
		return fail_int(ENOENT);
	if (option_target(option) == &sample_wanted)
		sample_refresh_option();
	option_report_value(&m, option);
	if (old != NULL && bytes <= m.n)
		return fail_int(ERANGE);
	error = value != NULL ? ctl_set(option, value) : 0;
	if (error != 0)
		return fail_int(error);
	if (old != NULL) {
		memcpy(old, m.text, m.n);
		old[m.n] = '\0';
	}
	errno = saved;
	return 0;
}
