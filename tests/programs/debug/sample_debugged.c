/*
 * With UMEM_DEBUG there is no sampling, and a message says so.
 *
 * test modes: default
 * test link: umem
 * test preload: yes
 * test env: UMEM_OPTIONS=sample
 * test env: UMEM_DEBUG=default
 * test stderr: ^umem: sample: off, since every block is checked$
 */
#include "tests/programs/check.h"

int
main(void)
{
	free(malloc(100));
	errno = 0;
	check(umem_sample(1) == -1 && errno == ENOTSUP);
	return 0;
}
