/*
 * pprof.c - blocks by their stacks as a profile for pprof
 *
 * The format is profile.proto of github.com/google/pprof, a message of Protocol
 * Buffers.  A field is a key (number and wire type), followed by a number in
 * groups of seven bits or by a length and bytes; a message in a message is such
 * bytes.  A message refers to a text, function, location or mapping by its
 * number in a table.  Number 0 is the empty text; the others begin with 1.
 *
 * A profile has four types.  The blocks in use of a stack and the sums of all
 * that it has allocated are two samples, each with zeros for the other.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/inspect/report/pprof.h"
#include "tools/inspect/symbols/symbols.h"

/* Fields of profile.proto. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_TIME_NS = 9,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD = 12,
	PROFILE_DEFAULT_TYPE = 14,
	TYPE_NAME = 1,
	TYPE_UNIT = 2,
	SAMPLE_LOCATIONS = 1,
	SAMPLE_VALUES = 2,
	MAPPING_NUMBER = 1,
	MAPPING_START = 2,
	MAPPING_END = 3,
	MAPPING_OFFSET = 4,
	MAPPING_FILE = 5,
	MAPPING_BUILD_ID = 6,
	MAPPING_HAS_FUNCTIONS = 7,
	MAPPING_HAS_FILES = 8,
	MAPPING_HAS_LINES = 9,
	LOCATION_NUMBER = 1,
	LOCATION_MAPPING = 2,
	LOCATION_ADDRESS = 3,
	LOCATION_LINE = 4,
	LINE_FUNCTION = 1,
	LINE_NUMBER = 2,
	FUNCTION_NUMBER = 1,
	FUNCTION_NAME = 2,
	FUNCTION_SYSTEM_NAME = 3,
	FUNCTION_FILE = 4
};

/* A message under construction. */
struct bytes {
	char *at;
	size_t n, capacity;
};

/* The number of a text or an address. */
struct numbered {
	const char *text; /* or NULL */
	uint64_t address;
	uint64_t number;
};

struct numbers {
	void *tree;
	uint64_t n;
};

struct pprof {
	struct model *model;
	struct bytes profile;
	struct numbers texts, functions, locations, mappings;
};

static void
put_byte(struct bytes *bytes, unsigned byte)
{
	ARRAY_ADD(bytes->at, bytes->n, bytes->capacity, (char)byte);
}

static void
put_varint(struct bytes *bytes, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		put_byte(bytes, (unsigned)(value & 0x7f) | 0x80);
	put_byte(bytes, (unsigned)value);
}

static void
put_number(struct bytes *bytes, unsigned field, uint64_t value)
{
	put_varint(bytes, field << 3);
	put_varint(bytes, value);
}

static void
put_block(struct bytes *bytes, unsigned field, const char *block, size_t n)
{
	put_varint(bytes, field << 3 | 2);
	put_varint(bytes, n);
	for (size_t i = 0; i < n; i++)
		put_byte(bytes, (unsigned char)block[i]);
}

/* Puts a message into another, and frees it. */
static void
put_message(struct bytes *bytes, unsigned field, struct bytes *message)
{
	put_block(bytes, field, message->at, message->n);
	free(message->at);
	*message = (struct bytes){0};
}

static int
order_numbered(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;

	if (x->text != NULL)
		return strcmp(x->text, y->text);
	return order_numbers(x->address, y->address);
}

/* Returns the number of a text or an address; *is_new: it had none. */
static uint64_t
number_of(
    struct numbers *numbers, const char *text, uint64_t address, bool *is_new)
{
	struct numbered key = {.text = text, .address = address}, *item;

	item = tree_item(
	    &numbers->tree, &key, sizeof(key), order_numbered, is_new);
	if (*is_new)
		item->number = ++numbers->n;
	return item->number;
}

/* The first entry of the table of texts, number 0, is the empty text. */
static uint64_t
text_number(struct pprof *pprof, const char *text)
{
	bool is_new;
	uint64_t number = number_of(&pprof->texts, text, 0, &is_new) - 1;

	if (is_new)
		put_block(&pprof->profile, PROFILE_STRING, text, strlen(text));
	return number;
}

static void
put_type(
    struct pprof *pprof, unsigned field, const char *name, const char *unit)
{
	struct bytes type = {0};

	put_number(&type, TYPE_NAME, text_number(pprof, name));
	put_number(&type, TYPE_UNIT, text_number(pprof, unit));
	put_message(&pprof->profile, field, &type);
}

/*
 * Returns the number of the mapping that has an address; 0: none has.  pprof
 * would look for names of its own if the mapping said that it has none.
 */
static uint64_t
mapping_number(struct pprof *pprof, uint64_t pc)
{
	struct target *target = pprof->model->target;
	const struct mapping *m = target_file_at(target, pc);
	struct bytes mapping = {0};
	uint64_t number;
	bool is_new;

	if (m == NULL)
		return 0;
	number = number_of(&pprof->mappings, NULL, m->start, &is_new);
	if (!is_new)
		return number;
	put_number(&mapping, MAPPING_NUMBER, number);
	put_number(&mapping, MAPPING_START, m->start);
	put_number(&mapping, MAPPING_END, m->end);
	put_number(&mapping, MAPPING_OFFSET, m->offset);
	put_number(&mapping, MAPPING_FILE, text_number(pprof, m->name));
	put_number(&mapping, MAPPING_BUILD_ID,
	    text_number(pprof, symbol_build_id(target, pc)));
	put_number(&mapping, MAPPING_HAS_FUNCTIONS, 1);
	put_number(&mapping, MAPPING_HAS_FILES, 1);
	put_number(&mapping, MAPPING_HAS_LINES, 1);
	put_message(&pprof->profile, PROFILE_MAPPING, &mapping);
	return number;
}

