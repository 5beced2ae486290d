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
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/inspect/demangle.h"
#include "tools/inspect/module_file.h"
#include "tools/inspect/symbols.h"

struct known {
	uint64_t pc;
	const char *name;
	const char *line;
};

static Dwfl *dwfl;
static void *known;

static struct target *of; /* the target: find_elf() has no argument for it */

/* Finds the file of a module for libdwfl. */
static int
find_elf(Dwfl_Module *dwfl_module, void **data, const char *name,
    Dwarf_Addr base, char **file_name, Elf **elf)
{
	const struct module *m = module_find(of, base);
	int fd = -1;

	/* The process may have ended since it was inspected. */
	if (of->live && kill(of->pid, 0) != 0 && errno == ESRCH)
		return -1;
	if (m != NULL)
		fd = module_open(of, m);
	if (fd < 0)
		return dwfl_build_id_find_elf(
		    dwfl_module, data, name, base, file_name, elf);
	*file_name = strdup(module_path(m));
	return fd;
}

/* Finds the separate debugging information of a module for libdwfl. */
static int
find_debug(Dwfl_Module *dwfl_module, void **data, const char *name,
    Dwarf_Addr base, const char *file, const char *link, GElf_Word sum,
    char **debug_name)
{
	const unsigned char *id;
	GElf_Addr id_at;

	/* By build ID or checksum; libdwfl would take any file without both. */
	if (sum == 0 && dwfl_module_build_id(dwfl_module, &id, &id_at) <= 0)
		return -1;
	return dwfl_standard_find_debuginfo(
	    dwfl_module, data, name, base, file, link, sum, debug_name);
}

/* Tells libdwfl the modules that have a file name. */
static void
report_modules(struct target *target)
{
	size_t n;
	const struct module *m = modules_read(target, &n);

	for (size_t i = 0; i < n; i++) {
		Dwfl_Module *made = dwfl_report_module(
		    dwfl, m[i].file->name, m[i].start, m[i].end);

		if (made != NULL && m[i].id_bytes != 0)
			dwfl_module_report_build_id(
			    made, m[i].id, m[i].id_bytes, m[i].id_at);
	}
}

/* The dynamic linker's list has the names of a core that names no files. */
static void
report_core(struct target *target)
{
	int fd = open(target->name, O_RDONLY | O_CLOEXEC);
	Elf *elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ_MMAP, NULL);

	if (elf != NULL)
		dwfl_core_file_report(dwfl, elf, NULL);
}

/* Returns the directories that have debugging information. */
static char *
debug_directories(const struct target *target)
{
	if (target->live)
		return xprint(
		    ":.debug:/usr/lib/debug:/proc/%d/root/usr/lib/debug",
		    target->reader);
	return xprint(
	    ":.debug:%s/usr/lib/debug:/usr/lib/debug", target_sysroot);
}

static void
open_modules(struct target *target)
{
	static char *directories;
	static const Dwfl_Callbacks callbacks = {.find_elf = find_elf,
	    .find_debuginfo = find_debug,
	    .debuginfo_path = &directories};

	if (of != NULL)
		return;
	of = target;
	elf_version(EV_CURRENT);
	directories = debug_directories(target);
	dwfl = dwfl_begin(&callbacks);
	if (dwfl == NULL)
		return;
	if (target->live || target->nfiles != 0)
		report_modules(target);
	else
		report_core(target);
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
	FILE *file = fopen(xprint("/proc/%d/root/tmp/perf-%d.map", target->pid,
			       own_pid(target)),
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
	return found;
}

/*
 * Returns "file+0x1c" for code whose function is not known: its address in the
 * file as linked, which addr2line takes, or else its file offset.
 */
static const char *
name_by_file(
    struct target *target, Dwfl_Module *module, const char *file, uint64_t pc)
{
	const struct module *m = module_find(target, pc - 1);
	const struct mapping *mapping = target_mapping(target, pc - 1);
	GElf_Addr bias;

	if (m != NULL)
		pc -= m->bias;
	else if (mapping != NULL)
		pc = pc - mapping->start + mapping->offset;
	else if (dwfl_module_getelf(module, &bias) != NULL)
		pc -= bias;
	return xprint("%s+0x%lx", file, pc);
}

/* Returns the name of the file or mapping with this address, or NULL. */
static const char *
file_name(struct target *target, Dwfl_Module *module, uint64_t at)
{
	const struct module *m = module_find(target, at);
	const struct mapping *mapping = target_mapping(target, at);
	const char *name = NULL;

	if (m != NULL)
		return base_name(m->file->name);
	if (mapping != NULL && mapping->name[0] != '\0')
		return base_name(mapping->name);
	if (module != NULL)
		name = dwfl_module_info(
		    module, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
	return name == NULL ? NULL : plain_text(base_name(name), SIZE_MAX);
}

static const char *
find_name(struct target *target, uint64_t pc)
{
	Dwfl_Module *module = dwfl ? dwfl_addrmodule(dwfl, pc - 1) : NULL;
	const char *file = file_name(target, module, pc - 1), *name = NULL;
	GElf_Off offset = 0;
	GElf_Sym symbol;

	if (module != NULL)
		name = dwfl_module_addrinfo(
		    module, pc - 1, &offset, &symbol, NULL, NULL, NULL);
	if (name != NULL && file != NULL)
		return xprint("%s`%s+0x%lx", file,
		    plain_text(demangle_symbol(name), SIZE_MAX), offset + 1);
	if (module == NULL && target->live)
		name = find_made(target, pc);
	if (name != NULL)
		return name;
	return file == NULL ? xprint("0x%lx", pc)
			    : name_by_file(target, module, file, pc);
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
