/*
 * target_core.c - an ELF core file
 *
 * The file is mapped, and its loadable segments are the regions.  Segments that
 * are adjacent in memory and in the file form one region.  Parts of a segment
 * without bytes in the file (text, and pages that were never written to) are
 * missing; they contain nothing that this command needs.  Of a truncated file
 * the memory at the end is missing, too, and the user is warned.  Notes give
 * registers (NT_PRSTATUS, in the order of threads) and names of mapped files
 * (NT_FILE).
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/inspect/target/target.h"

static void
file_map(struct target *target)
{
	struct stat info;
	int fd = open(target->name, O_RDONLY | O_CLOEXEC);

	assert(target->file == NULL);
	if (fd < 0 || fstat(fd, &info) != 0)
		fail_with(EXIT_ERROR, "%s: %s", target->name, strerror(errno));
	if (!S_ISREG(info.st_mode))
		fail_with(EXIT_ERROR, "%s: neither a process nor a core file",
		    target->name);
	target->file_bytes = (size_t)info.st_size;
	if (target->file_bytes < sizeof(Elf64_Ehdr))
		fail_with(EXIT_ERROR, "%s: not a core file", target->name);
	target->file =
	    mmap(NULL, target->file_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (target->file == MAP_FAILED)
		fail_with(EXIT_ERROR, "%s: %s", target->name, strerror(errno));
	close(fd);
}

#define TRUNCATED                                                              \
	"%s: the core file is truncated: it has %zu bytes and should have "    \
	"%lu (ulimit -c? no room on the disk?)"

/* Returns how many of these bytes the file has, from the first on. */
static uint64_t
file_part(const struct target *target, uint64_t offset, uint64_t bytes)
{
	uint64_t left = target->file_bytes;

	left = offset > left ? 0 : left - offset;
	return bytes < left ? bytes : left;
}

/* Returns a part of the file without which nothing can be read. */
static const void *
file_at(struct target *target, uint64_t offset, uint64_t bytes)
{
	if (offset > target->file_bytes ||
	    file_part(target, offset, bytes) < bytes)
		fail_with(EXIT_ERROR, TRUNCATED, target->name,
		    target->file_bytes, offset + bytes);
	return target->file + offset;
}

/* Warns if the memory or the notes in the file are incomplete. */
static void
warn_cut(struct target *target, const Elf64_Phdr *segments, size_t nsegments)
{
	uint64_t end = 0;

	for (size_t i = 0; i < nsegments; i++) {
		const Elf64_Phdr *p = &segments[i];

		if ((p->p_type == PT_LOAD || p->p_type == PT_NOTE) &&
		    p->p_filesz != 0 && p->p_offset + p->p_filesz > end)
			end = p->p_offset + p->p_filesz;
	}
	target->truncated = end > target->file_bytes;
	if (target->truncated)
		print_warning(TRUNCATED
		    "; umem uses the part that is there: results are "
		    "incomplete, and blocks may count as leaked that are not",
		    target->name, target->file_bytes, end);
}

static const Elf64_Ehdr *
header_check(struct target *target)
{
	const Elf64_Ehdr *h = (const void *)target->file;

	if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_type != ET_CORE)
		fail_with(EXIT_ERROR, "%s: not a core file", target->name);
	if (h->e_ident[EI_CLASS] != ELFCLASS64 ||
	    h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_machine != OUR_MACHINE)
		fail_with(EXIT_ERROR,
		    "%s: a core file of another kind of machine", target->name);
	return h;
}

/* A core with very many mappings stores the count in its section header 0. */
static size_t
segment_count(struct target *target, const Elf64_Ehdr *h)
{
	Elf64_Shdr section;

	if (h->e_phnum != PN_XNUM)
		return h->e_phnum;
	memcpy(&section, file_at(target, h->e_shoff, sizeof(section)),
	    sizeof(section));
	return section.sh_info;
}

static void
take_load(struct target *target, const Elf64_Phdr *p)
{
	struct mapping *m = &target->maps[target->nmaps];
	uint64_t bytes = file_part(target, p->p_offset, p->p_filesz);

	if (p->p_vaddr + p->p_memsz < p->p_vaddr || p->p_memsz == 0)
		return;
	target->nmaps++;
	*m = (struct mapping){.start = p->p_vaddr,
	    .end = p->p_vaddr + p->p_memsz,
	    .read = p->p_flags & PF_R,
	    .write = p->p_flags & PF_W,
	    .execute = p->p_flags & PF_X,
	    .name = ""};
	/* In a damaged core, the words may be unaligned. */
	bytes &= ~(uint64_t)7;
	if (bytes == 0 || (p->p_offset - p->p_vaddr) % 8 != 0)
		return;
	target_add_region(
	    target, (struct region){.at = p->p_vaddr,
			.bytes = bytes < p->p_memsz ? bytes : p->p_memsz,
			.local = file_at(target, p->p_offset, bytes)});
}

