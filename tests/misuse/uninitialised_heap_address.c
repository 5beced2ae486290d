/* A new block read before it is written: where is the heap? */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = NULL, *made[8];
	const char *harm = NULL;

	for (int i = 0; i < 8; i++)
		made[i] = block(64);
	for (int i = 0; i < 8; i++)
		drop(made[i]);
	for (int i = 0; i < 8; i++) {
		check((p = (char *)keep(malloc(64))) != NULL);
		for (size_t j = 0; j < 64; j += sizeof(uintptr_t)) {
			uintptr_t word;

			memcpy(&word, p + j, sizeof(word));
			if (word >> 24 == (uintptr_t)p >> 24)
				harm = "an address of the heap was read";
		}
	}
	judge(harm, 64);
}
