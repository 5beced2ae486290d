/* places_library.c - loaded by places.c: a library's data and its TLS */
#define PAD 65536

static __thread struct {
	char pad[PAD];
	void *volatile word;
} own;
static struct {
	int pad[64];
	void *volatile word;
} data = {.pad = {1}};
static struct {
	char pad[16 * PAD];
	void *volatile word;
} zeros;

void *volatile *library_place(int which);

void *volatile *
library_place(int which)
{
	return which == 0 ? &own.word : which == 1 ? &data.word : &zeros.word;
}
