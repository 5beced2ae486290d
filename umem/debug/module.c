/*
 * module.c - the files whose code the process executes
 *
 * The modules are read from /proc/self/maps.  The dynamic linker has a list of
 * them, too, but dl_iterate_phdr() takes its lock, which a thread may hold for
 * as long as a constructor of a library runs, and the structures to which
 * code_find_object() leads may go while they are read, by dlclose() in another
 * thread.
 *
 * A module begins with a mapping of the start of its file, and has the mappings
 * of the same file that follow.  Files without executable mappings are left
 * out, and so are modules beyond the limits below.  Linkers give the start of a
 * shared library the address 0, so an address in the file is the distance from
 * the start of the module.  Only a program at a fixed address is linked
 * otherwise; the kernel has passed the program headers of the program.
 *
 * Everything is in memory that is mapped for it, because nothing here may use
 * the heap.
 */
#include <elf.h>

#include "umem/debug/module.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/string.h"

/* Programs with the most libraries have some hundred. */
#define MODULES_MAX 2048
#define PATHS_BYTES (256 * KIB)

/* A line has a path of up to PATH_MAX bytes behind some numbers. */
#define LINE_BYTES 8192

/* The headers and the build ID of a file are at its start. */
#define HEAD_BYTES 4096

struct module {
	uintptr_t start, end;
	uintptr_t bias; /* address minus address in the file */
	uint64_t inode;
	const char *path;
	const char *name; /* NULL: the module is not used */
	bool is_executable;
};

struct modules {
	unsigned n;
	size_t npaths; /* bytes of paths */
	struct module module[MODULES_MAX];
	char paths[PATHS_BYTES];
	char line[LINE_BYTES];
	char head[HEAD_BYTES];
};

/* A mapping: a line of /proc/self/maps. */
struct mapped {
	uint64_t start, end, offset, inode;
	bool is_executable;
	const char *path;
};

/* Parses a number and the character behind it. */
static bool
parse_number(const char **at, unsigned base, char behind, uint64_t *value)
{
	static const char digits[] = "0123456789abcdef";
	const char *digit;

	*value = 0;
	while ((digit = string_find(digits, **at, base)) != NULL) {
		*value = *value * base + (uint64_t)(digit - digits);
		++*at;
	}
	return *(*at)++ == behind;
}

/* Parses "start-end rwxp offset major:minor inode    path". */
static bool
parse_line(const char *at, struct mapped *m)
{
	uint64_t unused;

	if (!parse_number(&at, 16, '-', &m->start) ||
	    !parse_number(&at, 16, ' ', &m->end) || strlen(at) < 5)
		return false;
	m->is_executable = at[2] == 'x';
	at += 5;
	if (!parse_number(&at, 16, ' ', &m->offset) ||
	    !parse_number(&at, 16, ':', &unused) ||
	    !parse_number(&at, 16, ' ', &unused) ||
	    !parse_number(&at, 10, ' ', &m->inode))
		return false;
	while (*at == ' ')
		at++;
	m->path = at;
	return *at == '/';
}

/* Adds a module; the last one goes if it has no code. */
static void
modules_add(struct modules *all, const struct mapped *m)
{
	size_t bytes = strlen(m->path) + 1;
	struct module *last = all->n == 0 ? NULL : &all->module[all->n - 1];

	if (last != NULL && !last->is_executable) {
		all->npaths = (size_t)(last->path - all->paths);
		all->n--;
	}
	if (all->n == MODULES_MAX || bytes > PATHS_BYTES - all->npaths)
		return;
	memcpy(all->paths + all->npaths, m->path, bytes);
	all->module[all->n++] = (struct module){.start = m->start,
	    .end = m->end,
	    .bias = m->start,
	    .inode = m->inode,
	    .path = all->paths + all->npaths,
	    .is_executable = m->is_executable};
	all->npaths += bytes;
}

static void
modules_add_line(struct modules *all, const char *line)
{
	struct module *last = all->n == 0 ? NULL : &all->module[all->n - 1];
	struct mapped m;

	if (!parse_line(line, &m))
		return;
	if (m.offset == 0 && (last == NULL || m.start >= last->end)) {
		modules_add(all, &m);
	} else if (last != NULL && string_is_equal(last->path, m.path)) {
		last->end = m.end;
		last->is_executable |= m.is_executable;
	}
}

/* Reads all lines; a line that is too long is left out. */
static void
modules_read(struct modules *all, int fd)
{
	char *line = all->line;
	const char *end;
	size_t n = 0, nread, nline;

	while ((nread = os_read(fd, line + n, LINE_BYTES - n)) != 0) {
		n += nread;
		while ((end = string_find(line, '\n', n)) != NULL) {
			nline = (size_t)(end + 1 - line);
			line[nline - 1] = '\0';
			modules_add_line(all, line);
			n -= nline;
			memmove(line, end + 1, n);
		}
		if (n == LINE_BYTES)
			n = 0;
	}
}

