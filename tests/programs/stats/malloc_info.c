/*
 * malloc_info() writes well-formed XML, and refuses options other than 0.
 *
 * test modes: default
 */
#include <malloc.h>

#include "tests/programs/check.h"

/* Elements nest, attributes are quoted, and there is one outermost. */
static void
check_xml(const char *at)
{
	char open[32][64];
	int depth = 0, nroots = 0;

	while ((at = strchr(at, '<')) != NULL) {
		const char *end = strchr(at, '>');
		const char *name = at + 1;
		size_t n = strcspn(name, " \t\n/>");
		int nquotes = 0;

		check(end != NULL);
		for (const char *c = at; c < end; c++)
			nquotes += *c == '"';
		check(nquotes % 2 == 0);
		if (*name == '/') {
			n = strcspn(name + 1, " >");
			check(depth > 0);
			depth--;
			check(strlen(open[depth]) == n);
			check(strncmp(open[depth], name + 1, n) == 0);
		} else if (*name != '?' && *name != '!') {
			check(n > 0 && n < 64 && depth < 32);
			nroots += depth == 0;
			if (end[-1] != '/') {
				memcpy(open[depth], name, n);
				open[depth++][n] = 0;
			}
		}
		at = end + 1;
	}
	check(depth == 0 && nroots == 1);
}

int
main(void)
{
	static char text[1 << 20];
	FILE *file = tmpfile();
	size_t n;

	check(file != NULL);
	for (int i = 1; i < 1000; i++)
		keep(malloc((size_t)i * 50));
	check(malloc_info(0, file) == 0);
	rewind(file);
	n = fread(text, 1, sizeof(text) - 1, file);
	check(n > 50);
	text[n] = 0;
	fputs(text, stdout);
	check(strstr(text, "<malloc version=\"1\">\n") == text);
	check(strstr(text, "<system type=\"current\" size=\"") != NULL);
	check(strstr(text, "<total type=\"mmap\" count=\"") != NULL);
	check_xml(text);
	fclose(file);

	n = 0;
	errno = 0;
	check(malloc_info(1, stdout) == EINVAL || errno == EINVAL);
	return 0;
}
