/* sites.h - blocks counted by the call site that allocated them; see sites.c */
#ifndef TOOLS_SITES_H
#define TOOLS_SITES_H

#include "tools/inspect/model/model.h"

/* Addresses of blocks that a tally keeps. */
#define SITE_ADDRESSES 10

/* A block to be counted. */
struct site_block {
	uint64_t at;
	uint64_t bytes;
	uint64_t n;    /* blocks like this one, which are counted at once */
	uint64_t held; /* bytes of other blocks that are lost with it */
	uint64_t time; /* of the allocation, in ns; 0: not known */
	/* NULL: a large block, or a sample that is no object of a cache */
	const struct cache *cache;
	const uint64_t *stack;
	unsigned depth;    /* of the stack; 0: no stack is known */
	const char *class; /* of an object without a stack; or NULL */
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
	const char *class;         /* of objects without a stack; or NULL */
	uint64_t size;             /* of large blocks without a stack */
	unsigned bucket;           /* blocks among which samples are drawn */
	uint64_t nseen;
	double blocks, bytes, held;     /* of blocks seen, or an estimate */
	double part;                    /* of the bytes; see struct sum_kind */
	double more_blocks, more_bytes; /* estimates of blocks not seen */
	double more_held;
	double blocks_variance, held_variance; /* of more_blocks, more_held */
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
	double blocks, bytes, held, part;
	double rate;     /* bytes per minute; negative: not known */
	uint64_t oldest; /* age in ns; 0: not known */
	bool estimated;
};

/* The sum of a stack that is counted instead of blocks, and a part of it. */
struct sum_kind {
	size_t sum, part; /* offsets in struct sample_sums; part 0: none */
	const char *part_title, *part_key, *verb;
};

struct sites {
	struct model *model;
	bool are_leaks;                  /* the table has columns for leaks */
	const struct sum_kind *sum_kind; /* if sums are counted; or NULL */
	const char *caller; /* selects stacks with this in a name; or NULL */
	uint64_t now;       /* time from which ages count, in ns */
	/* Bytes that all blocks hold, if another table has them; else 0. */
	double all_held;
	void *tree; /* of the tallies, for tsearch() */
	struct site_tally **tallies;
	size_t ntallies, tallies_capacity;
	struct site *rows; /* the largest first; after sites_finish() */
	size_t nrows, rows_capacity;
	double blocks, bytes; /* of all rows, without held bytes */
	double all_bytes;     /* with rows that are suppressed or not wanted */
	double suppressed_blocks, suppressed_bytes; /* in no row */
	bool estimated;                             /* figures of rows */
	bool has_unknown;                           /* call sites in rows */
};

void sites_add(struct sites *sites, const struct site_block *block);

/* Adds a sum of a stack, and how many of the bytes are a part. */
void sites_add_sum(struct sites *sites, const struct sample_sums *stack,
    const struct sample_sum *sum, double part);

/* Estimates blocks that were not sampled, and makes the rows. */
void sites_finish(struct sites *sites);

/* Returns all bytes of a row. */
static inline double
site_total(const struct site *site)
{
	return site->bytes + site->held;
}

/* Counts a chunk of a slab, or a large block, with its record. */
void sites_add_buffer(struct sites *sites, const struct slab *slab,
    const struct large *large, unsigned i, uint64_t held);

/* Returns the bytes that it counts: the requested ones if they are known. */
uint64_t site_bytes_of(struct model *model, const struct slab *slab,
    const struct large *large, unsigned i);

/*
 * Returns the class of the C++ object at at, by its virtual table, or NULL.
 * Two objects of one class have one text.
 */
const char *site_class_of(struct model *model, uint64_t at);

static inline double
site_tally_total(const struct site_tally *t)
{
	return t->bytes + t->held;
}

/* Returns the name of the row of a tally. */
const char *site_tally_name(struct model *model, const struct site_tally *t);

/* Callers of the call site in a row. */
#define SITE_CALLERS 3

/*
 * Returns the callers of a row's largest stack, at most so many: " via strdup <
 * main; 2 more stacks".
 */
const char *site_callers(
    struct sites *sites, const struct site *site, unsigned most);

/* Rows of a table that are printed if not every row is wanted. */
#define SITES_ROWS 20

/* Prints the table, with shares of all bytes. */
void sites_print(struct sites *sites, double all, bool every);

/* Prints the stacks of the rows, with a suffix for their names. */
void sites_print_details(struct sites *sites, const char *suffix, bool every);

/* Returns "~9.5M leaked in 2 blocks"; verb: " leaked". */
const char *sites_sum_text(
    double bytes, double blocks, bool estimated, const char *verb);

/* Returns "no leaks found", or "no allocated blocks from CALLER found". */
const char *sites_none_text(bool are_leaks, const char *caller);

/* Prints a note about so many bytes and blocks that patterns have matched. */
void sites_print_suppressed(double bytes, double blocks, bool estimated);

/* Explains such tables. */
void sites_print_notes(struct model *model, bool estimated, bool unknown);

/* Returns an age, of ns, as text: "2h10m"; "-": not known. */
const char *site_age_text(uint64_t age);

/* Prints a row as members of an open JSON object. */
void site_json(struct sites *sites, const struct site *site);

#endif
