/*
 * dump.c - samples that the library has written to a file
 *
 * The library writes the text (umem/stats/sample_text.c) at the end of a
 * process, or in umem_dump().  A frame in it is a module and an address in the
 * file of the module.  Here the modules become mappings of a target that has no
 * other memory, so that the functions of a frame are found
 * as in a core: by the file at the path of the module, if it has the build ID
 * that the library has written.  Each mapping is at an address of our own.
 *
 * The last dump of a file counts.
 */
#include <elf.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/inspect/base/fields.h"
#include "tools/inspect/report/dump.h"

/* Module i has the addresses from (MODULE_FIRST + i) * MODULE_SPAN on. */
#define MODULE_SPAN  ((uint64_t)1 << 40)
#define MODULE_FIRST 256
#define MODULES_MAX  65536

/* Addresses of a process are below it. */
#define PROCESS_END (MODULE_FIRST * MODULE_SPAN)

#define NS_PER_SECOND 1000000000ull
#define AGE_MAX       (((uint64_t)1 << 62) / NS_PER_SECOND)
#define ID_BYTES_MAX  64

/* The start of a module's file: the parts that modules.c reads. */
struct head {
	Elf64_Ehdr elf;
	Elf64_Phdr load, note;
	Elf64_Nhdr id;
	char name[4];
	unsigned char bytes[ID_BYTES_MAX];
};

/* A frame, before the modules are known. */
struct frame {
	const char *module; /* NULL: the address is that in the process */
	uint64_t address;
};

/* A row of the text. */
struct dump_row {
	double bytes, blocks, nsamples;
	uint64_t newest, oldest; /* ages in s */
	size_t first, n;         /* of the frames */
};

struct dump_module {
	const char *name, *path;
	uint64_t linked_at;
	const char *id; /* in hexadecimal */
};

/* A dump as it is in the file. */
struct dump_text {
	const char *process, *rest, *warning; /* lines, or NULL */
	uint64_t mean, taken, lost;
	struct dump_row *rows;
	size_t nrows, rows_capacity;
	struct frame *frames;
	size_t nframes, frames_capacity;
	struct dump_module *modules;
	size_t nmodules, modules_capacity;
	bool is_complete;
};

static const char *
copy_of(const char *text)
{
	return xprint("%s", text);
}

static bool
parse_frame(struct dump_text *text, const char *line)
{
	const char *plus = strrchr(line, '+');
	struct frame frame = {0};
	char *end;

	if (text->nrows == 0)
		return false;
	if (strcmp(line, "?") == 0)
		return true;
	if (plus != NULL)
		frame.module = xprint("%.*s", (int)(plus - line), line);
	line = plus != NULL ? plus + 1 : line;
	frame.address = strtoull(line, &end, 16);
	if (end == line || *end != '\0' || frame.address >= PROCESS_END)
		return false;
	ARRAY_GROW(text->frames, text->nframes, text->frames_capacity);
	text->frames[text->nframes++] = frame;
	text->rows[text->nrows - 1].n++;
	return true;
}

static bool
parse_row(struct dump_text *text, const char *line)
{
	struct dump_row row = {.first = text->nframes};
	int n = 0;

	if (sscanf(line, "%lf %lf %lf %lu %lu%n", &row.bytes, &row.blocks,
		&row.nsamples, &row.newest, &row.oldest, &n) != 5 ||
	    line[n] != '\0' || !(row.bytes >= 0 && row.bytes < 1e18) ||
	    !(row.blocks >= 0 && row.blocks < 1e18) ||
	    !(row.nsamples >= 1 && row.nsamples < 1e9) ||
	    row.newest > row.oldest || row.oldest >= AGE_MAX)
		return false;
	ARRAY_GROW(text->rows, text->nrows, text->rows_capacity);
	text->rows[text->nrows++] = row;
	return true;
}

