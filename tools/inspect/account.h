/* account.h - where the memory of the target is; see account.c */
#ifndef TOOLS_ACCOUNT_H
#define TOOLS_ACCOUNT_H

#include "tools/inspect/model.h"

/* In bytes; the members are those of struct umem_stats. */
struct memory_account {
	uint64_t mapped, heap, live, cached, waiting, free, dirty, own;
	uint64_t large, samples, arenas; /* parts of live */
	uint64_t
	    limited; /* heap, and pages that are purged within slabs, ... */
};

struct memory_account account_read(struct model *model);

/* Print the account as lines, or as members of a JSON object. */
void account_print(const struct memory_account *account);
void account_json(const struct memory_account *account);

#endif
