/*
 * suppress.c - files of suppressions
 *
 * The input is the file.  Its patterns are compared with the names that a core
 * of make_core.py has.
 *
 * test link: command
 */
#include "tests/fuzz/cores.h"

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	read_cores((*argv)[0]);
	command_init();
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char umem[] = "umem", leaks[] = "leaks", json[] = "--json",
	     file[] = "--suppressions=/fuzz/patterns",
	     root[] = "--sysroot=/proc/none", name[CORE_NAME_BYTES];
	char *argv[] = {umem, leaks, json, file, root, name, NULL};
	struct command_file served = {"/fuzz/patterns", data, n};

	core_name(&cores[1], name);
	core_map(&cores[1]);
	command.served = &served;
	command.nserved = 1;
	command_try(argv, OUTPUT_JSON);
	return 0;
}
