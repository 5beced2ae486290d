/*
 * symbols_dw.c - functions and lines, by elfutils
 *
 * libdwfl reads the symbols and the debugging information of the files that
 * module_file.c finds.  If the compiler has inlined functions at an address,
 * the debugging information has a tree of them, in which one path leads to the
 * address.
 */
#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/inspect/base/clock.h"
#include "tools/inspect/symbols/demangle.h"
#include "tools/inspect/symbols/module_file.h"
#include "tools/inspect/symbols/symbols_source.h"
#include "tools/inspect/target/target_file.h"

/* Limits of the search for inlined functions in damaged debugging data. */
#define ENTRIES_MAX 2000000
#define DEPTH_MAX   64

/*
 * libdwfl asks the servers of DEBUGINFOD_URLS for files that this machine
 * lacks. By default it tries a server that does not answer three times, 90
 * seconds each.  Here it tries once, for TIMEOUT_TEXT seconds.  SLOW_SECONDS
 * without an answer, or SERVER_SECONDS in all, end the queries.
 */
#define TIMEOUT_TEXT   "5"
#define MAXTIME_TEXT   "15"
#define SLOW_SECONDS   3.0
#define SERVER_SECONDS 30.0
static double server_seconds;
static const char *servers; /* or NULL */

/*
 * A call of libdw may open files, which the target chooses: target_file.c
 * guards them between source_enter() and source_leave().
 */
struct source {
	Dwfl *dwfl;
	struct target *target;
};
static const struct source *entered;
static char *directories; /* in which libdwfl searches */

/* Functions and blocks around an address; innermost is the last. */
struct scopes {
	Dwarf_Die function[SOURCE_FRAMES_MAX];
	size_t n;
	Dwarf_Addr at;
	size_t entries; /* looked at */
};

static void
source_enter(const struct source *source)
{
	entered = source;
	target_file_guard(source->target);
}

static void
source_leave(void)
{
	target_file_guard(NULL);
}

/* Hides the servers from libdwfl, which asks them in find_file() only. */
static void
servers_begin(void)
{
	const char *urls = getenv("DEBUGINFOD_URLS");

	if (urls == NULL || *urls == '\0')
		return;
	servers = xprint("%s", urls);
	unsetenv("DEBUGINFOD_URLS");
	setenv("DEBUGINFOD_TIMEOUT", TIMEOUT_TEXT, /* overwrite */ 0);
	setenv("DEBUGINFOD_MAXTIME", MAXTIME_TEXT, /* overwrite */ 0);
	setenv("DEBUGINFOD_RETRY_LIMIT", "0", /* overwrite */ 0);
	if (isatty(STDERR_FILENO))
		setenv("DEBUGINFOD_PROGRESS", "1", /* overwrite */ 0);
}

/* Counts a search since begin, and ends the queries if they take too long. */
static void
servers_count(double begin, bool found)
{
	double seconds = seconds_now() - begin;

	server_seconds += seconds;
	if ((found || seconds < SLOW_SECONDS) &&
	    server_seconds < SERVER_SECONDS)
		return;
	servers = NULL;
	print_warning("the servers of DEBUGINFOD_URLS are slow, so umem asks "
		      "for no more files; some names may be missing");
}

/* The file that libdwfl seeks; link and sum: of debugging information. */
struct sought {
	Dwfl_Module *module;
	void **data;
	const char *name;
	Dwarf_Addr base;
	const char *file;
	const char *link;
	GElf_Word sum;
	char **found; /* its name */
	Elf **elf;    /* or NULL: debugging information */
};

static int
find_by_id(const struct sought *s)
{
	if (s->elf != NULL)
		return dwfl_build_id_find_elf(
		    s->module, s->data, s->name, s->base, s->found, s->elf);
	return dwfl_build_id_find_debuginfo(s->module, s->data, s->name,
	    s->base, s->file, s->link, s->sum, s->found);
}

static int
find_by_link(const struct sought *s)
{
	if (s->elf != NULL)
		return find_by_id(s);
	return dwfl_standard_find_debuginfo(s->module, s->data, s->name,
	    s->base, s->file, s->link, s->sum, s->found);
}

