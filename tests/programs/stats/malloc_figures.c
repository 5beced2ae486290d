/*
 * mallinfo(), malloc_info() and malloc_stats().
 *
 * test run: bytes_in_use
 * test args: bytes_in_use
 * test run: xml
 * test args: xml
 * test modes: default
 * test run: text
 * test args: text
 * test modes: default
 */
#include <malloc.h>

#include "tests/programs/check.h"

static size_t
in_use(void)
{
	struct mallinfo2 m = mallinfo2();

	/* Large blocks may be counted apart, as glibc's mmapped ones. */
	check(m.uordblks + m.fordblks <= m.arena + m.hblkhd ||
	      m.uordblks + m.fordblks <= m.arena);
	return m.uordblks + m.hblkhd;
}

/* Does the number in use grow by bytes, within a fifth? */
static void
try(size_t n, size_t count)
{
	static char *block[20000];
	size_t before = in_use(), between, after;

	check(count <= 20000);
	for (size_t i = 0; i < count; i++)
		check((block[i] = malloc(n)) != NULL);
	between = in_use();
	printf("%zu of %zu: from %zu to %zu\n", count, n, before, between);
	check(between >= before + n * count * 8 / 10);
	check(between <= before + n * count * 13 / 10 + 200000);
	for (size_t i = 0; i < count; i++)
		free(block[i]);
	after = in_use();
	printf("freed: %zu\n", after);
	check(after <= before + n * count / 10 + 200000);
}

/* mallinfo2() and mallinfo() report the bytes in use, and their changes. */
static void
bytes_in_use(void)
{
	struct mallinfo old;
	struct mallinfo2 now;

	try(64, 20000);
	try(1000, 20000);
	try(10000, 1000);
	try(200000, 100);
	try(3000000, 10);
	try(40000000, 3);
	now = mallinfo2();
	old = mallinfo();
	check((unsigned)old.arena == (unsigned)now.arena);
	check((unsigned)old.uordblks == (unsigned)now.uordblks);
	check((unsigned)old.hblkhd == (unsigned)now.hblkhd);
}

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

/* malloc_info() writes well-formed XML, and refuses options other than 0. */
static void
xml(void)
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
}

/* malloc_stats() writes to standard error, and nothing else does. */
static void
text(void)
{
	int out[2], err[2], old = dup(2);
	static char text[1 << 16];
	ssize_t n;

	check(old >= 0 && pipe2(out, O_NONBLOCK) == 0 &&
	      pipe2(err, O_NONBLOCK) == 0);
	fflush(stdout);
	check(dup2(out[1], 1) == 1 && dup2(err[1], 2) == 2);
	keep(malloc(1000));
	malloc_stats();
	fflush(stderr);
	fflush(stdout);
	check(dup2(old, 2) == 2);
	check(read(out[0], text, sizeof(text)) < 0 && errno == EAGAIN);
	n = read(err[0], text, sizeof(text) - 1);
	check(n > 20);
	check(write(2, text, (size_t)n) == n);
	check(strpbrk(text, "123456789") != NULL);
}

static const struct test_case cases[] = {
    {"bytes_in_use", bytes_in_use}, {"xml", xml}, {"text", text}, {NULL, NULL}};

int
main(int argc, char **argv)
{
	return run_case(argc, argv, cases);
}
