/*
 * word.h - the known word that a mistyped one may stand for
 *
 * The command umem includes this file too, so it depends on no other header of
 * the library.
 */
#ifndef UMEM_WORD_H
#define UMEM_WORD_H

#include <stdbool.h>
#include <string.h>

/* Words of more bytes are like no other word. */
#define WORD_MAX 16

static inline unsigned
word_least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

static inline char
word_lower(char c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

/* Do the two bytes that end at a and at b differ only in their order? */
static inline bool
word_is_swapped(const char *a, const char *b)
{
	return word_lower(a[0]) == word_lower(b[-1]) &&
	       word_lower(a[-1]) == word_lower(b[0]);
}

/*
 * The number of typing mistakes between two words of at most WORD_MAX bytes: a
 * byte that is missing, added or wrong, or two that are swapped.  Upper and
 * lower case count as equal.  (Damerau's distance, for adjacent bytes.)
 */
static inline unsigned
word_distance(const char *a, const char *b)
{
	size_t na = strlen(a), nb = strlen(b);
	unsigned d[WORD_MAX + 1][WORD_MAX + 1];

	for (unsigned i = 0; i <= na; i++)
		for (unsigned j = 0; j <= nb; j++) {
			unsigned wrong;

			if (i == 0 || j == 0) {
				d[i][j] = i + j;
				continue;
			}
			wrong = word_lower(a[i - 1]) != word_lower(b[j - 1]);
			d[i][j] = word_least(d[i - 1][j - 1] + wrong,
			    word_least(d[i - 1][j], d[i][j - 1]) + 1);
			if (i > 1 && j > 1 &&
			    word_is_swapped(&a[i - 1], &b[j - 1]))
				d[i][j] =
				    word_least(d[i][j], d[i - 2][j - 2] + 1);
		}
	return d[na][nb];
}

/*
 * Offers a known word as the one that typed may stand for.  Returns the better
 * one of it and best, the word returned for those before, or NULL.  A word of
 * fewer than six bytes may have one mistake, a longer one two.
 */
static inline const char *
word_nearer(const char *typed, const char *known, const char *best)
{
	size_t n = strlen(typed), nknown = strlen(known);
	unsigned distance;

	if (n < 2 || n > WORD_MAX || nknown > WORD_MAX)
		return best;
	distance = word_distance(typed, known);
	if (distance > (nknown < 6 ? 1 : 2))
		return best;
	return best == NULL || distance < word_distance(typed, best) ? known
								     : best;
}

#endif