/*
 * Finds a file below the target's root, or by its build ID below ours, or by a
 * server.  Because the target chooses the names in its files, they are not
 * sought below our root: there, no folder has the name /proc/none.
 */
static int
find_file(const struct sought *s)
{
	static char in_target[] = ":.debug:/usr/lib/debug",
		    here[] = "/usr/lib/debug", nowhere[] = "/proc/none";
	double begin;
	int fd;

	directories = in_target;
	fd = find_by_link(s);
	if (fd >= 0)
		return fd;
	target_file_guard(NULL);
	directories = here;
	fd = find_by_id(s);
	if (fd < 0 && servers != NULL) {
		directories = nowhere;
		begin = seconds_now();
		setenv("DEBUGINFOD_URLS", servers, /* overwrite */ 1);
		fd = find_by_link(s);
		unsetenv("DEBUGINFOD_URLS");
		servers_count(begin, fd >= 0);
	}
	target_file_guard(entered->target);
	return fd;
}

/* Finds the file of a module for libdwfl. */
static int
find_elf(Dwfl_Module *dwfl_module, void **data, const char *name,
    Dwarf_Addr base, char **file_name, Elf **elf)
{
	struct target *of = entered->target;
	const struct module *m = module_find(of, base);
	struct sought sought = {.module = dwfl_module,
	    .data = data,
	    .name = name,
	    .base = base,
	    .found = file_name,
	    .elf = elf};
	int fd = -1;

	/* The process may have ended since it was inspected. */
	if (of->live && kill(of->pid, 0) != 0 && errno == ESRCH)
		return -1;
	if (m != NULL)
		fd = module_open(of, m);
	if (fd < 0)
		return find_file(&sought);
	*file_name = strdup(module_path(m));
	return fd;
}

/* Finds the separate debugging information of a module for libdwfl. */
static int
find_debug(Dwfl_Module *dwfl_module, void **data, const char *name,
    Dwarf_Addr base, const char *file, const char *link, GElf_Word sum,
    char **debug_name)
{
	struct sought sought = {.module = dwfl_module,
	    .data = data,
	    .name = name,
	    .base = base,
	    .file = file,
	    .link = link,
	    .sum = sum,
	    .found = debug_name};
	const unsigned char *id;
	GElf_Addr id_at;

	/* By build ID or checksum; libdwfl would take any file without both. */
	if (sum == 0 && dwfl_module_build_id(dwfl_module, &id, &id_at) <= 0)
		return -1;
	return find_file(&sought);
}

/* Tells libdwfl the modules that have a file name. */
static void
report_modules(Dwfl *dwfl, struct target *target)
{
	size_t n;
	const struct module *m = modules_read(target, &n);

	for (size_t i = 0; i < n; i++) {
		Dwfl_Module *made = dwfl_report_module(
		    dwfl, m[i].file.name, m[i].start, m[i].end);

		if (made != NULL && m[i].id_bytes != 0)
			dwfl_module_report_build_id(
			    made, m[i].id, m[i].id_bytes, m[i].id_at);
	}
}

/* The dynamic linker's list has the names of a core that names no files. */
static void
report_core(const struct source *source)
{
	int fd = open(source->target->name, O_RDONLY | O_CLOEXEC);
	Elf *elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ_MMAP, NULL);

	source_enter(source);
	if (elf != NULL)
		dwfl_core_file_report(source->dwfl, elf, NULL);
	source_leave();
}

struct source *
source_open(struct target *target)
{
	static const Dwfl_Callbacks callbacks = {.find_elf = find_elf,
	    .find_debuginfo = find_debug,
	    .debuginfo_path = &directories};
	struct source *source = xalloc(sizeof(*source));

	servers_begin();
	elf_version(EV_CURRENT);
	*source = (struct source){dwfl_begin(&callbacks), target};
	if (source->dwfl == NULL)
		return NULL;
	if (target->live || target->nfiles != 0)
		report_modules(source->dwfl, target);
	else
		report_core(source);
	dwfl_report_end(source->dwfl, NULL, NULL);
	return source;
}

