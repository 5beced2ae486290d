/*
 * look.c - umem diff of saved looks
 *
 * The first byte of the input has the options; a byte 0xff divides the rest
 * into the two files.
 *
 * test link: command
 */
#include "tests/fuzz/command.h"

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	command_init();
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char umem[] = "umem", diff[] = "diff", json[] = "--json", e[] = "-e",
	     html[] = "--html", before[] = "/looks/before",
	     after[] = "/looks/after";
	char *argv[8] = {umem, diff};
	struct command_file files[2] = {
	    {"/before", NULL, 0}, {"/after", NULL, 0}};
	const uint8_t *middle;
	unsigned words = 2;
	uint8_t options;

	if (n < 2)
		return 0;
	options = *data++;
	middle = memchr(data, 0xff, --n);
	if (middle == NULL)
		middle = data + n - 1;
	files[0].text = data;
	files[0].n = (size_t)(middle - data);
	files[1].text = middle + 1;
	files[1].n = n - files[0].n - 1;
	if ((options & 1) != 0)
		argv[words++] = json;
	if ((options & 2) != 0)
		argv[words++] = e;
	if ((options & 4) != 0)
		argv[words++] = html;
	argv[words++] = before;
	argv[words++] = after;
	command.served = files;
	command.nserved = 2;
	/* A page is no JSON text. */
	command_try(argv, (options & 5) == 1 ? OUTPUT_JSON : OUTPUT_TEXT);
	return 0;
}
