/* text.c - texts of users, of files and of the target */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/inspect/base/text.h"
#include "umem/base/number.h"

bool
text_each_line(const char *path, void (*f)(char *line, void *arg), void *arg)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t n = 0;

	if (file == NULL)
		return false;
	while (getline(&line, &n, file) > 0) {
		line[strcspn(line, "\n")] = '\0';
		f(line, arg);
	}
	free(line);
	fclose(file);
	return true;
}

bool
file_number(const char *path, const char *key, uint64_t *value)
{
	FILE *file = fopen(path, "re");
	size_t n = strlen(key);
	char line[256];
	bool found = false;

	while (file != NULL && !found && fgets(line, sizeof(line), file)) {
		uint64_t number;
		char *end;

		if (strncmp(line, key, n) != 0 ||
		    (n != 0 && line[n] != ' ' && line[n] != ':'))
			continue;
		number = strtoull(line + n + (n != 0), &end, 10);
		found = end != line + n + (n != 0);
		if (found)
			*value = number;
		if (n == 0)
			break;
	}
	if (file != NULL)
		fclose(file);
	return found;
}

const char *
proc_path(int pid, const char *file)
{
	static char paths[4][128];
	static unsigned next;
	char *path = paths[next++ % array_size(paths)];

	/* In another PID namespace than ours, our number there is not known. */
	if (pid == 0)
		snprintf(path, sizeof(paths[0]), "/proc/self/%s", file);
	else
		snprintf(path, sizeof(paths[0]), "/proc/%d/%s", pid, file);
	return path;
}

size_t
proc_read(int pid, const char *name, char *text, size_t n)
{
	FILE *file = fopen(proc_path(pid, name), "re");
	size_t length = 0;

	if (file != NULL) {
		length = fread(text, 1, n - 1, file);
		fclose(file);
	}
	text[length] = '\0';
	return length;
}

/* Writes and closes; returns false and sets errno if some of it is lost. */
static bool
write_all(int fd, const char *text, size_t n)
{
	FILE *file = xchecked(fdopen(fd, "w"));

	return fwrite(text, 1, n, file) == n && fflush(file) == 0 &&
	       (fsync(fd) == 0 || errno == EINVAL) && fclose(file) == 0;
}

void
file_write(
    const char *path, bool replaces, FILE *stream, char **text, size_t *n)
{
	char *new = xprint("%s.XXXXXX", path);
	mode_t mask = umask(0);
	struct stat old;
	int fd, error;

	umask(mask);
	if (fclose(stream) != 0)
		fail_with(EXIT_ERROR, "out of memory");
	/* A limit of the size of files is an error, too. */
	signal(SIGXFSZ, SIG_IGN);
	if (lstat(path, &old) != 0 || replaces)
		old = (struct stat){.st_mode = S_IFREG | (0666 & ~mask),
		    .st_nlink = 1,
		    .st_uid = geteuid()};
	if (S_ISREG(old.st_mode) && old.st_nlink == 1 &&
	    old.st_uid == geteuid() && (fd = mkostemp(new, O_CLOEXEC)) >= 0) {
		/* Some file systems have no modes. */
		(void)!fchmod(fd, old.st_mode & 0777);
		if (write_all(fd, *text, *n) && rename(new, path) == 0)
			return;
		error = errno;
		unlink(new);
		errno = error;
		/* A file on which one is mounted cannot be replaced. */
		replaces |= error != EBUSY;
	}
	if (replaces ||
	    (fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) <
		0 ||
	    !write_all(fd, *text, *n))
		fail_with(EXIT_ERROR, "%s: %s", path, strerror(errno));
}

/*
 * Characters that are not shown, but change how the text around them is shown:
 * its direction, or where a line ends.  A name with one of them could look like
 * another name.
 */
static bool
is_format_character(uint32_t code)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {{0xad, 0xad}, {0x61c, 0x61c}, {0x180e, 0x180e},
	    {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
	    {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0x1d173, 0x1d17a},
	    {0xe0000, 0xe007f}};

	for (size_t i = 0; i < array_size(ranges); i++)
		if (code >= ranges[i].first && code <= ranges[i].last)
			return true;
	return false;
}

/*
 * Returns the bytes of the character at text, which has n bytes left; 0: a
 * control or format character, or not UTF-8.  U+0080 to U+009F count as control
 * characters, because a terminal may obey them.
 */
static size_t
character_bytes(const unsigned char *text, size_t n)
{
	static const struct {
		unsigned char first_least, first_most, bytes;
		uint32_t least;
	} kinds[] = {{0xc2, 0xdf, 2, 0xa0}, {0xe0, 0xef, 3, 0x800},
	    {0xf0, 0xf4, 4, 0x10000}};

	assert(n > 0);
	if (text[0] < 0x80)
		return text[0] >= 0x20 && text[0] != 0x7f;
	for (size_t i = 0; i < array_size(kinds); i++) {
		size_t bytes = kinds[i].bytes;
		uint32_t code = text[0] & (0x7fu >> bytes);

		if (text[0] < kinds[i].first_least ||
		    text[0] > kinds[i].first_most || n < bytes)
			continue;
		for (size_t j = 1; j < bytes; j++) {
			if ((text[j] & 0xc0) != 0x80)
				return 0;
			code = code << 6 | (text[j] & 0x3f);
		}
		/* Surrogates are not characters. */
		return code >= kinds[i].least && code < 0x110000 &&
			       code >> 11 != 0xd800 >> 11 &&
			       !is_format_character(code)
			   ? bytes
			   : 0;
	}
	return 0;
}

const char *
plain_text(const char *text, size_t most)
{
	size_t n = strnlen(text, most), capacity = 4 * n + 1;
	char *plain = xalloc(capacity);
	size_t length = 0;

	for (size_t i = 0; i < n;) {
		size_t bytes =
		    character_bytes((const unsigned char *)text + i, n - i);

		if (bytes == 0) {
			snprintf(plain + length, capacity - length, "\\x%02x",
			    (unsigned char)text[i]);
			length += 4;
			i++;
			continue;
		}
		assert(bytes <= n - i);
		memcpy(plain + length, text + i, bytes);
		length += bytes;
		i += bytes;
	}
	assert(length < capacity);
	return plain;
}

bool
parse_address(const char *text, uint64_t *address)
{
	char *end;

	if (*text == '\0' || *text == '-' || *text == '+' || *text == ' ')
		return false;
	errno = 0;
	*address = strtoull(text, &end, 16);
	return errno == 0 && *end == '\0';
}

bool
parse_size(const char *text, uint64_t *bytes)
{
	return number_parse(text, /* takes_unit */ true, bytes) == NUMBER_OK;
}