void
source_close(struct source *source)
{
	if (source != NULL)
		dwfl_end(source->dwfl);
	free(source);
}

/* Returns the module that has the call before this return address. */
static Dwfl_Module *
module_of(struct source *source, uint64_t pc)
{
	struct target *target = source == NULL ? NULL : source->target;

	/* Without names of files, module_find() finds none. */
	if (target == NULL || ((target->live || target->nfiles != 0) &&
				  module_find(target, pc - 1) == NULL))
		return NULL;
	return dwfl_addrmodule(source->dwfl, pc - 1);
}

static const char *
plain_name(const char *symbol, bool *is_rust)
{
	return plain_text(demangle_symbol(symbol, is_rust), SIZE_MAX);
}

const char *
source_function(
    struct source *source, uint64_t pc, uint64_t *offset, bool *is_rust)
{
	Dwfl_Module *module = module_of(source, pc);
	const char *symbol = NULL;
	GElf_Sym unused;

	if (module != NULL) {
		source_enter(source);
		symbol = dwfl_module_addrinfo(
		    module, pc - 1, offset, &unused, NULL, NULL, NULL);
		source_leave();
	}
	*offset += 1;
	return symbol == NULL ? NULL : plain_name(symbol, is_rust);
}

static const char *
base_text(const char *path)
{
	return path == NULL ? NULL : plain_text(base_name(path), SIZE_MAX);
}

