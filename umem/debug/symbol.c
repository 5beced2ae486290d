/*
 * symbol.c - names for addresses of code
 *
 * Used by reports, when the heap may be corrupt: takes no lock and allocates
 * nothing.  object.c finds the object.  The symbol is searched in the symbol
 * tables of its file, which is mapped for that purpose: all functions are in
 * one, or, after strip, those that others may call.
 */
#include <elf.h>
#include <link.h>

#include "umem/debug/object.h"
#include "umem/debug/symbol.h"
#include "vmem/os.h"
#include "vmem/string.h"

/* The best match so far. */
struct symbol_match {
	const char *name;
	uintptr_t at;
};

/* A symbol table: n symbols, with the addresses of the file. */
struct symbol_table {
	const ElfW(Sym) * symbols;
	const char *names;
	size_t n, names_bytes;
};

static void
table_search(
    const struct symbol_table *table, uintptr_t at, struct symbol_match *match)
{
	for (size_t i = 0; i < table->n; i++) {
		const ElfW(Sym) *s = &table->symbols[i];
		unsigned type = ELF64_ST_TYPE(s->st_info);

		if ((type != STT_FUNC && type != STT_GNU_IFUNC) ||
		    s->st_shndx == SHN_UNDEF || at < s->st_value ||
		    s->st_name >= table->names_bytes ||
		    (s->st_size != 0 && at - s->st_value >= s->st_size))
			continue;
		if (match->name == NULL || s->st_value >= match->at) {
			match->name = table->names + s->st_name;
			match->at = s->st_value;
		}
	}
}

/* Reads a section with symbols; false: it is none, or not in the file. */
static bool
table_read(const char *file, size_t bytes, const ElfW(Shdr) * s,
    const ElfW(Shdr) * names, struct symbol_table *table)
{
	if ((s->sh_type != SHT_SYMTAB && s->sh_type != SHT_DYNSYM) ||
	    s->sh_offset > bytes || bytes - s->sh_offset < s->sh_size ||
	    names->sh_offset > bytes || names->sh_size == 0 ||
	    bytes - names->sh_offset < names->sh_size ||
	    file[names->sh_offset + names->sh_size - 1] != '\0')
		return false;
	table->symbols = (const void *)(file + s->sh_offset);
	table->n = s->sh_size / sizeof(ElfW(Sym));
	table->names = file + names->sh_offset;
	table->names_bytes = names->sh_size;
	return true;
}

/*
 * Searches the symbol tables of a mapped file.  Checks all bounds, because the
 * file may contain anything.
 */
static void
file_search(
    const char *file, size_t bytes, uintptr_t at, struct symbol_match *match)
{
	unsigned n;
	const ElfW(Shdr) *s = file_sections(file, bytes, &n);
	struct symbol_table table;

	for (unsigned i = 0; i < n; i++)
		if (s[i].sh_link < n &&
		    table_read(file, bytes, &s[i], &s[s[i].sh_link], &table))
			table_search(&table, at, match);
}

/* Returns the path of the program or library, or "". */
static const char *
object_path(const struct code_object *object)
{
	const char *path = object->path;

	if (*path == '\0' && os_auxv(AT_EXECFN) != 0)
		path = (const char *)os_auxv(AT_EXECFN);
	return path;
}

const char *
symbol_object(const void *p)
{
	struct code_object object;

	if (!code_find_object((uintptr_t)p, &object) || object.path == NULL)
		return NULL;
	return string_path_base(object_path(&object));
}

/*
 * Is this the file of the object?  Another one may be at its path now.  Their
 * first pages have the place of the symbols, and mostly a build ID.
 */
static bool
is_file_of(const struct code_object *object, const char *file, size_t bytes)
{
	const char *start = object->start;
	size_t n = bytes < os_page_size() ? bytes : os_page_size(), i = 0;

	while (i < n && file[i] == start[i])
		i++;
	return i == n;
}

/* Maps the file of an object; NULL: it is not there. */
static char *
map_object(const struct code_object *object, size_t *bytes)
{
	char *file;

	if (*object->path == '\0')
		return os_map_file("/proc/self/exe", bytes);
	file = os_map_file(object->path, bytes);
	if (file == NULL || is_file_of(object, file, *bytes))
		return file;
	os_unmap(file, align_up(*bytes, os_page_size()));
	return NULL;
}

void
symbol_text(struct message *m, uintptr_t pc)
{
	struct code_object object;
	struct symbol_match best = {0};
	const char *path;
	char *file = NULL;
	size_t bytes = 0;
	uintptr_t at;

	if (!code_find_object(pc - 1, &object) || object.path == NULL) {
		message_hex(m, pc);
		return;
	}
	at = pc - 1 - object.bias;
	/* A filter may end a confined process for an open(). */
	if (!os_is_confined())
		file = map_object(&object, &bytes);
	if (file != NULL)
		file_search(file, bytes, at, &best);
	path = object_path(&object);
	message_plain(m, *path == '\0' ? "a.out" : string_path_base(path));
	if (best.name != NULL) {
		message_text(m, "`");
		message_plain(m, best.name);
	}
	message_text(m, "+");
	message_hex(m, at + 1 - best.at);
	if (file != NULL)
		os_unmap(file, align_up(bytes, os_page_size()));
}
