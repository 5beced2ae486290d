/* sites.h - blocks counted by the call site that allocated them; see sites.c */
#ifndef TOOLS_SITES_H
#define TOOLS_SITES_H

#include "tools/inspect/model.h"

/* Addresses of blocks that a tally keeps. */
#define SITE_ADDRESSES 10

/* A block to be counted. */
struct site_block {
	uint64_t at;
	uint64_t bytes;
	uint64_t held; /* bytes of other blocks that are lost with it */
	uint64_t time; /* of the allocation, in ns; 0: not known */
	const struct cache *cache; /* NULL: a large block or a sample */
	const uint64_t *stack;
	unsigned depth; /* of the stack; 0: no stack is known */
	bool sampled;
	double weight; /* of a sample: blocks that it stands for; else 1 */
};

/*
 * Blocks with one stack; or, without a stack, of one cache; or large, of one
 * size.
 */
struct site_tally {
	const uint64_t *stack;
	unsigned depth;
	bool sampled;
	const struct cache *cache; /* of blocks without a stack; NULL: large */
	uint64_t size;             /* of large blocks without a stack */
	unsigned bucket;           /* blocks among which samples are drawn */
	uint64_t nseen;
	double blocks, bytes, held;     /* of blocks seen, or an estimate */
	double more_blocks, more_bytes; /* estimates of blocks not seen */
	double variance;                /* of more_blocks */
	double by_age[64]; /* bytes and held bytes of blocks seen, by log2 */
	uint64_t oldest;   /* age in ns; 0: not known */
	uint64_t example;  /* address of the oldest block, or of one block */
	uint64_t at[SITE_ADDRESSES]; /* of the first blocks seen */
};

/* A row of a table: all blocks of one call site. */
struct site {
	const char *name;            /* "session_open (srv.c:17)" */
	struct site_tally **tallies; /* the largest first */
	size_t ntallies;
	uint64_t nseen;
	double blocks, bytes, held;
	double rate;     /* bytes per minute; negative: not known */
	uint64_t oldest; /* age in ns; 0: not known */
	bool estimated;
};

struct sites {
	struct model *model;
	uint64_t now; /* time from which ages count, in ns */
	void *tree;   /* of the tallies, for tsearch() */
	struct site_tally **tallies;
	size_t ntallies, tallies_capacity;
	struct site *rows; /* the largest first; after sites_finish() */
	size_t nrows, rows_capacity;
	double blocks, bytes; /* of all rows, without held bytes */
};

/* Returns the time from which ages count, in ns; a core's latest event. */
uint64_t sites_now(struct model *model);

void sites_add(struct sites *sites, const struct site_block *block);

/* Estimates blocks that were not sampled, and makes the rows. */
void sites_finish(struct sites *sites);

/* Returns all bytes of a row. */
static inline double
site_total(const struct site *site)
{
	return site->bytes + site->held;
}

/*
 * Returns the callers of a row's largest stack in short: " via strdup < main;
 * 2 more stacks".
 */
const char *site_callers(struct sites *sites, const struct site *site);

/* Return figures of a table: "~9.5M", "~1234", "2h10m" or "-". */
const char *site_bytes_text(double bytes, bool estimated);
const char *site_blocks_text(double blocks, bool estimated);
const char *site_age_text(uint64_t age);

/* Prints the stacks of a row, and addresses of blocks without a stack. */
void site_print_stacks(struct sites *sites, const struct site *site);

/* Prints a row as members of an open JSON object. */
void site_json(struct sites *sites, const struct site *site);

#endif