/* Parses "NAME: PATH, linked at 0x0, build ID 0123"; changes the line. */
static bool
parse_module(struct dump_text *text, char *line)
{
	static const char linked[] = ", linked at 0x", id[] = ", build ID ";
	struct dump_module m = {.name = line};
	char *path = strstr(line, ": /"), *at = NULL, *end;

	/* A path may have the words, too. */
	for (char *next = path; next != NULL; next = strstr(next + 1, linked))
		at = next;
	if (at == NULL || at == path)
		return false;
	*path = *at = '\0';
	m.path = path + 2;
	m.linked_at = strtoull(at + sizeof(linked) - 1, &end, 16);
	if (strncmp(end, id, sizeof(id) - 1) != 0 ||
	    m.linked_at >= MODULE_SPAN / 2 || text->nmodules == MODULES_MAX)
		return false;
	m.id = end + sizeof(id) - 1;
	m = (struct dump_module){
	    copy_of(m.name), copy_of(m.path), m.linked_at, copy_of(m.id)};
	ARRAY_GROW(text->modules, text->nmodules, text->modules_capacity);
	text->modules[text->nmodules++] = m;
	return true;
}

static bool
begins_with(const char *line, const char *text)
{
	return strncmp(line, text, strlen(text)) == 0;
}

/* Parses a line behind the first of a dump; returns false if it is wrong. */
static bool
parse_line(struct dump_text *text, char *line)
{
	if (line[0] == '\t')
		return parse_frame(text, line + 1);
	if (begins_with(line, "module "))
		return parse_module(text, line + strlen("module "));
	if (begins_with(line, "end of samples"))
		return text->is_complete = true;
	if (begins_with(line, " about bytes"))
		return true;
	if (strstr(line, " more call sites: ") != NULL) {
		text->rest = copy_of(line);
		return true;
	}
	if (begins_with(line, "the modules cannot be read") ||
	    strstr(line, " lines more") != NULL) {
		text->warning = copy_of(line);
		return true;
	}
	return parse_row(text, line);
}

/* Parses "samples: 1234 so far, 2 not kept; one in about 512 bytes". */
static bool
parse_first(struct dump_text *text, const char *line)
{
	int n = 0;

	if (sscanf(line, "samples: %lu so far, %lu not kept; %n", &text->taken,
		&text->lost, &n) != 2 ||
	    n == 0)
		return false;
	sscanf(line + n, "one in about %lu bytes", &text->mean);
	return true;
}

/* Reads the last complete dump of a file; returns their number. */
static size_t
read_text(FILE *file, const char *path, struct dump_text *last)
{
	struct dump_text text = {0};
	bool is_inside = false;
	size_t ndumps = 0;
	char *line;

	for (size_t n = 1; (line = fields_line(file, path, EXIT_ERROR)) != NULL;
	     n++) {
		line[strcspn(line, "\n")] = '\0';
		if (begins_with(line, "process ")) {
			text = (struct dump_text){.process = copy_of(line)};
			is_inside = false;
		} else if (begins_with(line, "samples: ")) {
			text = (struct dump_text){.process = text.process};
			is_inside = parse_first(&text, line);
		} else if (is_inside && !parse_line(&text, line)) {
			fail_with(EXIT_ERROR, "%s: line %zu is damaged",
			    plain_text(path, SIZE_MAX), n);
		}
		if (is_inside && text.is_complete) {
			*last = text;
			text = (struct dump_text){0};
			is_inside = false;
			ndumps++;
		}
	}
	return ndumps;
}

/* Returns the bytes of a text in hexadecimal; 0: it is none. */
static size_t
parse_id(const char *text, unsigned char *bytes)
{
	size_t n = strlen(text) / 2;

	if (n > ID_BYTES_MAX || text[strspn(text, "0123456789abcdef")] != '\0')
		return 0;
	for (size_t i = 0; i < n; i++) {
		char digits[] = {text[2 * i], text[2 * i + 1], '\0'};

		bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
	}
	return n;
}

