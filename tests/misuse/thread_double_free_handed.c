/* Handed to a thread that frees it when done; freed by the giver, too. */
#include "tests/misuse/misuse.h"

static char *handed[500];

static void *
consume(void *arg)
{
	(void)arg;
	for (int i = 0; i < 500; i++)
		drop(handed[i]);
	return NULL;
}

int
main(void)
{
	for (int i = 0; i < 500; i++)
		handed[i] = block(200);
	elsewhere(consume, NULL);
	pass_time(100);
	drop(handed[3]);
	judge(NULL, 200);
}