/* Joins adjacent segments, because a variable may cross the border of two. */
static void
join_regions(struct target *target)
{
	size_t n = 0;

	for (size_t i = 0; i < target->nregions; i++) {
		struct region *last = target->regions + (n ? n - 1 : 0);
		const struct region *r = &target->regions[i];

		assert(n <= i && r->local != NULL);
		if (n > 0 && last->at + last->bytes == r->at &&
		    last->local + last->bytes == r->local)
			last->bytes += r->bytes;
		else
			target->regions[n++] = *r;
	}
	target->nregions = n;
	target->last = 0;
}

static struct thread *
take_thread(struct target *target, const char *at, size_t n)
{
	struct elf_prstatus status;
	struct thread *thread;

	static_assert(sizeof(status.pr_reg) / 8 > REGISTER_PC, "in the note");
	if (n < sizeof(status))
		return NULL;
	memcpy(&status, at, sizeof(status));
	ARRAY_ADD(target->threads, target->nthreads, target->threads_capacity,
	    (struct thread){.tid = status.pr_pid, .stopped = true});
	thread = &target->threads[target->nthreads - 1];
	thread->nwords = sizeof(status.pr_reg) / 8;
	thread->words = xalloc(sizeof(status.pr_reg));
	memcpy(thread->words, &status.pr_reg, sizeof(status.pr_reg));
	thread->sp = thread->words[REGISTER_SP];
	thread->pc = thread->words[REGISTER_PC];
#ifdef REGISTER_TP
	thread->tp = thread->words[REGISTER_TP];
#endif
	return thread;
}

static void
take_registers(struct thread *thread, const char *at, size_t n)
{
	if (thread == NULL || n / 8 == 0)
		return;
	assert(thread->stopped && thread->nwords > REGISTER_PC);
	thread->words = xresize(thread->words, (thread->nwords + n / 8) * 8);
	memcpy(thread->words + thread->nwords, at, n / 8 * 8);
	thread->nwords += n / 8;
}

/* Reads word i of a note.  In a damaged core, it may be unaligned. */
static uint64_t
word_of(const char *at, uint64_t i)
{
	uint64_t word;

	memcpy(&word, at + 8 * i, sizeof(word));
	return word;
}

/* Gives the mappings that overlap a file its name. */
static void
name_maps(struct target *target, const struct mapping *file)
{
	for (size_t i = 0; i < target->nmaps; i++) {
		struct mapping *m = &target->maps[i];

		if (m->start >= file->end || m->end <= file->start)
			continue;
		m->offset = file->offset + (m->start - file->start);
		m->path = file->path;
		m->name = file->name;
		m->file = true;
	}
}

/* Layout: count, page size; start, end and page of each file; the names. */
static void
take_names(struct target *target, const char *at, size_t n)
{
	const char *name, *end = at + n;
	uint64_t count = n >= 16 ? word_of(at, 0) : 0;

	/* The last name must end in 0. */
	if (n < 16 || count > (n - 16) / 24 || end[-1] != '\0')
		return;
	name = at + 8 * (2 + 3 * count);
	target->files = xalloc(count * sizeof(*target->files));
	target->nfiles = 0;
	for (uint64_t i = 0; i < count && name < end; i++) {
		target->files[target->nfiles++] =
		    (struct mapping){.start = word_of(at, 2 + 3 * i),
			.end = word_of(at, 2 + 3 * i + 1),
			.offset = word_of(at, 1) * word_of(at, 2 + 3 * i + 2),
			.file = true,
			.path = name,
			.name = plain_text(name, (size_t)(end - name))};
		name += strnlen(name, (size_t)(end - name)) + 1;
	}
	for (size_t i = 0; i < target->nfiles; i++)
		name_maps(target, &target->files[i]);
	ARRAY_SORT(target->files, target->nfiles, order_first_words);
}

/*
 * AT_PAGESZ: on aarch64, the core may be of a machine with other pages.
 * AT_RANDOM: the kernel stores random bytes on the first thread's stack.
 */
