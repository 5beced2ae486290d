/*
 * vdso.c - the kernel's function that reads a clock
 *
 * The vDSO is a small shared library that the kernel maps into each process.
 * Its functions need no system call, and no program replaces them.  The process
 * has none in some emulators, under valgrind, or if the kernel was started
 * without it.
 *
 * The addresses in the image are those of a library that begins at the address
 * of its first segment to load.  Its table of symbols has no length of its own.
 * The table of names is behind it, in the linker script of the kernel as in
 * those of the linkers.
 */
#include <elf.h>

#include "vmem/os.h"
#include "vmem/string.h"
#include "vmem/syscall.h"
#include "vmem/vdso.h"

struct vdso {
	uintptr_t bias; /* added to an address in the image */
	const Elf64_Dyn *dynamic;
	const Elf64_Sym *symbols;
	const char *names;
};

/* Finds the dynamic section; false if the image is none that is known. */
static bool
vdso_open(struct vdso *vdso, uintptr_t image)
{
	const Elf64_Ehdr *header = (const void *)image;
	const Elf64_Phdr *segment = (const void *)(image + header->e_phoff);
	bool is_loaded = false;

	if (header->e_ident[EI_CLASS] != ELFCLASS64 ||
	    header->e_phentsize != sizeof(*segment))
		return false;
	for (unsigned i = 0; i < header->e_phnum; i++, segment++) {
		if (segment->p_type == PT_LOAD && !is_loaded) {
			vdso->bias =
			    image + segment->p_offset - segment->p_vaddr;
			is_loaded = true;
		} else if (segment->p_type == PT_DYNAMIC) {
			vdso->dynamic =
			    (const void *)(image + segment->p_offset);
		}
	}
	return is_loaded && vdso->dynamic != NULL;
}

/* Finds the tables; false if they are not as expected. */
static bool
vdso_tables(struct vdso *vdso)
{
	for (const Elf64_Dyn *d = vdso->dynamic; d->d_tag != DT_NULL; d++) {
		const void *at = (const void *)(vdso->bias + d->d_un.d_ptr);

		if (d->d_tag == DT_SYMTAB)
			vdso->symbols = at;
		else if (d->d_tag == DT_STRTAB)
			vdso->names = at;
	}
	return vdso->symbols != NULL &&
	       (const char *)vdso->symbols < vdso->names;
}

vdso_clock *
vdso_find_clock(void)
{
	uintptr_t image = os_auxv(AT_SYSINFO_EHDR);
	struct vdso vdso = {0};

	if (image == 0 || !vdso_open(&vdso, image) || !vdso_tables(&vdso))
		return NULL;
	for (const Elf64_Sym *s = vdso.symbols;
	     (const char *)(s + 1) <= vdso.names; s++)
		if (s->st_shndx != SHN_UNDEF &&
		    ELF64_ST_TYPE(s->st_info) == STT_FUNC &&
		    string_is_equal(vdso.names + s->st_name, VDSO_CLOCK))
			return (vdso_clock *)(vdso.bias + s->st_value);
	return NULL;
}
