/* print.h - human-readable figures, and JSON; see print.c */
#ifndef TOOLS_PRINT_H
#define TOOLS_PRINT_H

#include "tools/inspect/base/text.h"

/*
 * The texts of these functions are in several buffers that are used in turn.
 * size_text() returns bytes in the format of mdb's %H: 0, 960, 4K, 10.5K, 9.5M.
 */
const char *size_text(uint64_t bytes);

/*
 * Each figure that may be an estimate from samples is printed by one of these.
 * An estimate has "~" and two significant digits, because a hundred samples
 * tell no more: "~9.5M", "~+9.5M" for a growth, "~1200" for a number of blocks.
 */
const char *bytes_text(double bytes, bool estimated);
const char *growth_text(double growth, bool estimated);
const char *count_text(double n, bool estimated);

/* Returns "1 cache", "3 caches", "3 processes", and the same of an estimate. */
const char *counted(uint64_t n, const char *noun);
const char *blocks_text(double n, bool estimated);

/* Columns of text that is not made for a terminal of known size. */
#define TEXT_WIDTH 80

/* Returns the columns of the terminal to which output goes, or SIZE_MAX. */
size_t print_width(void);

/* Is this byte of UTF-8 behind the first one of a character? */
static inline bool
is_inside_character(char c)
{
	return (c & 0xc0) == 0x80;
}

/*
 * Returns a text without its middle part if it is longer than width, because
 * names often differ at the end.  The caller frees it.
 */
char *text_shortened(const char *text, size_t width);

/*
 * Returns a name for a column that has this width on a terminal of TEXT_WIDTH
 * columns: without its middle part if it is longer, and whole for a file or
 * pipe.
 */
char *print_name(const char *name, size_t width);

/*
 * Ends a row, of which so many columns are used, with a call site.  On a narrow
 * terminal it cuts the callers, and then the middle part of the name.
 */
void print_call_site(size_t used, const char *name, const char *callers);

/* Rounds a sum; those of a damaged core may be below 0, or too large. */
static inline uint64_t
rounded(double n)
{
	return n >= 0x1p64 ? UINT64_MAX : n > 0 ? (uint64_t)(n + 0.5) : 0;
}

/*
 * Streaming JSON on standard output, with --json only; key is NULL inside an
 * array.
 */
void json_open(const char *key, char bracket); /* '{' or '[' */
void json_close(void);
void json_text(const char *key, const char *text);
void json_number(const char *key, uint64_t number);
void json_rounded(const char *key, double number);    /* at least 0 */
void json_address(const char *key, uint64_t address); /* "0x..." */
void json_bool(const char *key, bool value);

/* Is --json given?  Otherwise commands print tables. */
extern bool json_wanted;

/* Prints a text, but not with --json. */
#define plain_print(...) (json_wanted ? 0 : printf(__VA_ARGS__))

/* Checks that all output was written, or ends with a message. */
int print_end(int status);

#endif
