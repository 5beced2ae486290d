/* size_class.c - the tables of size classes */
#include <string.h>

#include "umem/base/described.h"
#include "umem/base/size_class.h"
#include "vmem/panic.h"
#include "vmem/describe.h"

struct size_classes size_classes;

static size_t edited[SIZE_CLASSES] seldom_used; /* sorted, first at index 1 */
static unsigned nedited;

size_t
size_class_default_after(size_t bytes)
{
	if (bytes < 16)
		return bytes < 8 ? 8 : 16;
	if (bytes < 256)
		return bytes + 16;
	return bytes +
	       ((size_t)1 << highbit(bytes)) / (bytes < SIZE_SMALL ? 8 : 4);
}

/* Stores the sizes before any edit from list[1] on; returns their number. */
static unsigned
defaults_store(size_t *list)
{
	unsigned n = 0;

	for (size_t bytes = 8; bytes <= SIZE_CLASS_MAX;
	     bytes = size_class_default_after(bytes))
		list[++n] = bytes;
	return n;
}

static void
edit_start(void)
{
	if (nedited == 0)
		nedited = defaults_store(edited);
}

/* The first index with a size of at least bytes. */
static unsigned
place_of(size_t bytes)
{
	unsigned i = 1;

	while (i <= nedited && edited[i] < bytes)
		i++;
	return i;
}

bool
size_class_add(size_t bytes)
{
	unsigned i;

	edit_start();
	if (bytes % 16 != 0 || bytes == 0 || bytes > SIZE_CLASS_MAX ||
	    nedited + 1 >= SIZE_CLASSES)
		return false;
	i = place_of(bytes);
	if (i <= nedited && edited[i] == bytes)
		return true;
	memmove(
	    &edited[i + 1], &edited[i], (nedited - i + 1) * sizeof(edited[0]));
	edited[i] = bytes;
	nedited++;
	return true;
}

bool
size_class_remove(size_t bytes)
{
	unsigned i;

	edit_start();
	i = place_of(bytes);
	/*
	 * The largest size stays: every request above it becomes a large block.
	 */
	if (i >= nedited || edited[i] != bytes || bytes == SIZE_CLASS_MAX)
		return false;
	memmove(&edited[i], &edited[i + 1], (nedited - i) * sizeof(edited[0]));
	nedited--;
	return true;
}

void
size_class_clear(void)
{
	nedited = 1;
	edited[1] = SIZE_CLASS_MAX;
}

void
size_class_start(void)
{
	struct size_classes *t = &size_classes;
	unsigned c = 1;

	if (nedited == 0) {
		t->n = defaults_store(t->bytes);
	} else {
		memcpy(t->bytes, edited, sizeof(edited));
		t->n = nedited;
	}
	umem_assert(t->bytes[t->n] == SIZE_CLASS_MAX);
	for (unsigned i = 1; i < t->n; i++)
		umem_assert(t->bytes[i] < t->bytes[i + 1]);
	for (size_t i = 0; i < array_size(t->small); i++) {
		while (t->bytes[c] < i * 8)
			c++;
		t->small[i] = (uint8_t)c;
	}
	c = 1;
	for (size_t i = 0; i < array_size(t->medium); i++) {
		while (t->bytes[c] <= i << SIZE_STEP_SHIFT)
			c++;
		t->medium[i] = (uint8_t)c;
	}
}

DESCRIBE(DESCRIBED_SIZE_CLASSES);
