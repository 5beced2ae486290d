/* symbols_none.c - names without elfutils: files and addresses in them */
#include <string.h>

#include "tools/inspect/modules.h"
#include "tools/inspect/symbols.h"

const char *
symbol_name(struct target *target, uint64_t pc)
{
	const struct module *module = module_find(target, pc - 1);
	const struct mapping *m =
	    module ? module->file : target_mapping(target, pc - 1);
	const char *slash;

	if (m == NULL || m->name[0] == '\0')
		return xprint("0x%lx", pc);
	slash = strrchr(m->name, '/');
	return xprint("%s+0x%lx", slash ? slash + 1 : m->name,
	    module ? pc - module->bias : pc - m->start + m->offset);
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
