/* symbols_none.c - names without elfutils: files and offsets */
#include <string.h>

#include "tools/inspect/symbols.h"

const char *
symbol_name(struct target *target, uint64_t pc)
{
	const struct mapping *m = target_mapping(target, pc - 1);
	const char *slash;

	if (m == NULL || m->name[0] == '\0')
		return xprint("0x%lx", pc);
	slash = strrchr(m->name, '/');
	return xprint(
	    "%s+0x%lx", slash ? slash + 1 : m->name, pc - m->start + m->offset);
}

const char *
symbol_line(struct target *target, uint64_t pc)
{
	(void)target;
	(void)pc;
	return NULL;
}

const char *
symbol_build_id(struct target *target, uint64_t pc)
{
	(void)target;
	(void)pc;
	return "";
}
