/*
 * symbol.c - names for addresses of code
 *
 * Used by reports, when the heap may be corrupt: takes no lock and allocates
 * nothing.  object.c finds the object.  The symbol is searched in the object's
 * dynamic symbol table, and then in the symbol table
 * of the file, which is mapped for that purpose.  The second search is needed
 * because functions of the program itself are not in the dynamic table.
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

/* glibc makes the pointers of the dynamic section absolute; others do not. */
static const void *
dynamic_pointer(const struct code_object *object, const ElfW(Dyn) * d)
{
	uintptr_t at = d->d_un.d_ptr;

	return (const void *)(at < object->bias ? at + object->bias : at);
}

/* Counts the symbols of a GNU hash table: up to the end of the last chain. */
static size_t
gnu_count(const uint32_t *hash)
{
	uint32_t nbuckets = hash[0], offset = hash[1], nmasks = hash[2];
	const uint32_t *bucket = hash + 4 + nmasks * (sizeof(size_t) / 4);
	const uint32_t *chain = bucket + nbuckets;
	uint32_t last = 0;

	for (uint32_t i = 0; i < nbuckets; i++)
		if (bucket[i] > last)
			last = bucket[i];
	if (last < offset)
		return offset;
	while ((chain[last - offset] & 1) == 0)
		last++;
	return last + 1;
}

static void
dynamic_search(
    const struct code_object *object, uintptr_t at, struct symbol_match *match)
{
	struct symbol_table table = {0};

	for (const ElfW(Dyn) *d = object->dynamic;
	     d != NULL && d->d_tag != DT_NULL; d++) {
		const void *p = dynamic_pointer(object, d);

		if (d->d_tag == DT_SYMTAB)
			table.symbols = p;
		else if (d->d_tag == DT_STRTAB)
			table.names = p;
		else if (d->d_tag == DT_STRSZ)
			table.names_bytes = d->d_un.d_val;
		else if (d->d_tag == DT_HASH)
			table.n = ((const uint32_t *)p)[1];
		else if (d->d_tag == DT_GNU_HASH && table.n == 0)
			table.n = gnu_count(p);
	}
	if (table.symbols != NULL && table.names != NULL)
		table_search(&table, at, match);
}

/*
 * Finds the symbol table of a mapped file.  Checks all bounds, because the file
 * may contain anything.
 */
static bool
file_table(const char *file, size_t bytes, struct symbol_table *table)
{
	const ElfW(Ehdr) *e = (const void *)file;
	const ElfW(Shdr) * s;

	if (bytes < sizeof(*e) || memcmp(e->e_ident, ELFMAG, SELFMAG) != 0 ||
	    e->e_shentsize != sizeof(*s) || e->e_shoff > bytes ||
	    (bytes - e->e_shoff) / sizeof(*s) < e->e_shnum)
		return false;
	s = (const void *)(file + e->e_shoff);
	for (unsigned i = 0; i < e->e_shnum; i++) {
		if (s[i].sh_type != SHT_SYMTAB || s[i].sh_link >= e->e_shnum ||
		    s[i].sh_offset > bytes ||
		    bytes - s[i].sh_offset < s[i].sh_size)
			continue;
		const ElfW(Shdr) *names = &s[s[i].sh_link];

		if (names->sh_offset > bytes || names->sh_size == 0 ||
		    bytes - names->sh_offset < names->sh_size ||
		    file[names->sh_offset + names->sh_size - 1] != '\0')
			continue;
		table->symbols = (const void *)(file + s[i].sh_offset);
		table->n = s[i].sh_size / sizeof(ElfW(Sym));
		table->names = file + names->sh_offset;
		table->names_bytes = names->sh_size;
		return true;
	}
	return false;
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
	struct symbol_table table;
	const char *path;
	char *file = NULL;
	size_t bytes = 0;
	uintptr_t at;

	if (!code_find_object(pc - 1, &object) || object.path == NULL) {
		message_hex(m, pc);
		return;
	}
	at = pc - 1 - object.bias;
	dynamic_search(&object, at, &best);
	/* A filter may end a confined process for an open(). */
	if (best.name == NULL && !os_is_confined())
		file = map_object(&object, &bytes);
	if (file != NULL && file_table(file, bytes, &table))
		table_search(&table, at, &best);
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
