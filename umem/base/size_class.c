/* size_class.c - the tables of size classes */
#include "umem/base/size_class.h"
#include "vmem/panic.h"

struct size_classes size_classes;

/* Returns the size of the class after that of bytes. */
static size_t
size_class_after(size_t bytes)
{
	if (bytes < 16)
		return bytes < 8 ? 8 : 16;
	if (bytes < 256)
		return bytes + 16;
	return bytes +
	       ((size_t)1 << highbit(bytes)) / (bytes < SIZE_SMALL ? 8 : 4);
}

void
size_class_start(void)
{
	struct size_classes *t = &size_classes;
	unsigned c = 1;

	t->n = 0;
	for (size_t bytes = 8; bytes <= SIZE_CLASS_MAX;
	     bytes = size_class_after(bytes))
		t->bytes[++t->n] = bytes;
	umem_assert(t->n + 1 == SIZE_CLASSES);
	umem_assert(t->bytes[t->n] == SIZE_CLASS_MAX);
	for (size_t i = 0; i < array_size(t->small); i++) {
		while (t->bytes[c] < i * 8)
			c++;
		t->small[i] = (uint8_t)c;
	}
	for (size_t i = 0; i < array_size(t->medium); i++) {
		while (t->bytes[c] <= i << SIZE_STEP_SHIFT)
			c++;
		t->medium[i] = (uint8_t)c;
	}
}
