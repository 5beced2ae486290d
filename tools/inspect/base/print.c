/* print.c - human-readable figures, and JSON */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/inspect/base/print.h"

#define DEPTH_MAX 16

/* A call site has at least so many columns, however narrow the terminal is. */
#define CALL_SITE_MIN 20

bool json_wanted;

static char brackets[DEPTH_MAX];
static unsigned depth;
static bool first = true;

/* Bytes of the longest text of a figure, with its end. */
#define FIGURE_BYTES 48

/* Returns one of several buffers, which are used in turn. */
static char *
figure_buffer(void)
{
	static char texts[16][FIGURE_BYTES];
	static unsigned next;

	return texts[next++ % array_size(texts)];
}

const char *
size_text(uint64_t bytes)
{
	static const char units[] = "KMGTPE";
	char *text = figure_buffer();
	unsigned unit = 0;
	uint64_t tenths;

	if (bytes < 1024) {
		snprintf(text, FIGURE_BYTES, "%lu", bytes);
		return text;
	}
	for (; bytes >> 10 >= 1024 && unit + 1 < sizeof(units) - 1; unit++)
		bytes >>= 10;
	tenths = (bytes & 1023) * 10 / 1024;
	assert(units[unit] != '\0' && tenths < 10);
	if (tenths == 0)
		snprintf(text, FIGURE_BYTES, "%lu%c", bytes >> 10, units[unit]);
	else
		snprintf(text, FIGURE_BYTES, "%lu.%lu%c", bytes >> 10, tenths,
		    units[unit]);
	return text;
}

/* Rounds a whole number, or one below 10, to two significant digits. */
static double
two_digits(double n)
{
	double step = n < 9.95 ? 0.1 : 1;

	while (n / step >= 99.5)
		step *= 10;
	return floor(n / step + 0.5) * step;
}

/* Writes "9.5M": bytes, at least 0, to two significant digits. */
static void
rounded_text(char *text, double bytes)
{
	static const char units[] = "KMGTPE";
	unsigned unit = 0;

	/* Below 1000 of a unit, because 1010K would have three digits. */
	if (bytes < 999.5) {
		snprintf(
		    text, FIGURE_BYTES, "%.0f", two_digits(floor(bytes + 0.5)));
		return;
	}
	for (bytes /= 1024; bytes >= 999.5 && unit + 2 < sizeof(units); unit++)
		bytes /= 1024;
	snprintf(text, FIGURE_BYTES, "%.*f%c", bytes < 9.95, two_digits(bytes),
	    units[unit]);
}

const char *
bytes_text(double bytes, bool estimated)
{
	char *text;

	if (!estimated || bytes < 0.5)
		return size_text(rounded(bytes));
	text = figure_buffer();
	text[0] = '~';
	rounded_text(text + 1, bytes);
	return text;
}

const char *
growth_text(double growth, bool estimated)
{
	const char *sign = growth >= 0.5 ? "+" : growth <= -0.5 ? "-" : "";
	const char *bytes = bytes_text(fabs(growth), estimated);
	bool about = *bytes == '~';
	char *text = figure_buffer();

	snprintf(text, FIGURE_BYTES, "%s%s%s", about ? "~" : "", sign,
	    bytes + about);
	return text;
}

const char *
count_text(double n, bool estimated)
{
	char *text = figure_buffer();

	if (estimated && n < 0.5)
		return n > 0 ? "<1" : "0";
	snprintf(text, FIGURE_BYTES, "%s%.0f", estimated ? "~" : "",
	    estimated ? two_digits(floor(n + 0.5)) : n);
	return text;
}

const char *
counted(uint64_t n, const char *noun)
{
	const char *end = noun[strlen(noun) - 1] == 's' ? "es" : "s";
	char *text = figure_buffer();

	snprintf(text, FIGURE_BYTES, "%lu %s%s", n, noun, n == 1 ? "" : end);
	return text;
}

