/*
 * object.c - the object (the program or a shared library) of an address
 *
 * The program is found by the program headers that the kernel has passed to it.
 * A static program has no other object, and libc allocates before its
 * _dl_find_object() may be called there.
 *
 * _dl_find_object() of glibc 2.35 finds the libraries, takes no lock and may be
 * called anywhere.  An older glibc and musl have lists of libraries only, which
 * dlopen() changes: dl_iterate_phdr() takes a lock that a child of fork() may
 * find taken, or that the thread has in dlopen(), and without a lock a list may
 * lead to a library that is gone.  Therefore only this library is found there,
 * by its own headers.
 *
 * The linker leaves .eh_frame_hdr, the sorted table of functions, out of a
 * static program, and then glibc finds no table either.  Section headers lead
 * to its .eh_frame; they are in its file, which the first call reads.  If
 * several threads read them at one time, they store the same values.
 */
#include <link.h>
#include <string.h>

#include "umem/debug/object.h"
#include "vmem/os.h"

/* glibc's struct dl_find_object, which older headers lack. */
struct found_object {
	unsigned long long flags;
	void *map_start, *map_end;
	struct link_map *map;
	void *eh_frame_hdr;
	unsigned long long reserved[9];
};

extern int libc_find_object(void *, struct found_object *) __asm__(
    "_dl_find_object") __attribute__((weak));

/* Defined by the linker: the header of this library, or of a static program. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

/* The program or a library. */
struct program {
	const ElfW(Phdr) * headers;
	size_t n;
	uintptr_t bias;
};

/* Returns the program; n is 0 if its headers do not tell where it is. */
static struct program
program_read(void)
{
	struct program p = {
	    .headers = (const void *)os_auxv(AT_PHDR), .n = os_auxv(AT_PHNUM)};

	for (size_t i = 0; i < p.n; i++)
		if (p.headers[i].p_type == PT_LOAD &&
		    p.headers[i].p_offset == 0) {
			/* The headers follow the header of the file. */
			p.bias = (uintptr_t)p.headers -
				 (p.headers[i].p_vaddr + sizeof(ElfW(Ehdr)));
			return p;
		}
	p.n = 0;
	return p;
}

static bool
program_has(const struct program *p, uintptr_t pc)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->headers[i].p_type == PT_LOAD &&
		    pc - p->bias - p->headers[i].p_vaddr <
			p->headers[i].p_memsz)
			return true;
	return false;
}

const ElfW(Shdr) * file_sections(const char *file, size_t bytes, unsigned *n)
{
	const ElfW(Ehdr) *e = (const void *)file;

	*n = 0;
	if (bytes < sizeof(*e) || memcmp(e->e_ident, ELFMAG, SELFMAG) != 0 ||
	    e->e_shentsize != sizeof(ElfW(Shdr)) || e->e_shoff > bytes ||
	    (bytes - e->e_shoff) / sizeof(ElfW(Shdr)) < e->e_shnum)
		return NULL;
	*n = e->e_shnum;
	return (const void *)(file + e->e_shoff);
}

/* Finds .eh_frame in a mapped file, which may be any file. */
static const ElfW(Shdr) * file_eh_frame(const char *file, size_t bytes)
{
	static const char name[] = ".eh_frame";
	const ElfW(Ehdr) *e = (const void *)file;
	unsigned n;
	const ElfW(Shdr) *s = file_sections(file, bytes, &n), *names;

	if (s == NULL || e->e_shstrndx >= n)
		return NULL;
	names = &s[e->e_shstrndx];
	if (names->sh_offset > bytes ||
	    bytes - names->sh_offset < names->sh_size)
		return NULL;
	for (unsigned i = 0; i < n; i++)
		if (s[i].sh_name < names->sh_size &&
		    names->sh_size - s[i].sh_name >= sizeof(name) &&
		    memcmp(file + names->sh_offset + s[i].sh_name, name,
			sizeof(name)) == 0)
			return &s[i];
	return NULL;
}

/* Sets the .eh_frame of the program, if its file and memory have one. */
static void
object_read_file(struct code_object *object, const struct program *p)
{
	const ElfW(Shdr) *s = NULL;
	size_t bytes;
	char *file;

	/* A filter may end a confined process for an open(). */
	if (os_is_confined())
		return;
	file = os_map_file("/proc/self/exe", &bytes);
	if (file == NULL)
		return;
	s = file_eh_frame(file, bytes);
	if (s != NULL && s->sh_size != 0 &&
	    program_has(p, p->bias + s->sh_addr) &&
	    program_has(p, p->bias + s->sh_addr + s->sh_size - 1)) {
		object->eh_frame = (const uint8_t *)(p->bias + s->sh_addr);
		object->eh_frame_bytes = s->sh_size;
	}
	os_unmap(file, align_up(bytes, os_page_size()));
}

/* Sets the .eh_frame of the program, whose file is read once. */
static void
object_find_eh_frame(struct code_object *object, const struct program *p)
{
	static const uint8_t *eh_frame; /* [a] NULL: none */
	static size_t eh_frame_bytes;   /* [a] */
	static bool is_read;            /* [a] stored after the other two */

	if (load_acquire(&is_read)) {
		object->eh_frame = load_relaxed(&eh_frame);
		object->eh_frame_bytes = load_relaxed(&eh_frame_bytes);
		return;
	}
	object_read_file(object, p);
	store_relaxed(&eh_frame, object->eh_frame);
	store_relaxed(&eh_frame_bytes, object->eh_frame_bytes);
	store_release(&is_read, true);
}

/* Finds the object by the program headers. */
static bool
find_program(const struct program *p, uintptr_t pc, struct code_object *object)
{
	if (!program_has(p, pc))
		return false;
	*object = (struct code_object){.bias = p->bias, .path = ""};
	for (size_t i = 0; i < p->n; i++)
		if (p->headers[i].p_type == PT_GNU_EH_FRAME)
			object->eh_frame_hdr =
			    (const uint8_t *)(p->bias + p->headers[i].p_vaddr);
	return true;
}

static bool
find_by_address(uintptr_t pc, struct code_object *object)
{
	struct found_object found;

	if (libc_find_object == NULL ||
	    libc_find_object((void *)pc, &found) != 0)
		return false;
	*object = (struct code_object){
	    .start = found.map_start, .eh_frame_hdr = found.eh_frame_hdr};
	if (found.map != NULL) {
		object->bias = found.map->l_addr;
		object->path = found.map->l_name;
	}
	return true;
}

/* Finds this library, whose first segment begins with the header. */
static bool
find_own(uintptr_t pc, struct code_object *object)
{
	const char *start = (const char *)&__ehdr_start;
	struct program own = {
	    .headers = (const void *)(start + __ehdr_start.e_phoff),
	    .n = __ehdr_start.e_phnum,
	    .bias = (uintptr_t)start};

	if (!find_program(&own, pc, object))
		return false;
	object->path = NULL;
	return true;
}

bool
code_find_object(uintptr_t pc, struct code_object *object)
{
	struct program p = program_read();

	if (!find_program(&p, pc, object))
		return find_by_address(pc, object) || find_own(pc, object);
	if (object->eh_frame_hdr == NULL)
		object_find_eh_frame(object, &p);
	return true;
}
