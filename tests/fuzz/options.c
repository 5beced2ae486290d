/*
 * options.c - the texts of UMEM_OPTIONS, UMEM_DEBUG and UMEM_LOGGING
 *
 * The first byte of the input selects the variable, the rest is its text.  Each
 * item gives at most one message, which is one plain line.  Each option has a
 * value that it may have afterwards, and its text gives the same value again.
 *
 * test link: library
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "umem/debug/debug.h"
#include "umem/option_table.h"
#include "umem/umem.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/* The messages of the library are in this file, in memory. */
static const char log_path[] = "messages";
static int log_file;
static char said[1 << 16];

const char *_umem_options_init(void);

const char *
_umem_options_init(void)
{
	return "thread=no";
}

/* In place of the library's, so that an input creates no file. */
int
os_open_append(const char *path)
{
	return strcmp(path, log_path) == 0 ? dup(log_file) : -1;
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	log_file = memfd_create(log_path, MFD_CLOEXEC);
	fuzz_check(fcntl(log_file, F_SETFL, O_APPEND) == 0);
	umem_startup(NULL, 0, 0, NULL, NULL);
	return 0;
}

static void
reset(void)
{
	for (unsigned i = 0; i < option_table_length; i++) {
		const struct option *option = &option_table[i];
		char *target = option_target(option);

		if (target != NULL && option->type == OPTION_PATH)
			*target = '\0';
		else if (target != NULL)
			option_reset(option);
	}
	memset(debug.choice, 0, sizeof(debug.choice));
	debug.nchoices = 0;
	debug.on = false;
	memcpy(message_log, log_path, sizeof(log_path));
	fuzz_check(ftruncate(log_file, 0) == 0);
}

/* Returns the number of messages. */
static unsigned
check_said(void)
{
	ssize_t n = pread(log_file, said, sizeof(said) - 1, 0);
	unsigned lines = 0;

	fuzz_check(n >= 0);
	said[n] = '\0';
	for (char *line = said, *end; *line != '\0'; line = end + 1) {
		end = strchr(line, '\n');
		fuzz_check(end != NULL);
		fuzz_check(strncmp(line, "umem: ", 6) == 0);
		for (char *c = line; c < end; c++)
			fuzz_check((unsigned char)*c >= 0x20 && *c != 0x7f);
		lines++;
	}
	return lines;
}

/* The text of a value stands for the value. */
static void
check_value(const struct option *option)
{
	struct message m = {.n = 0};
	uint64_t value;

	if (option_target(option) == NULL || option->type == OPTION_PATH)
		return;
	option_report_value(&m, option);
	fuzz_check(m.n < sizeof(m.text));
	m.text[m.n] = '\0';
	if (option->type == OPTION_FLAG || option_is_initial(option))
		return;
	fuzz_check(option_parse(option, m.text, &value) == NULL);
	fuzz_check(value == option_value(option));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	unsigned kind = n == 0 ? 0 : data[0] % 3, items = 1;
	char text[4096];

	if (n == 0 || n > sizeof(text))
		return 0;
	memcpy(text, data + 1, n - 1);
	text[n - 1] = '\0';
	for (const char *c = text; *c != '\0'; c++)
		items += *c == ',' || *c == ';';
	reset();
	if (kind == 0)
		options_parse(text);
	else if (kind == 1)
		options_parse_debug(text);
	else
		options_parse_logging(text);
	memcpy(message_log, log_path, sizeof(log_path));
	fuzz_check(check_said() <= items);
	for (unsigned i = 0; i < option_table_length; i++)
		check_value(&option_table[i]);
	fuzz_check(ftruncate(log_file, 0) == 0);
	option_report_changes();
	check_said();
	reset();
	return 0;
}