const char *
blocks_text(double n, bool estimated)
{
	char *text = figure_buffer();

	snprintf(text, FIGURE_BYTES, "%s block%s", count_text(n, estimated),
	    n >= 0.5 && n < 1.5 ? "" : "s");
	return text;
}

size_t
print_width(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size = {0};

	if (!isatty(STDOUT_FILENO))
		return SIZE_MAX;
	if (columns != NULL && strtoul(columns, NULL, 10) > 0)
		return strtoul(columns, NULL, 10);
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
		return SIZE_MAX;
	return size.ws_col;
}

char *
text_shortened(const char *text, size_t width)
{
	size_t n = strlen(text), head = width / 2 - 1,
	       tail = n - width + width / 2 + 1;

	assert(width >= 2);
	if (n <= width)
		return xprint("%s", text);
	while (is_inside_character(text[head]))
		head--;
	while (is_inside_character(text[tail]))
		tail++;
	return xprint("%.*s..%s", (int)head, text, text + tail);
}

char *
print_name(const char *name, size_t width)
{
	size_t columns = print_width();

	if (columns > TEXT_WIDTH)
		width += columns - TEXT_WIDTH;
	return text_shortened(name, width);
}

void
print_call_site(size_t used, const char *name, const char *callers)
{
	size_t width = print_width(), n = strlen(name);
	size_t space =
	    width > used + CALL_SITE_MIN ? width - used : CALL_SITE_MIN;

	if (n + strlen(callers) <= space) {
		printf("%s%s\n", name, callers);
	} else if (n + 2 <= space) {
		for (n = space - n - 2; is_inside_character(callers[n]);)
			n--;
		printf("%s%.*s..\n", name, (int)n, callers);
	} else {
		char *text = text_shortened(name, space);

		puts(text);
		free(text);
	}
}

static void
put_string(const char *text)
{
	putchar('"');
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

/* Begins a value; returns false without --json. */
static bool
put_key(const char *key)
{
	if (!json_wanted)
		return false;
	/* Members of an object have a key, elements of an array have none. */
	assert((key != NULL) == (depth != 0 && brackets[depth - 1] == '}'));
	if (!first)
		putchar(',');
	if (depth != 0)
		printf("\n%*s", (int)(2 * depth), "");
	first = false;
	if (key != NULL) {
		put_string(key);
		fputs(": ", stdout);
	}
	return true;
}

void
json_open(const char *key, char bracket)
{
	assert(bracket == '{' || bracket == '[');
	if (!put_key(key))
		return;
	putchar(bracket);
	assert(depth < DEPTH_MAX);
	brackets[depth++] = bracket == '{' ? '}' : ']';
	first = true;
}

void
json_close(void)
{
	if (!json_wanted)
		return;
	assert(depth > 0);
	depth--;
	if (!first)
		printf("\n%*s", (int)(2 * depth), "");
	putchar(brackets[depth]);
	first = depth == 0;
	if (first)
		putchar('\n');
}

void
json_text(const char *key, const char *text)
{
	if (put_key(key))
		put_string(text);
}

void
json_number(const char *key, uint64_t number)
{
	if (put_key(key))
		printf("%lu", number);
}

void
json_rounded(const char *key, double number)
{
	json_number(key, rounded(number));
}

void
json_address(const char *key, uint64_t address)
{
	if (put_key(key))
		printf("\"0x%lx\"", address);
}

void
json_bool(const char *key, bool value)
{
	if (put_key(key))
		fputs(value ? "true" : "false", stdout);
}

int
print_end(int status)
{
	/* Every bracket of the command's JSON was closed. */
	assert(depth == 0);
	if (fflush(stdout) != 0 && errno != EPIPE)
		fail_with(EXIT_ERROR, "standard output: %s", strerror(errno));
	if (ferror(stdout) && errno != EPIPE)
		fail_with(EXIT_ERROR, "standard output: a write failed");
	return status;
}
