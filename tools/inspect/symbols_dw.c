/*
 * symbols_dw.c - names of code addresses, by elfutils
 *
 * libdwfl finds the files that a process has mapped, or that a core file
 * names, and their debugging information if it is installed.  The command looks
 * up each address once.
 *
 * A process may be in another mount namespace, where its paths name other files
 * than here, and a file may have been replaced since it was mapped.  Therefore
 * the command opens a file by /proc/PID/map_files, which leads to the mapped
 * file itself, or else by /proc/PID/root.  It uses the file only if the file's
 * ELF header and build ID match the memory of the process.
 *
 * Code in memory without a file was generated at run time.  Its names are in
 * /tmp/perf-PID.map if the program writes that file for perf(1).
 */
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/inspect/demangle.h"
#include "tools/inspect/symbols.h"

struct known {
	uint64_t pc;
	const char *name;
	const char *line;
};

static Dwfl *dwfl;
static void *known;

static Dwfl *
open_core(struct target *target, const Dwfl_Callbacks *callbacks)
{
	Dwfl *made = dwfl_begin(callbacks);
	int fd = open(target->name, O_RDONLY | O_CLOEXEC);
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (made == NULL || elf == NULL ||
	    dwfl_core_file_report(made, elf, NULL) < 0)
		return NULL;
	return made;
}

static Dwfl *
open_live(struct target *target, const Dwfl_Callbacks *callbacks)
{
	Dwfl *made = dwfl_begin(callbacks);

	if (made == NULL || dwfl_linux_proc_report(made, target->reader) != 0)
		return NULL;
	return made;
}

static struct target *of; /* the target: find_elf() has no argument for it */

/* Reads the build ID of a note segment in the target's memory; 0: none. */
static size_t
id_in_notes(uint64_t at, uint64_t bytes, char *id, size_t capacity)
{
	while (bytes >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		uint64_t name, whole;

		if (!target_peek(of, at, &note, sizeof(note)))
			return 0;
		name = sizeof(note) + (((uint64_t)note.n_namesz + 3) & ~3ull);
		whole = name + (((uint64_t)note.n_descsz + 3) & ~3ull);
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    note.n_descsz <= capacity &&
		    target_peek(of, at + name, id, note.n_descsz))
			return note.n_descsz;
		if (whole > bytes)
			return 0;
		at += whole;
		bytes -= whole;
	}
	return 0;
}

static size_t
id_in_memory(uint64_t base, const Elf64_Ehdr *header, char *id, size_t capacity)
{
	uint64_t bias = base;
	size_t n = 0;

	for (int pass = 0; pass < 2; pass++)
		for (unsigned i = 0; i < header->e_phnum && n == 0; i++) {
			Elf64_Phdr p;

			if (!target_peek(of,
				base + header->e_phoff + i * sizeof(p), &p,
				sizeof(p)))
				return 0;
			if (pass == 0 && p.p_type == PT_LOAD && p.p_offset == 0)
				bias = base - p.p_vaddr;
			if (pass == 1 && p.p_type == PT_NOTE)
				n = id_in_notes(
				    bias + p.p_vaddr, p.p_filesz, id, capacity);
		}
	return n;
}

/* Has the target the first page of this file at base? */
static bool
is_mapped_file(int fd, uint64_t base)
{
	Elf64_Ehdr there, here;
	char id[64];
	const void *id_here;
	size_t n;
	ssize_t n_here;
	Elf *elf;

	if (!target_peek(of, base, &there, sizeof(there)) ||
	    pread(fd, &here, sizeof(here), 0) != sizeof(here) ||
	    memcmp(&here, &there, sizeof(here)) != 0)
		return false;
	n = id_in_memory(base, &there, id, sizeof(id));
	if (n == 0)
		return true;
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	n_here = elf == NULL ? -1 : dwelf_elf_gnu_build_id(elf, &id_here);
	bool same = n_here == (ssize_t)n && memcmp(id, id_here, n) == 0;
	elf_end(elf);
	return same;
}

static int
find_elf(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
    char **file_name, Elf **elf)
{
	const struct mapping *m = target_mapping(of, base);
	const char *paths[2];

	assert(of->live);
	/* The process may have ended since it was inspected. */
	if (kill(of->pid, 0) != 0 && errno == ESRCH)
		return -1;
	if (name[0] != '/' || m == NULL)
		return dwfl_linux_proc_find_elf(
		    module, data, name, base, file_name, elf);
	paths[0] =
	    xprint("/proc/%d/map_files/%lx-%lx", of->pid, m->start, m->end);
	paths[1] = xprint("/proc/%d/root%s", of->pid, name);
	for (size_t i = 0; i < array_size(paths); i++) {
		int fd = open(paths[i], O_RDONLY | O_CLOEXEC);

		if (fd >= 0 && is_mapped_file(fd, base)) {
			*file_name = strdup(name);
			return fd;
		}
		if (fd >= 0)
			close(fd);
	}
	return -1;
}

static void
open_modules(struct target *target)
{
	static char *debug_path = NULL;
	static const Dwfl_Callbacks live = {.find_elf = find_elf,
	    .find_debuginfo = dwfl_standard_find_debuginfo,
	    .debuginfo_path = &debug_path};
	static const Dwfl_Callbacks core = {.find_elf = dwfl_build_id_find_elf,
	    .find_debuginfo = dwfl_standard_find_debuginfo,
	    .debuginfo_path = &debug_path};
	static bool tried;

	if (tried)
		return;
	tried = true;
	of = target;
	elf_version(EV_CURRENT);
	dwfl =
	    target->live ? open_live(target, &live) : open_core(target, &core);
	if (dwfl != NULL)
		dwfl_report_end(dwfl, NULL, NULL);
}

