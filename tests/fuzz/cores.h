/* cores.h - the cores that make_core.py has written, for fuzzers */
#ifndef TESTS_FUZZ_CORES_H
#define TESTS_FUZZ_CORES_H

#include <elf.h>
#include <libgen.h>

#include "tests/fuzz/command.h"
#include "vmem/description.h"

#define NCORES 3

static const char *const names[NCORES] = {"plain", "debug", "sample"};

static struct core {
	int fd; /* the file, in memory */
	char *bytes;
	size_t n;
	uint32_t *words; /* places to damage */
	size_t nwords;
} cores[NCORES];

/* Adds words, of equal ones in a row only the first, and zeros if wanted. */
static void
add_words(struct core *core, size_t at, size_t end, bool zeros)
{
	uint64_t before = 0;

	for (at = (at + 7) & ~(size_t)7; at + 8 <= end && at + 8 <= core->n;
	     at += 8) {
		uint64_t word;

		memcpy(&word, core->bytes + at, 8);
		if (word != before || zeros)
			core->words[core->nwords++] = (uint32_t)at;
		before = word;
	}
}

/* Returns the place of an address in the core; 0: it has none. */
static size_t
place_of(const struct core *core, uint64_t address)
{
	const Elf64_Ehdr *h = (const void *)core->bytes;
	const Elf64_Phdr *p = (const void *)(core->bytes + h->e_phoff);

	for (unsigned i = 0; i < h->e_phnum; i++)
		if (p[i].p_type == PT_LOAD &&
		    address - p[i].p_vaddr < p[i].p_filesz)
			return p[i].p_offset + (address - p[i].p_vaddr);
	return 0;
}

/* Adds the entries of the library's description, which are read-only. */
static void
add_description(struct core *core)
{
	struct description header;
	const char *at = memmem(
	    core->bytes, core->n, DESCRIPTION_MAGIC, sizeof(header.magic));
	size_t place;

	fuzz_check(at != NULL);
	memcpy(&header, at, sizeof(header));
	place = place_of(core, (uintptr_t)header.entries);
	fuzz_check(place != 0);
	add_words(core, place,
	    place + ((uintptr_t)header.entries_end - (uintptr_t)header.entries),
	    true);
}

static void
read_core(struct core *core, const char *path)
{
	FILE *file = fopen(path, "r");
	const Elf64_Ehdr *h;
	const Elf64_Phdr *p;

	fuzz_check(file != NULL);
	fseek(file, 0, SEEK_END);
	core->n = (size_t)ftell(file);
	rewind(file);
	core->bytes = malloc(core->n);
	core->words = malloc(core->n / 8 * sizeof(*core->words));
	fuzz_check(fread(core->bytes, 1, core->n, file) == core->n);
	fclose(file);
	core->fd = memfd_create("core", MFD_CLOEXEC);
	fuzz_check(write(core->fd, core->bytes, core->n) == (ssize_t)core->n);
	h = (const void *)core->bytes;
	p = (const void *)(core->bytes + h->e_phoff);
	add_words(core, 0, h->e_phoff + 56u * h->e_phnum, true);
	for (unsigned i = 0; i < h->e_phnum; i++) {
		if (p[i].p_type == PT_NOTE || (p[i].p_flags & PF_W) != 0)
			add_words(core, p[i].p_offset,
			    p[i].p_offset + p[i].p_filesz,
			    p[i].p_type == PT_NOTE);
	}
	add_description(core);
	fuzz_check(core->nwords > 1000);
}

/* Reads the cores from the folder beside the fuzzer. */
static void
read_cores(const char *fuzzer)
{
	char beside[4096], path[4200];

	snprintf(beside, sizeof(beside), "%s", fuzzer);
	dirname(beside);
	for (unsigned i = 0; i < NCORES; i++) {
		snprintf(
		    path, sizeof(path), "%s/cores/%s.core", beside, names[i]);
		read_core(&cores[i], path);
	}
}

#define CORE_NAME_BYTES 64

static void
core_name(const struct core *core, char *name)
{
	snprintf(name, CORE_NAME_BYTES, "/proc/self/fd/%d", core->fd);
}

/* The next run of the command reads this core, and copies nothing. */
static void
core_map(const struct core *core)
{
	command.mapped = core->bytes;
	command.mapped_bytes = core->n;
}

static uint64_t
core_word(const struct core *core, size_t at)
{
	uint64_t word;

	memcpy(&word, core->bytes + at, 8);
	return word;
}

static void
core_set_word(struct core *core, size_t at, uint64_t word)
{
	memcpy(core->bytes + at, &word, 8);
	fuzz_check(pwrite(core->fd, &word, 8, (off_t)at) == 8);
}

#endif
