/*
 * modules.c - programs and libraries in the target's memory
 *
 * The first page of a mapped ELF file has the program headers.  They tell which
 * addresses the file takes, at which of its own addresses it was linked, and
 * where its build ID is.  All of this is read from the target's memory, so it
 * holds for a file that was deleted or replaced, too.
 */
#include <elf.h>
#include <string.h>

#include "tools/inspect/symbols/modules.h"

/* A linker makes about a dozen program headers, and notes of a few bytes. */
#define HEADERS_MAX    64
#define NOTE_BYTES_MAX 4096

struct modules {
	struct module *module;
	size_t n, capacity;
};

/* Finds the build ID in a segment of notes. */
static void
find_id(struct target *target, struct module *m, uint64_t at, uint64_t bytes)
{
	if (bytes > NOTE_BYTES_MAX)
		bytes = NOTE_BYTES_MAX;
	while (bytes >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		uint64_t text, whole;

		if (!target_peek(target, at, &note, sizeof(note)))
			return;
		text = sizeof(note) + (((uint64_t)note.n_namesz + 3) & ~3ull);
		whole = text + (((uint64_t)note.n_descsz + 3) & ~3ull);
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    note.n_descsz <= sizeof(m->id) &&
		    target_peek(target, at + text, m->id, note.n_descsz)) {
			m->id_bytes = note.n_descsz;
			m->id_at = at + text;
			return;
		}
		if (whole > bytes)
			return;
		at += whole;
		bytes -= whole;
	}
}

/* Reads the program headers of an ELF file that is mapped at start. */
static size_t
read_headers(struct target *target, uint64_t start, Elf64_Phdr *headers)
{
	Elf64_Ehdr e;

	if (!target_peek(target, start, &e, sizeof(e)) ||
	    memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 ||
	    e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_phnum > HEADERS_MAX ||
	    e.e_phentsize != sizeof(*headers) ||
	    !target_peek(target, start + e.e_phoff, headers,
		e.e_phnum * sizeof(*headers)))
		return 0;
	return e.e_phnum;
}

/* Reads the module of which file maps the first page. */
static bool
read_module(struct target *target, const struct mapping *file, struct module *m)
{
	Elf64_Phdr headers[HEADERS_MAX];
	size_t n = read_headers(target, file->start, headers);
	bool has_start = false;

	*m = (struct module){.start = file->start, .file = *file};
	for (size_t i = 0; i < n && !has_start; i++)
		if (headers[i].p_type == PT_LOAD && headers[i].p_offset == 0) {
			m->bias = file->start - headers[i].p_vaddr;
			has_start = true;
		}
	for (size_t i = 0; i < n && has_start; i++) {
		const Elf64_Phdr *p = &headers[i];
		uint64_t at = m->bias + p->p_vaddr;

		if (p->p_type == PT_LOAD && at + p->p_memsz > m->end)
			m->end = at + p->p_memsz;
		if (p->p_type == PT_NOTE && m->id_bytes == 0)
			find_id(target, m, at, p->p_filesz);
		m->has_loader |= p->p_type == PT_INTERP;
	}
	return m->end > m->start;
}

static struct modules *
read_all(struct target *target)
{
	struct modules *all = xalloc(sizeof(*all));
	size_t nfiles;
	const struct mapping *files = target_files(target, &nfiles);

	for (size_t i = 0; i < nfiles; i++) {
		struct module m;

		if (files[i].path == NULL || files[i].offset != 0 ||
		    (all->n != 0 &&
			files[i].start < all->module[all->n - 1].end) ||
		    !read_module(target, &files[i], &m))
			continue;
		ARRAY_ADD(all->module, all->n, all->capacity, m);
	}
	return all;
}

const struct module *
modules_read(struct target *target, size_t *n)
{
	if (target->modules == NULL)
		target->modules = read_all(target);
	*n = target->modules->n;
	return target->modules->module;
}

/*
 * Is the address in a segment?  The kernel leaves a gap between two segments,
 * in which other memory may lie, such as generated code.
 */
static bool
in_segment(struct target *target, const struct module *m, uint64_t at)
{
	Elf64_Phdr headers[HEADERS_MAX];
	size_t n = read_headers(target, m->start, headers);

	for (size_t i = 0; i < n; i++)
		if (headers[i].p_type == PT_LOAD &&
		    at - m->bias - headers[i].p_vaddr < headers[i].p_memsz)
			return true;
	return false;
}

const struct module *
module_find(struct target *target, uint64_t at)
{
	size_t n;
	const struct module *m = modules_read(target, &n);

	for (size_t i = 0; i < n; i++)
		if (at >= m[i].start && at < m[i].end)
			return in_segment(target, &m[i], at) ? &m[i] : NULL;
	return NULL;
}
