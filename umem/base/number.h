/*
 * number.h - decimal numbers and sizes in options and arguments
 *
 * The command umem includes this file too, so it depends on no other header of
 * the library.
 */
#ifndef UMEM_NUMBER_H
#define UMEM_NUMBER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Units of a size, in ascending powers of 1024. */
#define NUMBER_UNITS "kmgt"

enum number_result {
	NUMBER_OK,
	NUMBER_MALFORMED,
	NUMBER_OVERFLOWED
};

/*
 * Parses a decimal number, without a sign or blanks.  If takes_unit is true,
 * one letter of NUMBER_UNITS in either case may follow.  Sets *n if the result
 * is NUMBER_OK.
 */
static inline enum number_result
number_parse(const char *text, bool takes_unit, uint64_t *n)
{
	static const char units[] = NUMBER_UNITS;
	uint64_t value = 0;
	const char *unit = units;
	unsigned shift;

	if (*text < '0' || *text > '9')
		return NUMBER_MALFORMED;
	for (; *text >= '0' && *text <= '9'; text++) {
		uint64_t digit = (uint64_t)(*text - '0');

		if (value > (UINT64_MAX - digit) / 10)
			return NUMBER_OVERFLOWED;
		value = value * 10 + digit;
	}
	if (*text != '\0') {
		while (*unit != '\0' && *unit != (*text | 0x20))
			unit++;
		if (!takes_unit || *unit == '\0' || text[1] != '\0')
			return NUMBER_MALFORMED;
		shift = (unsigned)(unit - units + 1) * 10;
		if (value > UINT64_MAX >> shift)
			return NUMBER_OVERFLOWED;
		value <<= shift;
	}
	*n = value;
	return NUMBER_OK;
}

/*
 * Parses a share of all bytes, from "1%" to "100%".  Sets *n to that share,
 * rounded down to a multiple of a MiB, if the text is one.
 */
static inline bool
number_parse_share(const char *text, uint64_t all, uint64_t *n)
{
	size_t length = strlen(text);
	char digits[4];
	uint64_t percent;

	if (length < 2 || length > sizeof(digits) || text[length - 1] != '%')
		return false;
	memcpy(digits, text, length - 1);
	digits[length - 1] = '\0';
	if (number_parse(digits, false, &percent) != NUMBER_OK || percent < 1 ||
	    percent > 100)
		return false;
	*n = (all / 100 * percent + all % 100 * percent / 100) >> 20 << 20;
	return true;
}

#endif
