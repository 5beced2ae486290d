/*
 * vdso.c - the kernel's function that reads a clock
 *
 * The vDSO is a small shared library that the kernel maps into each process.
 * Its functions need no system call, and no program replaces them.  The process
 * has none in some emulators, under valgrind, or if the kernel was started
 * without it.
 *
 * The addresses in the image are those of a library that begins at the address
 * of its first segment to load.  Its table of symbols has no length of its own;
 * a hash table has it.  Newer kernels have only one of the two kinds of hash
 * table on some architectures.
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
	const uint32_t *hash, *gnu_hash;
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

/* Finds the tables; false if one is missing. */
static bool
vdso_tables(struct vdso *vdso)
{
	for (const Elf64_Dyn *d = vdso->dynamic; d->d_tag != DT_NULL; d++) {
		const void *at = (const void *)(vdso->bias + d->d_un.d_ptr);

		if (d->d_tag == DT_SYMTAB)
			vdso->symbols = at;
		else if (d->d_tag == DT_STRTAB)
			vdso->names = at;
		else if (d->d_tag == DT_HASH)
			vdso->hash = at;
		else if (d->d_tag == DT_GNU_HASH)
			vdso->gnu_hash = at;
	}
	return vdso->symbols != NULL && vdso->names != NULL &&
	       (vdso->hash != NULL || vdso->gnu_hash != NULL);
}

/*
 * The number of symbols.  DT_HASH begins with the number of buckets and that of
 * symbols.  DT_GNU_HASH has a header of four words: the number of buckets, the
 * first symbol in them, the number of words of 64 bits of a filter, and a
 * shift.  The filter follows, then the buckets, each with its first symbol.
 * Then there is a word for each symbol.  Its lowest bit marks the last symbol
 * of a bucket.
 */
static size_t
vdso_count(const struct vdso *vdso)
{
	const uint32_t *gnu = vdso->gnu_hash, *buckets, *chain;
	size_t last = 0;

	if (vdso->hash != NULL)
		return vdso->hash[1];
	buckets = gnu + 4 + (size_t)2 * gnu[2];
	chain = buckets + gnu[0];
	for (uint32_t i = 0; i < gnu[0]; i++)
		if (buckets[i] > last)
			last = buckets[i];
	if (last < gnu[1])
		return 0;
	while ((chain[last - gnu[1]] & 1) == 0)
		last++;
	return last + 1;
}

vdso_clock *
vdso_find_clock(void)
{
	uintptr_t image = os_auxv(AT_SYSINFO_EHDR);
	struct vdso vdso = {0};
	size_t n;

	if (image == 0 || !vdso_open(&vdso, image) || !vdso_tables(&vdso))
		return NULL;
	n = vdso_count(&vdso);
	for (const Elf64_Sym *s = vdso.symbols; n > 0; s++, n--)
		if (s->st_shndx != SHN_UNDEF &&
		    ELF64_ST_TYPE(s->st_info) == STT_FUNC &&
		    string_is_equal(vdso.names + s->st_name, VDSO_CLOCK))
			return (vdso_clock *)(vdso.bias + s->st_value);
	return NULL;
}