/* A name that two modules have would not tell which of them is meant. */
static const char *
module_name(const struct modules *all, const struct module *m)
{
	const char *base = string_path_base(m->path);

	for (unsigned i = 0; i < all->n; i++)
		if (string_is_equal(
			base, string_path_base(all->module[i].path)) &&
		    !string_is_equal(m->path, all->module[i].path))
			return m->path;
	return base;
}

static struct module *
module_at(struct modules *all, uintptr_t address)
{
	for (unsigned i = 0; i < all->n; i++)
		if (address >= all->module[i].start &&
		    address < all->module[i].end)
			return &all->module[i];
	return NULL;
}

/* Finds where the program was linked. */
static void
modules_fix_program(struct modules *all)
{
	const Elf64_Phdr *headers = (const void *)os_auxv(AT_PHDR);
	size_t n = os_auxv(AT_PHNUM);
	struct module *program = module_at(all, (uintptr_t)headers);

	for (size_t i = 0; program != NULL && i < n; i++)
		if (headers[i].p_type == PT_LOAD && headers[i].p_offset == 0) {
			program->bias = program->start - headers[i].p_vaddr;
			/* Segments without bytes in the file may follow. */
			return;
		}
}

struct modules *
modules_create(void)
{
	struct modules *all;
	int fd;

	/* A filter may end a confined process for an open(). */
	if (os_is_confined())
		return NULL;
	fd = os_open("/proc/self/maps");
	if (fd < 0)
		return NULL;
	all = os_map(align_up(sizeof(*all), os_page_size()));
	if (all != NULL) {
		modules_read(all, fd);
		modules_fix_program(all);
	}
	os_close(fd);
	return all;
}

void
modules_delete(struct modules *all)
{
	if (all != NULL)
		os_unmap(all, align_up(sizeof(*all), os_page_size()));
}

uint64_t
module_inode(uintptr_t address)
{
	struct modules *all = modules_create();
	const struct module *m = all == NULL ? NULL : module_at(all, address);
	uint64_t inode = m == NULL ? 0 : m->inode;

	modules_delete(all);
	return inode;
}

const char *
modules_find(struct modules *all, uintptr_t address, uintptr_t *in_file)
{
	struct module *m = module_at(all, address);

	if (m == NULL)
		return NULL;
	if (m->name == NULL)
		m->name = module_name(all, m);
	*in_file = address - m->bias;
	return m->name;
}

/* Writes the build ID in a segment of notes. */
static bool
find_id(const char *notes, size_t bytes, char *id)
{
	Elf64_Nhdr note;

	while (bytes >= sizeof(note)) {
		size_t text, whole;

		memcpy(&note, notes, sizeof(note));
		text = sizeof(note) + align_up((size_t)note.n_namesz, 4);
		whole = text + align_up((size_t)note.n_descsz, 4);
		if (whole > bytes)
			return false;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    note.n_descsz <= MODULE_ID_BYTES / 2) {
			for (size_t i = 0; i < note.n_descsz; i++) {
				unsigned char byte =
				    (unsigned char)notes[text + i];

				*id++ = "0123456789abcdef"[byte / 16];
				*id++ = "0123456789abcdef"[byte % 16];
			}
			*id = '\0';
			return true;
		}
		notes += whole;
		bytes -= whole;
	}
	return false;
}

/* Finds the build ID in the first bytes of a file, which may be any file. */
static bool
head_find_id(const char *head, size_t bytes, char *id)
{
	Elf64_Ehdr e;
	Elf64_Phdr p;

	if (bytes < sizeof(e))
		return false;
	memcpy(&e, head, sizeof(e));
	if (memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 ||
	    e.e_phentsize != sizeof(p) || e.e_phoff > bytes ||
	    (bytes - e.e_phoff) / sizeof(p) < e.e_phnum)
		return false;
	for (unsigned i = 0; i < e.e_phnum; i++) {
		memcpy(&p, head + e.e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_type == PT_NOTE && p.p_offset <= bytes &&
		    p.p_filesz <= bytes - p.p_offset &&
		    find_id(head + p.p_offset, p.p_filesz, id))
			return true;
	}
	return false;
}

/* The file must be the one that is mapped. */
static void
module_read_id(struct modules *all, const struct module *m, char *id)
{
	struct os_file file;
	size_t n = 0, nread;
	int fd = os_open(m->path);

	id[0] = '\0';
	if (fd < 0)
		return;
	if (os_file_of(fd, &file) && file.is_regular && file.inode == m->inode)
		while (
		    (nread = os_read(fd, all->head + n, HEAD_BYTES - n)) != 0)
			n += nread;
	os_close(fd);
	if (!head_find_id(all->head, n, id))
		id[0] = '\0';
}

void
modules_each_used(struct modules *all,
    void (*f)(const struct module_used *, void *arg), void *arg)
{
	for (unsigned i = 0; i < all->n; i++) {
		const struct module *m = &all->module[i];
		struct module_used used = {.name = m->name,
		    .path = m->path,
		    .linked_at = m->start - m->bias};

		if (m->name == NULL)
			continue;
		module_read_id(all, m, used.id);
		f(&used, arg);
	}
}
