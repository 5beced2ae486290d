/* A name of 60 characters copied into 32 bytes. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = row_of(32, malloc, CONTENT);
	char text[61];

	memset(text, CONTENT + 1, 60);
	text[60] = '\0';
	strcpy(p, (char *)keep(text));
	put_bytes(p, CONTENT, 32);
	judge_row();
}