static uint64_t
function_number(struct pprof *pprof, const char *name, const char *file)
{
	struct bytes function = {0};
	bool is_new;
	uint64_t number = number_of(
	    &pprof->functions, xprint("%s\n%s", name, file), 0, &is_new);

	if (!is_new)
		return number;
	put_number(&function, FUNCTION_NUMBER, number);
	put_number(&function, FUNCTION_NAME, text_number(pprof, name));
	put_number(&function, FUNCTION_SYSTEM_NAME, text_number(pprof, name));
	put_number(&function, FUNCTION_FILE, text_number(pprof, file));
	put_message(&pprof->profile, PROFILE_FUNCTION, &function);
	return number;
}

/* Puts a function and its line. */
static void
put_line(struct pprof *pprof, struct bytes *location,
    const struct symbol_frame *frame)
{
	const char *function =
	    frame->function != NULL ? frame->function : frame->name;
	const char *colon =
	    frame->line != NULL ? strrchr(frame->line, ':') : NULL;
	const char *file = "";
	struct bytes line = {0};

	if (colon != NULL)
		file = xprint("%.*s", (int)(colon - frame->line), frame->line);
	put_number(
	    &line, LINE_FUNCTION, function_number(pprof, function, file));
	if (colon != NULL)
		put_number(&line, LINE_NUMBER, strtoull(colon + 1, NULL, 10));
	put_message(location, LOCATION_LINE, &line);
}

/* The address is in the call, which ends at pc. */
static uint64_t
location_number(struct pprof *pprof, uint64_t pc)
{
	const struct symbol_frame *frames;
	struct bytes location = {0};
	size_t n;
	bool is_new;
	uint64_t number = number_of(&pprof->locations, NULL, pc, &is_new);

	if (!is_new)
		return number;
	put_number(&location, LOCATION_NUMBER, number);
	put_number(&location, LOCATION_MAPPING, mapping_number(pprof, pc - 1));
	put_number(&location, LOCATION_ADDRESS, pc - 1);
	/* Inlined functions come before their caller, as in pprof's format. */
	frames = symbol_frames(pprof->model->target, pc, &n);
	for (size_t i = 0; i < n; i++)
		put_line(pprof, &location, &frames[i]);
	put_message(&pprof->profile, PROFILE_LOCATION, &location);
	return number;
}

static void
put_sample(struct pprof *pprof, const struct site_tally *t, bool in_use)
{
	uint64_t blocks = (uint64_t)llround(t->blocks);
	uint64_t n = (uint64_t)llround(site_tally_total(t));
	struct bytes sample = {0}, locations = {0}, values = {0};

	for (unsigned i = 0; i < t->depth; i++)
		put_varint(&locations, location_number(pprof, t->stack[i]));
	put_varint(&values, in_use ? 0 : blocks);
	put_varint(&values, in_use ? 0 : n);
	put_varint(&values, in_use ? blocks : 0);
	put_varint(&values, in_use ? n : 0);
	put_message(&sample, SAMPLE_LOCATIONS, &locations);
	put_message(&sample, SAMPLE_VALUES, &values);
	put_message(&pprof->profile, PROFILE_SAMPLE, &sample);
}

static void
put_samples(struct pprof *pprof, const struct sites *sites, bool in_use)
{
	for (size_t i = 0; i < sites->nrows; i++)
		for (size_t j = 0; j < sites->rows[i].ntallies; j++)
			put_sample(pprof, sites->rows[i].tallies[j], in_use);
}

void
pprof_write(const struct sites *sites, const struct sites *allocated)
{
	struct pprof pprof = {.model = sites->model};
	uint64_t zero = text_number(&pprof, "");

	assert(zero == 0);
	(void)zero;
	put_type(&pprof, PROFILE_SAMPLE_TYPE, "alloc_objects", "count");
	put_type(&pprof, PROFILE_SAMPLE_TYPE, "alloc_space", "bytes");
	put_type(&pprof, PROFILE_SAMPLE_TYPE, "inuse_objects", "count");
	put_type(&pprof, PROFILE_SAMPLE_TYPE, "inuse_space", "bytes");
	put_type(&pprof, PROFILE_PERIOD_TYPE, "space", "bytes");
	put_number(&pprof.profile, PROFILE_PERIOD, sites->model->sampling_mean);
	put_number(&pprof.profile, PROFILE_DEFAULT_TYPE,
	    text_number(&pprof, "inuse_space"));
	if (sites->model->target->live)
		put_number(&pprof.profile, PROFILE_TIME_NS,
		    (uint64_t)time(NULL) * 1000000000);
	put_samples(&pprof, sites, /* in_use */ true);
	put_samples(&pprof, allocated, /* in_use */ false);
	fwrite(pprof.profile.at, 1, pprof.profile.n, stdout);
	free(pprof.profile.at);
}