static void
take_auxv(struct target *target, const char *at, size_t n)
{
	for (size_t i = 0; i + 1 < n / 8; i += 2) {
		uint64_t key = word_of(at, i), value = word_of(at, i + 1);

		if (key == AT_PAGESZ)
			target->page_bytes = value;
		for (size_t j = 0; j < target->nmaps; j++) {
			struct mapping *m = &target->maps[j];

			if (key == AT_RANDOM &&
			    value - m->start < m->end - m->start)
				m->name = "[stack]";
		}
	}
}

/*
 * The kernel writes a blank behind each of the program's words, cuts long ones
 * and pads with zeros.
 */
static void
take_process(struct target *target, const char *at, size_t n)
{
	struct elf_prpsinfo info;
	size_t end;

	if (n < sizeof(info))
		return;
	memcpy(&info, at, sizeof(info));
	target->pid = info.pr_pid;
	end = strnlen(info.pr_psargs, sizeof(info.pr_psargs) - 1);
	while (end != 0 && info.pr_psargs[end - 1] == ' ')
		end--;
	info.pr_psargs[end] = '\0';
	target->command = plain_text(info.pr_psargs, sizeof(info.pr_psargs));
	target->comm = plain_text(info.pr_fname, sizeof(info.pr_fname));
}

static void
take_signal(struct target *target, const char *at, size_t n)
{
	siginfo_t info;

	if (n < sizeof(info))
		return;
	memcpy(&info, at, sizeof(info));
	target->signal = info.si_signo;
	target->signal_code = info.si_code;
	target->fault_address = (uintptr_t)info.si_addr;
}

static void
take_notes(struct target *target, const char *at, size_t n)
{
	struct thread *thread = NULL;
	const char *end = at + n;

	/* Padding to four bytes may extend beyond the end. */
	while (at < end && (size_t)(end - at) >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr header, *note = &header;
		const char *text = at + sizeof(header);

		memcpy(&header, at, sizeof(header));
		text += ((size_t)note->n_namesz + 3) & ~(size_t)3;

		if (text > end || note->n_descsz > (size_t)(end - text))
			return;
		if (note->n_type == NT_PRSTATUS)
			thread = take_thread(target, text, note->n_descsz);
		else if (note->n_type == NT_FILE)
			take_names(target, text, note->n_descsz);
		else if (note->n_type == NT_AUXV)
			take_auxv(target, text, note->n_descsz);
		else if (note->n_type == NT_PRPSINFO)
			take_process(target, text, note->n_descsz);
		else if (note->n_type == NT_SIGINFO)
			take_signal(target, text, note->n_descsz);
		else if (note->n_type == NT_PRFPREG ||
			 note->n_type == REGISTERS_WIDE)
			take_registers(thread, text, note->n_descsz);
		else if (note->n_type == NT_ARM_TLS && thread != NULL &&
			 note->n_descsz >= sizeof(thread->tp))
			memcpy(&thread->tp, text, sizeof(thread->tp));
		else if (note->n_type == NT_ARM_PAC_MASK && thread != NULL &&
			 note->n_descsz >= 2 * sizeof(thread->signature))
			thread->signature = word_of(text, 1);
		at = text + (((size_t)note->n_descsz + 3) & ~(size_t)3);
	}
}

void
core_open(struct target *target)
{
	Elf64_Phdr *segments;
	const Elf64_Ehdr *h;
	const void *table;
	size_t n;

	assert(!target->live);
	target->command = target->comm = "";
	file_map(target);
	h = header_check(target);
	n = segment_count(target, h);
	table = file_at(target, h->e_phoff, n * sizeof(*segments));
	/* In a damaged core, the table may be unaligned. */
	segments = xalloc(n * sizeof(*segments));
	memcpy(segments, table, n * sizeof(*segments));
	target->maps = xalloc((n + 1) * sizeof(*target->maps));
	for (size_t i = 0; i < n; i++)
		if (segments[i].p_type == PT_LOAD)
			take_load(target, &segments[i]);
	warn_cut(target, segments, n);
	join_regions(target);
	ARRAY_SORT(target->maps, target->nmaps, order_first_words);
	for (size_t i = 0; i < n; i++) {
		const Elf64_Phdr *p = &segments[i];
		uint64_t bytes = file_part(target, p->p_offset, p->p_filesz);

		if (p->p_type == PT_NOTE && bytes != 0)
			take_notes(target, target->file + p->p_offset, bytes);
	}
}