static void
add_module(struct target *target, const struct dump_module *m, size_t i)
{
	struct head *head = xalloc(sizeof(*head));
	uint64_t start = (MODULE_FIRST + i) * MODULE_SPAN + m->linked_at;

	memcpy(head->elf.e_ident, ELFMAG, SELFMAG);
	head->elf.e_ident[EI_CLASS] = ELFCLASS64;
	head->elf.e_phoff = offsetof(struct head, load);
	head->elf.e_phentsize = sizeof(head->load);
	head->elf.e_phnum = 2;
	head->load.p_type = PT_LOAD;
	head->load.p_vaddr = m->linked_at;
	head->load.p_memsz = MODULE_SPAN / 2;
	head->note.p_type = PT_NOTE;
	head->note.p_vaddr = m->linked_at + offsetof(struct head, id);
	head->id.n_type = NT_GNU_BUILD_ID;
	head->id.n_namesz = sizeof(head->name);
	memcpy(head->name, "GNU", sizeof(head->name));
	head->id.n_descsz = (Elf64_Word)parse_id(m->id, head->bytes);
	head->note.p_filesz = head->id.n_descsz == 0
				  ? 0
				  : sizeof(*head) - offsetof(struct head, id);
	target->files[i] = (struct mapping){.start = start,
	    .end = start + MODULE_SPAN / 2,
	    .read = true,
	    .execute = true,
	    .file = true,
	    .path = m->path,
	    .name = plain_text(m->path, SIZE_MAX)};
	target_add_region(target, (struct region){.at = start,
				      .bytes = sizeof(*head),
				      .local = (const char *)head});
}

static struct target *
make_target(const char *path, const struct dump_text *text)
{
	struct target *target = xalloc(sizeof(*target));

	target->name = path;
	target->command = target->comm = "";
	target->nfiles = text->nmodules;
	target->files = xalloc((text->nmodules + 1) * sizeof(*target->files));
	for (size_t i = 0; i < text->nmodules; i++)
		add_module(target, &text->modules[i], i);
	return target;
}

/* Returns the address of a frame in the target that make_target() made. */
static uint64_t
frame_address(const struct dump_text *text, const struct frame *frame)
{
	for (size_t i = 0; i < text->nmodules && frame->module != NULL; i++)
		if (strcmp(frame->module, text->modules[i].name) == 0)
			return (MODULE_FIRST + i) * MODULE_SPAN +
			       frame->address;
	return frame->address;
}

static void
add_rows(const struct dump_text *text, struct sites *sites)
{
	for (size_t i = 0; i < text->nrows; i++) {
		const struct dump_row *row = &text->rows[i];
		uint64_t *stack = xalloc((row->n + 1) * sizeof(*stack));
		struct site_tally tally = {.stack = stack,
		    .depth = (unsigned)row->n,
		    .nseen = (uint64_t)row->nsamples,
		    .blocks = row->blocks,
		    .bytes = row->bytes,
		    /* 0 would be an age that nobody knows. */
		    .oldest = row->oldest * NS_PER_SECOND + 1};

		for (size_t j = 0; j < row->n; j++)
			stack[j] =
			    frame_address(text, &text->frames[row->first + j]);
		sites_add_total(sites, &tally);
	}
}

/* Fails if a file that is no report cannot be a core either. */
static void
check_core(const char *path, FILE *file, const char *start)
{
	struct stat info;

	if (fstat(fileno(file), &info) == 0 && S_ISREG(info.st_mode) &&
	    !begins_with(start, ELFMAG))
		fail_with(EXIT_ERROR,
		    "%s: neither a core file nor a report with samples",
		    plain_text(path, SIZE_MAX));
}

bool
dump_open(const char *path, struct dump *dump)
{
	struct dump_text text = {0};
	struct model *model;
	FILE *file = fopen(path, "re");
	char start[10] = "";

	*dump = (struct dump){0};
	if (file == NULL)
		return false;
	if (fgets(start, sizeof(start), file) == NULL ||
	    (!begins_with(start, "process ") &&
		!begins_with(start, "samples: "))) {
		check_core(path, file, start);
		fclose(file);
		return false;
	}
	rewind(file);
	dump->ndumps = read_text(file, path, &text);
	fclose(file);
	if (dump->ndumps == 0)
		fail_with(EXIT_ERROR, "%s: has no samples",
		    plain_text(path, SIZE_MAX));
	if (text.warning != NULL)
		print_warning("%s", plain_text(text.warning, SIZE_MAX));
	dump->process = text.process;
	dump->rest = text.rest;
	model = xalloc(sizeof(*model));
	model->target = make_target(path, &text);
	model->sampling_mean = text.mean;
	model->ntaken = text.taken;
	model->nlost = text.lost;
	dump->sites.model = model;
	add_rows(&text, &dump->sites);
	return true;
}
