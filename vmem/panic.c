/* panic.c - messages by write(2), panic() and assertions */
#include <stdarg.h>

#include "vmem/os.h"
#include "vmem/panic.h"

char message_log[MESSAGE_PATH_BYTES] seldom_used;

static void
message_char(struct message *m, char c)
{
	if (m->n < sizeof(m->text))
		m->text[m->n++] = c;
}

void
message_text(struct message *m, const char *text)
{
	if (text == NULL)
		text = "(null)";
	while (*text != '\0')
		message_char(m, *text++);
}

/*
 * Does a control character begin here?  In UTF-8, U+0080 to U+009F are control
 * characters, too.
 */
static bool
is_control(const unsigned char *text)
{
	return text[0] < 0x20 || text[0] == 0x7f ||
	       (text[0] == 0xc2 && text[1] >= 0x80 && text[1] < 0xa0);
}

static void
message_escaped(struct message *m, unsigned char c)
{
	message_text(m, "\\x");
	message_char(m, "0123456789abcdef"[c / 16]);
	message_char(m, "0123456789abcdef"[c % 16]);
}

void
message_plain(struct message *m, const char *text)
{
	const unsigned char *at =
	    (const unsigned char *)(text == NULL ? "(null)" : text);

	for (; *at != '\0'; at++) {
		if (!is_control(at)) {
			message_char(m, (char)*at);
			continue;
		}
		message_escaped(m, at[0]);
		if (at[0] == 0xc2)
			message_escaped(m, *++at);
	}
}

static void
message_number(struct message *m, uint64_t value, unsigned base)
{
	char digits[20];
	unsigned n = 0;

	do {
		digits[n++] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value != 0);
	while (n > 0)
		message_char(m, digits[--n]);
}

void
message_hex(struct message *m, uintptr_t value)
{
	message_text(m, "0x");
	message_number(m, value, 16);
}

void
message_dec(struct message *m, uint64_t value)
{
	message_number(m, value, 10);
}

/* Descriptor 2 at the time of message_start(). */
static struct {
	bool is_known; /* [a] message_start() has set the other members */
	bool is_open;
	struct os_file file;
} standard_error written_early;

start_path void
message_start(void)
{
	standard_error.is_open = os_file_of(2, &standard_error.file);
	store_release(&standard_error.is_known, true);
}

/* May messages be written to the file that descriptor 2 is now? */
static bool
is_standard_error(const struct os_file *now)
{
	const struct os_file *then = &standard_error.file;

	if (now->is_character || (now->is_pipe && os_is_inherited(2)))
		return true;
	return standard_error.is_open && now->device == then->device &&
	       now->inode == then->inode;
}

int
message_open(const char *path)
{
	struct message m = {.n = 0};

	if (os_is_confined())
		return -1;
	for (; *path != '\0'; path++)
		if (path[0] == '%' && path[1] == 'p') {
			message_dec(&m, os_process_id());
			path++;
		} else {
			path += path[0] == '%' && path[1] == '%';
			message_char(&m, *path);
		}
	umem_assert(m.n < sizeof(m.text));
	m.text[m.n] = '\0';
	return os_open_append(m.text);
}

void
message_write(const char *text, size_t n)
{
	int fd = message_log[0] != '\0' ? message_open(message_log) : -1;

	if (fd < 0) {
		message_write_standard(text, n);
		return;
	}
	os_write(fd, text, n);
	os_close(fd);
}

void
message_write_standard(const char *text, size_t n)
{
	struct os_file now;

	if (!load_acquire(&standard_error.is_known))
		message_start();
	if (os_file_of(2, &now) && is_standard_error(&now))
		os_write(2, text, n);
}

/* Append the argument of one conversion; *format is behind the '%'. */
static void
message_argument(struct message *m, const char **format, va_list *args)
{
	char c = *(*format)++;

	if (c == 'l' || c == 'z') {
		c = *(*format)++;
		uint64_t value = va_arg(*args, size_t);
		message_number(m, value, c == 'x' ? 16 : 10);
		return;
	}
	switch (c) {
	case 's':
		message_plain(m, va_arg(*args, const char *));
		break;
	case 'p':
		message_hex(m, (uintptr_t)va_arg(*args, void *));
		break;
	case 'x':
		message_number(m, va_arg(*args, unsigned), 16);
		break;
	case 'u':
		message_dec(m, va_arg(*args, unsigned));
		break;
	default:
		message_char(m, c);
	}
}

void
message_format(struct message *m, const char *format, va_list *args)
{
	while (*format != '\0') {
		char c = *format++;

		if (c == '%' && *format != '\0')
			message_argument(m, &format, args);
		else
			message_char(m, c);
	}
}

static void
line_format(struct message *m, const char *format, va_list *args)
{
	m->n = 0;
	message_text(m, "umem: ");
	message_format(m, format, args);
	if (m->n == sizeof(m->text))
		m->n--;
	message_char(m, '\n');
}

static void
line_send(const struct message *m)
{
	message_write(m->text, m->n);
	panic_hooks.line(m->text, m->n);
}

void
message_line(const char *format, ...)
{
	struct message m;
	va_list args;

	va_start(args, format);
	line_format(&m, format, &args);
	va_end(args);
	line_send(&m);
}

void
panic_about(const void *p, const char *format, ...)
{
	struct message m;
	va_list args;

	va_start(args, format);
	line_format(&m, format, &args);
	if (!panic_hooks.report(&m, p))
		line_send(&m);
	os_abort();
}

void
assert_failed(const char *what, const char *file, unsigned line)
{
	panic("%s:%u: assertion failed: %s", file, line, what);
}
