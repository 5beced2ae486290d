/* An object freed to another cache. */
#include "tests/misuse/object.h"

int
main(void)
{
	cache = object_cache();
	umem_cache_t *other =
	    umem_cache_create("other", 200, 0, NULL, NULL, NULL, NULL, NULL, 0);
	char *p = row_of(64, get, CONTENT);

	own_row();
	umem_cache_free(other, p);
	cache = other;
	judge_by(NULL, 200, get);
}