static const char *
base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Returns the number of the process in its own PID namespace. */
static int
own_pid(const struct target *target)
{
	FILE *file = fopen(xprint("/proc/%d/status", target->pid), "r");
	int pid = target->pid;
	char line[256];

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, "NSpid:", 6) == 0)
			pid = (int)strtol(strrchr(line, '\t'), NULL, 10);
	if (file != NULL)
		fclose(file);
	return pid;
}

/* Finds the name of generated code in perf's list, if there is one. */
static const char *
find_made(struct target *target, uint64_t pc)
{
	FILE *file = !target->live
			 ? NULL
			 : fopen(xprint("/proc/%d/root/tmp/perf-%d.map",
				     target->pid, own_pid(target)),
			       "r");
	const char *found = NULL;
	char *line = NULL;
	size_t capacity = 0;

	while (file != NULL && found == NULL &&
	       getline(&line, &capacity, file) > 0) {
		uint64_t at, bytes;
		int name = 0;

		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%lx %lx %n", &at, &bytes, &name) >= 2 &&
		    name != 0 && pc - 1 - at < bytes)
			found = xprint("[made at run time]`%s+0x%lx",
			    plain_text(line + name, SIZE_MAX), pc - at);
	}
	free(line);
	if (file != NULL)
		fclose(file);
	return found != NULL ? found : xprint("0x%lx", pc);
}

/* Has any mapping the name of its file?  Not in every core. */
static bool
files_are_known(const struct target *target)
{
	for (size_t i = 0; i < target->nmaps; i++)
		if (target->maps[i].file)
			return true;
	return false;
}

/* Returns pc's address in its file as linked, or else its file offset. */
static uint64_t
address_in_file(Dwfl_Module *module, const struct mapping *m, uint64_t pc)
{
	GElf_Addr bias;

	if (module != NULL && dwfl_module_getelf(module, &bias) != NULL)
		return pc - bias;
	return m != NULL ? pc - m->start + m->offset : pc;
}

/* Finds the file by the mapping, and the function by the file's symbols. */
static const char *
find_name(struct target *target, uint64_t pc)
{
	const struct mapping *m = target_mapping(target, pc - 1);
	const char *file = m && m->name[0] ? m->name : NULL;
	Dwfl_Module *module = dwfl ? dwfl_addrmodule(dwfl, pc - 1) : NULL;
	const char *name = NULL;
	GElf_Off offset = 0;
	GElf_Sym symbol;

	if (m != NULL && !m->file && m->name[0] != '[' &&
	    files_are_known(target))
		return find_made(target, pc);
	/* A core has no mappings of code, only the dynamic linker's list. */
	if (module != NULL && file == NULL)
		file = dwfl_module_info(
		    module, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
	if (file != NULL)
		file = plain_text(base_name(file), SIZE_MAX);

	if (module != NULL)
		name = dwfl_module_addrinfo(
		    module, pc - 1, &offset, &symbol, NULL, NULL, NULL);
	if (name != NULL && file != NULL)
		return xprint("%s`%s+0x%lx", file,
		    plain_text(demangle_symbol(name), SIZE_MAX), offset + 1);
	if (file != NULL)
		return xprint("%s+0x%lx", file, address_in_file(module, m, pc));
	return xprint("0x%lx", pc);
}

static const char *
find_line(uint64_t pc)
{
	Dwfl_Module *module = dwfl ? dwfl_addrmodule(dwfl, pc - 1) : NULL;
	Dwfl_Line *line = module ? dwfl_module_getsrc(module, pc - 1) : NULL;
	const char *file;
	int number;

	if (line == NULL)
		return NULL;
	file = dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL);
	return file ? xprint("%s:%d", plain_text(base_name(file), SIZE_MAX),
			  number)
		    : NULL;
}

static int
order_by_pc(const void *a, const void *b)
{
	const struct known *x = a, *y = b;

	return x->pc < y->pc ? -1 : x->pc > y->pc;
}

static const struct known *
symbol_look_up(struct target *target, uint64_t pc)
{
	struct known *wanted = xalloc(sizeof(*wanted));
	struct known **found;

	open_modules(target);
	assert(of == target);
	wanted->pc = pc;
	found = tsearch(wanted, &known, order_by_pc);
	if (found == NULL)
		fail_with(EXIT_ERROR, "out of memory");
	if (*found != wanted) {
		free(wanted);
		return *found;
	}
	wanted->name = find_name(target, pc);
	wanted->line = find_line(pc);
	assert(wanted->name != NULL);
	return wanted;
}

const char *
symbol_name(struct target *target, uint64_t pc)
{
	return symbol_look_up(target, pc)->name;
}

const char *
symbol_line(struct target *target, uint64_t pc)
{
	return symbol_look_up(target, pc)->line;
}

const char *
symbol_build_id(struct target *target, uint64_t pc)
{
	const unsigned char *id;
	Dwfl_Module *module;
	GElf_Addr at, bias;
	char *text;
	int n = 0;

	open_modules(target);
	module = dwfl ? dwfl_addrmodule(dwfl, pc) : NULL;
	/* Opens the file; the ID is that of the open file. */
	if (module != NULL && dwfl_module_getelf(module, &bias) != NULL)
		n = dwfl_module_build_id(module, &id, &at);
	text = xalloc(n > 0 ? 2 * (size_t)n + 1 : 1);
	for (int i = 0; i < n; i++)
		snprintf(text + 2 * i, 3, "%02x", id[i]);
	return text;
}