const char *
source_object(struct source *source, uint64_t pc, uint64_t *address)
{
	Dwfl_Module *module = module_of(source, pc);
	GElf_Addr bias;

	if (module == NULL)
		return NULL;
	source_enter(source);
	if (dwfl_module_getelf(module, &bias) != NULL)
		*address = pc - bias;
	source_leave();
	return base_text(
	    dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
}

static const char *
line_text(const char *path, int number)
{
	const char *file = base_text(path);

	return file == NULL ? NULL : xprint("%s:%d", file, number);
}

/* Finds the functions below an entry of the tree that have the address. */
static void
find_scopes(Dwarf_Die *entry, struct scopes *scopes, unsigned depth)
{
	Dwarf_Die child;
	size_t before = scopes->n;

	if (depth == DEPTH_MAX || dwarf_child(entry, &child) != 0)
		return;
	do {
		bool is_function = false;

		switch (dwarf_tag(&child)) {
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
			find_scopes(&child, scopes, depth + 1);
			break;
		case DW_TAG_subprogram:
		case DW_TAG_inlined_subroutine:
			is_function = true;
			/* fallthrough */
		case DW_TAG_lexical_block:
			if (dwarf_haspc(&child, scopes->at) != 1)
				break;
			if (is_function && scopes->n < SOURCE_FRAMES_MAX)
				scopes->function[scopes->n++] = child;
			find_scopes(&child, scopes, depth + 1);
			return;
		default:
			break;
		}
	} while (scopes->n == before && ++scopes->entries < ENTRIES_MAX &&
		 dwarf_siblingof(&child, &child) == 0);
}

static const char *
scope_name(Dwarf_Die *scope, bool *is_rust)
{
	static const unsigned names[] = {
	    DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name};
	Dwarf_Attribute attribute;
	const char *name = NULL;

	for (size_t i = 0; i < array_size(names) && name == NULL; i++)
		if (dwarf_attr_integrate(scope, names[i], &attribute) != NULL)
			name = dwarf_formstring(&attribute);
	return name == NULL ? "?" : plain_name(name, is_rust);
}

/* Sets the line of a frame that calls an inlined function. */
static void
call_line(Dwarf_Die *unit, Dwarf_Die *scope, struct symbol_frame *frame)
{
	Dwarf_Attribute attribute;
	Dwarf_Word file, line;
	Dwarf_Files *files;
	size_t nfiles;

	if (dwarf_formudata(
		dwarf_attr(scope, DW_AT_call_file, &attribute), &file) != 0 ||
	    dwarf_formudata(
		dwarf_attr(scope, DW_AT_call_line, &attribute), &line) != 0 ||
	    dwarf_getsrcfiles(unit, &files, &nfiles) != 0)
		return;
	frame->path = dwarf_filesrc(files, file, NULL, NULL);
	frame->line = line_text(frame->path, (int)line);
}

static __attribute__((noreturn)) void
fail_memory(void)
{
	fail_with(EXIT_ERROR,
	    "the debugging information of the program takes too much memory; "
	    "--force to try all the same");
}

/*
 * Returns the unit of an address, or NULL.  libdwfl looks only into the table
 * of address ranges, which clang does not write, and returns a neighbour for an
 * address that no unit has.
 */
static Dwarf_Die *
unit_of(Dwfl_Module *module, uint64_t pc, Dwarf_Addr *bias)
{
	Dwarf *dwarf = dwfl_module_getdwarf(module, bias);
	Dwarf_Die *unit;

	/* libdw's own function ends the process. */
	if (dwarf != NULL)
		dwarf_new_oom_handler(dwarf, fail_memory);
	unit = dwfl_module_addrdie(module, pc, bias);

	if (unit != NULL && dwarf_haspc(unit, pc - *bias) == 1)
		return unit;
	unit = NULL;
	do
		unit = dwfl_module_nextcu(module, unit, bias);
	while (unit != NULL && dwarf_haspc(unit, pc - *bias) != 1);
	return unit;
}

static size_t
find_frames(Dwfl_Module *module, uint64_t pc, struct symbol_frame *frames)
{
	struct scopes scopes = {0};
	Dwarf_Addr bias = 0;
	Dwarf_Die *unit = module ? unit_of(module, pc - 1, &bias) : NULL;
	struct symbol_frame frame = {0};
	size_t n = 0;

	scopes.at = pc - 1 - bias;
	if (unit != NULL) {
		Dwarf_Line *line = dwarf_getsrc_die(unit, scopes.at);
		int number = 0;

		if (line != NULL && dwarf_lineno(line, &number) == 0)
			frame.path = dwarf_linesrc(line, NULL, NULL);
		frame.line = line_text(frame.path, number);
		find_scopes(unit, &scopes, 0);
	}
	for (size_t i = scopes.n; i-- > 1;) {
		Dwarf_Die *scope = &scopes.function[i];

		if (dwarf_tag(scope) != DW_TAG_inlined_subroutine)
			break;
		frame.function = scope_name(scope, &frame.is_rust);
		frame.is_inlined = true;
		frames[n++] = frame;
		frame = (struct symbol_frame){0};
		call_line(unit, scope, &frame);
	}
	frames[n++] = frame;
	return n;
}

size_t
source_frames(struct source *source, uint64_t pc, struct symbol_frame *frames)
{
	Dwfl_Module *module = module_of(source, pc);
	size_t n;

	if (module == NULL)
		return find_frames(NULL, pc, frames);
	source_enter(source);
	n = find_frames(module, pc, frames);
	source_leave();
	return n;
}

/* An unwinding of one thread's stack. */
struct unwinding {
	struct target *target;
	const struct thread *thread;
	uint64_t *pcs;
	size_t n, most;
	bool goes_on; /* with the code that a signal has interrupted: */
	struct thread interrupted;
	uint64_t words[REGISTER_PC + 1];
};

static pid_t
unwind_next_thread(Dwfl *dwfl, void *arg, void **thread_arg)
{
	struct unwinding *unwinding = arg;

	(void)dwfl;
	if (*thread_arg != NULL)
		return 0;
	*thread_arg = unwinding;
	return unwinding->thread->tid;
}

/* Removes the signature of a return address; libdwfl 0.188 does not. */
static Dwarf_Word
unsigned_address(const struct unwinding *unwinding, Dwarf_Word word)
{
	Dwarf_Word plain = word & ~unwinding->thread->signature;

	return target_is_code(unwinding->target, plain) ? plain : word;
}

static bool
unwind_read(Dwfl *dwfl, Dwarf_Addr at, Dwarf_Word *word, void *arg)
{
	struct unwinding *unwinding = arg;

	(void)dwfl;
	if (!target_peek(unwinding->target, at, word, sizeof(*word)))
		return false;
	*word = unsigned_address(unwinding, *word);
	return true;
}

static bool
unwind_registers(Dwfl_Thread *thread, void *arg)
{
	static const unsigned char order[] = REGISTER_DWARF;
	const struct unwinding *unwinding = arg;
	Dwarf_Word words[array_size(order)];

	for (size_t i = 0; i < array_size(order); i++)
		words[i] = unsigned_address(
		    unwinding, unwinding->thread->words[order[i]]);
	dwfl_thread_state_register_pc(thread, unwinding->thread->pc);
	return dwfl_thread_state_registers(thread, 0, array_size(order), words);
}

#ifdef REGISTER_LINK
/*
 * A signal handler returns to "mov x8, #139; svc #0" in the kernel's vDSO,
 * without an unwind table.  The kernel has stored the registers at the stack
 * pointer, in the order of NT_PRSTATUS: behind siginfo, of 128 bytes, and 184
 * bytes of ucontext.
 */
#define SIGNAL_RETURN    0xd4000001d2801168
#define SIGNAL_REGISTERS (128 + 184)

/* Does a signal handler return to this frame? */
static bool
find_interrupted(struct unwinding *unwinding, Dwfl_Frame *frame, Dwarf_Addr pc)
{
	struct target *target = unwinding->target;
	uint64_t *words = unwinding->words, code;
	Dwarf_Word sp;

	if (!target_peek(target, pc, &code, sizeof(code)) ||
	    code != SIGNAL_RETURN ||
	    dwfl_frame_reg(frame, REGISTER_SP, &sp) != 0 ||
	    !target_peek(
		target, sp + SIGNAL_REGISTERS, words, sizeof(unwinding->words)))
		return false;
	unwinding->interrupted = *unwinding->thread;
	unwinding->interrupted.words = words;
	unwinding->interrupted.nwords = array_size(unwinding->words);
	unwinding->interrupted.sp = words[REGISTER_SP];
	unwinding->interrupted.pc = words[REGISTER_PC];
	return true;
}
#else
static bool
find_interrupted(struct unwinding *unwinding, Dwfl_Frame *frame, Dwarf_Addr pc)
{
	(void)unwinding;
	(void)frame;
	(void)pc;
	return false;
}
#endif

static int
unwind_frame(Dwfl_Frame *frame, void *arg)
{
	struct unwinding *unwinding = arg;
	Dwarf_Addr pc;
	bool is_exact = false;

	if (unwinding->n == unwinding->most ||
	    !dwfl_frame_pc(frame, &pc, &is_exact))
		return DWARF_CB_ABORT;
	unwinding->goes_on =
	    !is_exact && find_interrupted(unwinding, frame, pc);
	if (unwinding->goes_on)
		return DWARF_CB_ABORT;
	unwinding->pcs[unwinding->n++] = is_exact ? pc | SYMBOL_EXACT : pc;
	return DWARF_CB_OK;
}

size_t
source_unwind(struct source *source, struct target *target,
    const struct thread *thread, uint64_t *pcs, size_t n)
{
	static const Dwfl_Thread_Callbacks callbacks = {
	    .next_thread = unwind_next_thread,
	    .memory_read = unwind_read,
	    .set_initial_registers = unwind_registers};
	struct unwinding unwinding = {
	    .target = target, .thread = thread, .pcs = pcs, .most = n};
	Dwfl *dwfl = source == NULL ? NULL : source->dwfl;

	if (dwfl == NULL)
		return 0;
	source_enter(source);
	unwinding.goes_on =
	    dwfl_attach_state(dwfl, NULL, target->pid, &callbacks, &unwinding);
	while (unwinding.goes_on) {
		unwinding.goes_on = false;
		/* It fails where the stack cannot be followed further. */
		dwfl_getthread_frames(
		    dwfl, thread->tid, unwind_frame, &unwinding);
		unwinding.thread = &unwinding.interrupted;
	}
	source_leave();
	return unwinding.n;
}
