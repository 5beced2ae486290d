/* string.c - copies of strings in blocks of umem_alloc() */
#include <string.h>

#include "umem/malloc/alloc_inner.h"
#include "umem/base/checker.h"
#include "umem/umem.h"

public char *
umem_strdup(const char *string, int flags)
{
	size_t size = strlen(string) + 1;
	char *copy = umem_alloc(size, flags);

	return copy == NULL ? NULL : memcpy(copy, string, size);
}

/* The size is the block's own: the program may have shortened the string. */
public void
umem_strfree(char *string)
{
	size_t bytes;

	if (alloc_block_to_free(
		string, SIZE_MAX, API_UMEM, &bytes, "umem_strfree") == 0)
		return;
	if (unlikely(checker_on) && !debug.on)
		checker_block_end(string, bytes);
	alloc_free(string);
}
