/*
 * bignum.c - long numbers, each in a small block that lives for a moment
 *
 *	bignum		processor time of an operation, in ns
 *
 * The program expands the square root of a number of 117 bits into its
 * continued fraction, and looks for small prime factors of the complete
 * quotients' denominators, as the factoring method of Morrison and Brillhart
 * does.  Each sum, product, quotient and remainder is a new block of 8 to 32
 * bytes, and nearly all are freed within the next few operations.  A fixed
 * amount of work, checked at the end.
 *
 * Source: cfrac, a program that the collections of allocator benchmarks use;
 * the pattern of its blocks.
 *
 * Usage: bignum [scale]
 */
#include "tests/bench/bench.h"

#define NPRIMES 60
#define RADICAND                                                               \
	((unsigned __int128)0x1d3c6b2a94f817ULL << 64 | 0x35a1c9d0e27b4f83ULL)

/* Digits of 16 bits, the lowest first; without zeros at the high end. */
struct number {
	uint16_t nusers;
	uint16_t ndigits;
	uint16_t digit[];
};

static size_t noperations;

static struct number *
number_new(unsigned ndigits)
{
	struct number *number =
	    bench_alloc(sizeof(*number) + ndigits * sizeof(uint16_t));

	noperations++;
	number->nusers = 1;
	number->ndigits = (uint16_t)ndigits;
	return number;
}

static void
number_drop(struct number *number)
{
	if (--number->nusers == 0)
		free(number);
}

static struct number *
number_trim(struct number *number)
{
	while (number->ndigits > 0 && number->digit[number->ndigits - 1] == 0)
		number->ndigits--;
	return number;
}

static struct number *
number_from(uint64_t value)
{
	struct number *number = number_new(4);

	for (unsigned i = 0; i < 4; i++)
		number->digit[i] = (uint16_t)(value >> 16 * i);
	return number_trim(number);
}

static uint64_t
number_value(const struct number *number)
{
	uint64_t value = 0;

	for (unsigned i = number->ndigits; i-- > 0;)
		value = value << 16 | number->digit[i];
	return value;
}

static struct number *
number_add(const struct number *a, const struct number *b)
{
	unsigned n = a->ndigits > b->ndigits ? a->ndigits : b->ndigits;
	struct number *sum = number_new(n + 1);
	uint32_t carry = 0;

	for (unsigned i = 0; i <= n; i++) {
		carry += (i < a->ndigits ? a->digit[i] : 0) +
			 (i < b->ndigits ? b->digit[i] : 0);
		sum->digit[i] = (uint16_t)carry;
		carry >>= 16;
	}
	return number_trim(sum);
}

/* a - b; a is not less than b. */
static struct number *
number_subtract(const struct number *a, const struct number *b)
{
	struct number *rest = number_new(a->ndigits);
	int32_t borrow = 0;

	for (unsigned i = 0; i < a->ndigits; i++) {
		borrow += a->digit[i] - (i < b->ndigits ? b->digit[i] : 0);
		rest->digit[i] = (uint16_t)borrow;
		borrow >>= 16;
	}
	return number_trim(rest);
}

static struct number *
number_multiply(const struct number *a, const struct number *b)
{
	unsigned n = a->ndigits + b->ndigits;
	struct number *product = number_new(n);

	memset(product->digit, 0, n * sizeof(uint16_t));
	for (unsigned i = 0; i < a->ndigits; i++) {
		uint64_t carry = 0;

		for (unsigned j = 0; j < b->ndigits || carry > 0; j++) {
			carry += product->digit[i + j];
			if (j < b->ndigits)
				carry += (uint32_t)a->digit[i] * b->digit[j];
			product->digit[i + j] = (uint16_t)carry;
			carry >>= 16;
		}
	}
	return number_trim(product);
}

/* The quotient; *rest becomes a number, too. */
static struct number *
number_divide(const struct number *a, uint16_t b, struct number **rest)
{
	struct number *quotient = number_new(a->ndigits);
	uint32_t left = 0;

	for (unsigned i = a->ndigits; i-- > 0;) {
		left = left << 16 | a->digit[i];
		quotient->digit[i] = (uint16_t)(left / b);
		left %= b;
	}
	*rest = number_from(left);
	return number_trim(quotient);
}

/* How often the primes divide the number. */
static unsigned
number_factors(struct number *number, const uint16_t *prime)
{
	unsigned found = 0;

	number->nusers++;
	for (unsigned i = 0; i < NPRIMES && number->ndigits > 0; i++) {
		struct number *rest;
		struct number *quotient =
		    number_divide(number, prime[i], &rest);

		if (rest->ndigits == 0) {
			number_drop(number);
			number = quotient;
			number->nusers++;
			found++;
			i--; /* it may divide the quotient again */
		}
		number_drop(quotient);
		number_drop(rest);
	}
	number_drop(number);
	return found;
}

static void
primes_find(uint16_t *prime)
{
	unsigned n = 0;

	for (uint16_t i = 2; n < NPRIMES; i++) {
		bool divided = false;

		for (unsigned j = 0; j < n && !divided; j++)
			divided = i % prime[j] == 0;
		if (!divided)
			prime[n++] = i;
	}
}

static uint64_t
square_root(unsigned __int128 n)
{
	uint64_t root = 0;

	for (int bit = 63; bit >= 0; bit--) {
		uint64_t trial = root | (uint64_t)1 << bit;

		if ((unsigned __int128)trial * trial <= n)
			root = trial;
	}
	return root;
}

/*
 * Term k of the expansion is a = (root + p) / q.  The next p is a * q - p, and
 * the next q is (the q before) + a * (p - next p).  Always is
 * p * p + q * (the q before) = N.
 */
static void
expand(size_t nterms)
{
	unsigned __int128 n = RADICAND;
	uint64_t root = square_root(n);
	uint16_t prime[NPRIMES];
	struct number *p = number_from(root), *q0 = number_from(1);
	struct number *q =
	    number_from((uint64_t)(n - (unsigned __int128)root * root));
	unsigned long nfactors = 0;

	primes_find(prime);
	for (size_t k = 0; k < nterms; k++) {
		uint64_t value = (root + number_value(p)) / number_value(q);
		struct number *a = number_from(value);
		struct number *aq = number_multiply(a, q);
		struct number *next = number_subtract(aq, p), *change, *q2;
		bool less = number_value(next) > number_value(p);
		struct number *step =
		    less ? number_subtract(next, p) : number_subtract(p, next);

		change = number_multiply(a, step);
		q2 =
		    less ? number_subtract(q0, change) : number_add(q0, change);
		number_drop(a);
		number_drop(aq);
		number_drop(step);
		number_drop(change);
		number_drop(p);
		number_drop(q0);
		p = next;
		q0 = q;
		q = q2;
		nfactors += number_factors(q, prime);
	}
	if ((unsigned __int128)number_value(p) * number_value(p) +
		    (unsigned __int128)number_value(q) * number_value(q0) !=
		n ||
	    nfactors == 0) {
		fprintf(stderr, "bignum: wrong result\n");
		abort();
	}
	number_drop(p);
	number_drop(q);
	number_drop(q0);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);
	double start = bench_cpu_ns();

	expand(bench_count(200000, scale));
	bench_print(
	    (bench_cpu_ns() - start) / (double)noperations, "ns", "bignum");
	return 0;
}
