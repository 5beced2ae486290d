/* common.c - exits, memory and options, for all files of the command */
#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/inspect/common.h"
#include "tools/inspect/memory.h"
#include "tools/inspect/print.h"
#include "tools/inspect/progress.h"
#include "tools/inspect/target.h"
#include "umem/base/number.h"

jmp_buf *fail_target;
bool fail_is_kept;
const char *fail_kept;

static void
print_message(const char *format, va_list arguments)
{
	static char kept[512];
	char text[4096 + 512]; /* a path and a message; kept may be in it */

	if (fail_is_kept) {
		vsnprintf(kept, sizeof(kept), format, arguments);
		fail_kept = kept;
		return;
	}
	vsnprintf(text, sizeof(text), format, arguments);
	progress_end();
	fflush(stdout);
	/* At once, because commands may run at the same time. */
	fprintf(stderr, "umem: %s\n", text);
}

void
print_warning(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_message(format, arguments);
	va_end(arguments);
}

_Noreturn void
fail_with(int status, const char *format, ...)
{
	va_list arguments;

	assert(status != EXIT_OK);
	va_start(arguments, format);
	print_message(format, arguments);
	va_end(arguments);
	if (fail_target != NULL)
		longjmp(*fail_target, status);
	exit(status);
}

bool
file_number(const char *path, const char *key, uint64_t *value)
{
	FILE *file = fopen(path, "re");
	size_t n = strlen(key);
	char line[256];
	bool found = false;

	while (file != NULL && !found && fgets(line, sizeof(line), file)) {
		uint64_t number;
		char *end;

		if (strncmp(line, key, n) != 0 ||
		    (n != 0 && line[n] != ' ' && line[n] != ':'))
			continue;
		number = strtoull(line + n + (n != 0), &end, 10);
		found = end != line + n + (n != 0);
		if (found)
			*value = number;
		if (n == 0)
			break;
	}
	if (file != NULL)
		fclose(file);
	return found;
}

void *
xalloc(size_t bytes)
{
	void *p;

	memory_take(bytes);
	p = calloc(1, bytes ? bytes : 1);

	if (p == NULL)
		fail_with(EXIT_ERROR, "out of memory");
	return p;
}

void *
xresize(void *old, size_t bytes)
{
	void *p;

	assert(bytes != 0);
	memory_take(bytes);
	p = realloc(old, bytes);
	if (p == NULL)
		fail_with(EXIT_ERROR, "out of memory");
	return p;
}

char *
xprint_list(const char *format, va_list arguments)
{
	char *text;

	if (vasprintf(&text, format, arguments) < 0)
		fail_with(EXIT_ERROR, "out of memory");
	return text;
}

char *
xprint(const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	text = xprint_list(format, arguments);
	va_end(arguments);
	return text;
}

/*
 * Characters that are not shown, but change how the text around them is shown:
 * its direction, or where a line ends.  A name with one of them could look like
 * another name.
 */
static bool
is_format_character(uint32_t code)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {{0xad, 0xad}, {0x61c, 0x61c}, {0x180e, 0x180e},
	    {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
	    {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0x1d173, 0x1d17a},
	    {0xe0000, 0xe007f}};

	for (size_t i = 0; i < array_size(ranges); i++)
		if (code >= ranges[i].first && code <= ranges[i].last)
			return true;
	return false;
}

/*
 * Returns the bytes of the character at text, which has n bytes left; 0: a
 * control or format character, or not UTF-8.  U+0080 to U+009F count as control
 * characters, because a terminal may obey them.
 */
