/*
 * The memory that the kernel charges to the process stays close to the memory
 * that it uses, so it can run under vm.overcommit_memory=2.  The kernel charges
 * writable private mappings.
 */
#include "tests/programs/check.h"

static long
charged_kib(void)
{
	static char line[1000];
	FILE *maps = fopen("/proc/self/smaps", "r");
	long size = 0, total = 0;
	bool writable = false;

	if (maps == NULL)
		skip("no /proc/self/smaps");
	while (fgets(line, sizeof(line), maps) != NULL) {
		if (strncmp(line, "Size:", 5) == 0)
			size = atol(line + 5);
		if (strncmp(line, "VmFlags:", 8) == 0 &&
		    strstr(line, " ac") != NULL)
			total += size;
		writable |= strstr(line, "VmFlags:") != NULL;
	}
	fclose(maps);
	if (!writable)
		skip("smaps has no VmFlags");
	return total;
}

int
main(void)
{
	static char *p[1000];
	long start, full;

	churn(1, 1000, 1000);
	start = charged_kib();
	fprintf(stderr, "at start %ld KiB\n", start);
	check(start < 32 * 1024);
	for (int i = 0; i < 1000; i++)
		check((p[i] = malloc(200000)) != NULL);
	full = charged_kib();
	fprintf(stderr, "with 200 MB %ld KiB\n", full);
	check(full - start < 300 * 1024);
	for (int i = 0; i < 1000; i++)
		free(p[i]);
	return 0;
}
