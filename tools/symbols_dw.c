/*
 * symbols_dw.c - names of code addresses, by elfutils
 *
 * libdwfl finds the files that a process has mapped, or that a core file
 * names, and their debugging information where it is installed.  Names are
 * asked for once for each address.
 */
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/symbols.h"

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

static void
start(struct target *target)
{
	static char *debug_path = NULL;
	static const Dwfl_Callbacks live = {
	    .find_elf = dwfl_linux_proc_find_elf,
	    .find_debuginfo = dwfl_standard_find_debuginfo,
	    .debuginfo_path = &debug_path};
	static const Dwfl_Callbacks core = {.find_elf = dwfl_build_id_find_elf,
	    .find_debuginfo = dwfl_standard_find_debuginfo,
	    .debuginfo_path = &debug_path};
	static bool tried;

	if (tried)
		return;
	tried = true;
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

/* The file by the mapping, the function by its symbols. */
static const char *
find_name(struct target *target, uint64_t pc)
{
	const struct mapping *m = target_mapping(target, pc - 1);
	const char *file = m && m->name[0] ? m->name : NULL;
	Dwfl_Module *module = dwfl ? dwfl_addrmodule(dwfl, pc - 1) : NULL;
	const char *name = NULL;
	GElf_Addr start = m ? m->start : 0;
	GElf_Off offset = 0;
	GElf_Sym symbol;

	/* A core has no mappings of code, but the dynamic linker's list. */
	if (module != NULL && file == NULL)
		file = dwfl_module_info(
		    module, NULL, &start, NULL, NULL, NULL, NULL, NULL);
	if (file != NULL)
		file = plain_text(base_name(file), SIZE_MAX);

	if (module != NULL)
		name = dwfl_module_addrinfo(
		    module, pc - 1, &offset, &symbol, NULL, NULL, NULL);
	if (name != NULL && file != NULL)
		return xprint("%s`%s+0x%lx", file, plain_text(name, SIZE_MAX),
		    offset + 1);
	if (file != NULL)
		return xprint("%s+0x%lx", file, pc - start);
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
by_pc(const void *a, const void *b)
{
	const struct known *x = a, *y = b;

	return x->pc < y->pc ? -1 : x->pc > y->pc;
}

static const struct known *
know(struct target *target, uint64_t pc)
{
	struct known *wanted = xalloc(sizeof(*wanted));
	struct known **found;

	start(target);
	wanted->pc = pc;
	found = tsearch(wanted, &known, by_pc);
	if (found == NULL)
		fail(EXIT_BLIND, "out of memory");
	if (*found != wanted) {
		free(wanted);
		return *found;
	}
	wanted->name = find_name(target, pc);
	wanted->line = find_line(pc);
	return wanted;
}

const char *
symbol_name(struct target *target, uint64_t pc)
{
	return know(target, pc)->name;
}

const char *
symbol_line(struct target *target, uint64_t pc)
{
	return know(target, pc)->line;
}