static size_t
character_bytes(const unsigned char *text, size_t n)
{
	static const struct {
		unsigned char first_least, first_most, bytes;
		uint32_t least;
	} kinds[] = {{0xc2, 0xdf, 2, 0xa0}, {0xe0, 0xef, 3, 0x800},
	    {0xf0, 0xf4, 4, 0x10000}};

	assert(n > 0);
	if (text[0] < 0x80)
		return text[0] >= 0x20 && text[0] != 0x7f;
	for (size_t i = 0; i < array_size(kinds); i++) {
		size_t bytes = kinds[i].bytes;
		uint32_t code = text[0] & (0x7fu >> bytes);

		if (text[0] < kinds[i].first_least ||
		    text[0] > kinds[i].first_most || n < bytes)
			continue;
		for (size_t j = 1; j < bytes; j++) {
			if ((text[j] & 0xc0) != 0x80)
				return 0;
			code = code << 6 | (text[j] & 0x3f);
		}
		/* Surrogates are not characters. */
		return code >= kinds[i].least && code < 0x110000 &&
			       code >> 11 != 0xd800 >> 11 &&
			       !is_format_character(code)
			   ? bytes
			   : 0;
	}
	return 0;
}

const char *
plain_text(const char *text, size_t most)
{
	size_t n = strnlen(text, most), capacity = 4 * n + 1;
	char *plain = xalloc(capacity);
	size_t length = 0;

	for (size_t i = 0; i < n;) {
		size_t bytes =
		    character_bytes((const unsigned char *)text + i, n - i);

		if (bytes == 0) {
			snprintf(plain + length, capacity - length, "\\x%02x",
			    (unsigned char)text[i]);
			length += 4;
			i++;
			continue;
		}
		assert(bytes <= n - i);
		memcpy(plain + length, text + i, bytes);
		length += bytes;
		i += bytes;
	}
	assert(length < capacity);
	return plain;
}

bool
parse_address(const char *text, uint64_t *address)
{
	char *end;

	if (*text == '\0' || *text == '-' || *text == '+' || *text == ' ')
		return false;
	errno = 0;
	*address = strtoull(text, &end, 16);
	return errno == 0 && *end == '\0';
}

bool
parse_size(const char *text, uint64_t *bytes)
{
	return number_parse(text, /* takes_unit */ true, bytes) == NUMBER_OK;
}

uint64_t
address_argument(const char *text, const char *prefix, const char *noun)
{
	uint64_t address;

	if (!parse_address(text, &address))
		fail_with(EXIT_ERROR, "%s%s is no %s", prefix, text, noun);
	return address;
}

uint64_t
size_argument(const char *text, const char *prefix, const char *noun)
{
	uint64_t bytes;

	if (!parse_size(text, &bytes))
		fail_with(EXIT_ERROR, "%s%s is no %s", prefix, text, noun);
	return bytes;
}

double
seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int
next_long_option(
    int argc, char **argv, const char *letters, const struct option *longs)
{
	/* These letters stand for the common words. */
	assert(strpbrk(letters, "FJR") == NULL);
	for (;;) {
		char *name = argv[0];
		int letter;

		/* getopt_long() begins its messages with this word. */
		argv[0] = xprint("umem: %s", name);
		letter = getopt_long(argc, argv, letters, longs, NULL);
		free(argv[0]);
		argv[0] = name;
		if (letter == '?')
			fail_usage(argv[0], NULL);
		if (letter == 'F')
			memory_forced = true;
		else if (letter == 'J')
			json_wanted = true;
		else if (letter == 'R')
			target_sysroot = optarg;
		else
			return letter;
	}
}

int
next_option(int argc, char **argv, const char *letters)
{
	static const struct option longs[] = {
	    COMMON_OPTIONS, {NULL, 0, NULL, 0}};

	return next_long_option(argc, argv, letters, longs);
}

void
no_option(int argc, char **argv)
{
	int letter = next_option(argc, argv, "");

	assert(letter == -1);
	(void)letter;
}

const char *
target_argument(int argc, char **argv)
{
	no_option(argc, argv);
	return only_argument(argc, argv);
}

void
expect_arguments(int argc, char **argv, int least, int most)
{
	int n = argc - optind;

	if (n == 0 && least > 0)
		fail_usage(argv[0], "no argument is given");
	if (n < least)
		fail_usage(argv[0], "an argument is missing");
	if (n > most)
		fail_usage(argv[0],
		    xprint("one argument too many: %s", argv[optind + most]));
}

const char *
only_argument(int argc, char **argv)
{
	expect_arguments(argc, argv, 1, 1);
	return argv[optind];
}
