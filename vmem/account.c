/* account.c - counts of memory; see account.h */
#include "vmem/account.h"

struct account account;

size_t
account_samples_absent(void)
{
	size_t used = account_get(&account.sample_unit_spans) +
		      account_get(&account.sample_guarded) +
		      account_get(&account.sample_warm);

	return difference_or_zero(account_get(&account.sample_units), used) +
	       difference_or_zero(account_get(&account.sample_spans),
		   account_get(&account.sample_pages));
}
