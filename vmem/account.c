/* account.c - counts of memory; see account.h */
#include "vmem/account.h"
#include "vmem/describe.h"

struct account account;

DESCRIBE(DESCRIBED_ACCOUNT);
