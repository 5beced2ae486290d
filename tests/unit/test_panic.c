/* test_panic.c - messages written without stdio, and the end of the program */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vmem/panic.h"

static char text[8192];
static int status;

/*
 * Run f in a child; return its output to descriptor 2, and its exit status in
 * status.
 */
static const char *
written_by(void (*f)(void))
{
	int fd[2];
	size_t n = 0;
	ssize_t got;
	pid_t child;

	ck_assert_int_eq(pipe(fd), 0);
	child = fork();
	if (child == 0) {
		dup2(fd[1], 2);
		f();
		_exit(0);
	}
	close(fd[1]);
	while ((got = read(fd[0], text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	text[n] = '\0';
	close(fd[0]);
	waitpid(child, &status, 0);
	return text;
}

static void
say_all(void)
{
	const char *volatile null = NULL;

	message_line("%s|%p|%x|%u|%lx|%lu|%zu", "text", (void *)0xdeadbeef,
	    0xabcu, 4000000000u, 0xfedcba9876543210ul, 18446744073709551615ul,
	    (size_t)0);
	message_line("%s %u", null, 0u);
	message_line("no formats");
	message_line("%p", NULL);
}

START_TEST(every_format_is_written_right)
{
	ck_assert_str_eq(written_by(say_all),
	    "umem: text|0xdeadbeef|abc|4000000000|fedcba9876543210|"
	    "18446744073709551615|0\n"
	    "umem: (null) 0\n"
	    "umem: no formats\n"
	    "umem: 0x0\n");
	ck_assert_int_eq(status, 0);
}
END_TEST

/*
 * "%%" gives one "%", as with printf().  A "%" at the end of the format does
 * not make the formatter read past the end.
 */
static void
say_percent(void)
{
	const char *volatile lone = "half %";

	message_line("100%%");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	message_line(lone);
#pragma GCC diagnostic pop
}

START_TEST(a_percent_sign_is_written)
{
	ck_assert_str_eq(written_by(say_percent), "umem: 100%\numem: half %\n");
}
END_TEST

static void
say_much(void)
{
	static char much[5000];

	memset(much, 'm', sizeof(much) - 1);
	message_line("%s", much);
	message_line("after");
}

START_TEST(what_does_not_fit_is_cut_and_still_a_line)
{
	const char *end;

	written_by(say_much);
	end = strchr(text, '\n');
	ck_assert_ptr_nonnull(end);
	ck_assert_uint_eq(
	    (size_t)(end - text), sizeof(((struct message *)0)->text) - 1);
	ck_assert_int_eq(end[-1], 'm');
	ck_assert_str_eq(end + 1, "umem: after\n");
}
END_TEST

static void
panic_once(void)
{
	panic("the end of %s", "it");
}

static void
fail_assert(void)
{
	assert_failed("a == b", "file.c", 42);
}

START_TEST(a_panic_says_why_and_aborts)
{
	static const char first[] = "umem: the end of it\numem: in unit, ";
	static const char failed[] =
	    "umem: file.c:42: assertion failed: a == b\numem: in unit, ";

	ck_assert_mem_eq(written_by(panic_once), first, sizeof(first) - 1);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	ck_assert_mem_eq(written_by(fail_assert), failed, sizeof(failed) - 1);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
END_TEST

static void
assert_false(void)
{
	umem_assert(text == NULL);
}

START_TEST(assertions_are_for_debug_builds)
{
	written_by(assert_false);
#ifdef UMEM_DEBUG
	ck_assert_ptr_nonnull(strstr(text, "assertion failed: text == NULL"));
	ck_assert(WIFSIGNALED(status));
#else
	ck_assert_str_eq(text, "");
	ck_assert_int_eq(status, 0);
#endif
}
END_TEST

START_TEST(a_message_is_built_of_parts)
{
	struct message m;

	m.n = 0;
	message_text(&m, "a");
	message_hex(&m, 0);
	message_text(&m, NULL);
	message_hex(&m, UINTPTR_MAX);
	message_dec(&m, UINT64_MAX);
	message_dec(&m, 0);
	m.text[m.n] = '\0';
	ck_assert_str_eq(
	    m.text, "a0x0(null)0xffffffffffffffff184467440737095516150");
	/* Nothing is written behind the text of a full message. */
	struct {
		struct message m;
		char guard[64];
	} g;
	memset(&g, 0, sizeof(g));
	for (int i = 0; i < 500; i++) {
		message_text(&g.m, "four");
		message_dec(&g.m, 12345);
	}
	ck_assert_uint_eq(g.m.n, sizeof(g.m.text));
	for (size_t i = 0; i < sizeof(g.guard); i++)
		ck_assert_int_eq(g.guard[i], 0);
}
END_TEST

static void
say_a_name(void)
{
	message_line("%s: '%s'", "a\033[31m\n\177b", "\302\233\303\251\302");
}

START_TEST(control_characters_of_names_are_escaped)
{
	ck_assert_str_eq(written_by(say_a_name),
	    "umem: a\\x1b[31m\\x0a\\x7fb: '\\xc2\\x9b\303\251\302'\n");
}
END_TEST

static void
say_with_stderr_closed(void)
{
	close(2);
	errno = 77;
	message_line("nobody hears");
	_exit(errno == 77 ? 0 : 1);
}

START_TEST(no_descriptor_is_no_trouble)
{
	written_by(say_with_stderr_closed);
	ck_assert_int_eq(status, 0);
	ck_assert_str_eq(text, "");
}
END_TEST

/* Two files of data without a name, and paths by which a child opens them. */
static char path[2][32];
static int file[2];

static void
files_make(void)
{
	for (int i = 0; i < 2; i++) {
		file[i] = memfd_create("data", 0);
		ck_assert_int_ge(file[i], 0);
		snprintf(path[i], sizeof(path[i]), "/proc/self/fd/%d", file[i]);
	}
}

/*
 * Runs in a child.  The library starts with fd as descriptor 2, or, if fd is
 * negative, with descriptor 2 closed.
 */
static void
start_with(int fd)
{
	if (fd < 0)
		close(2);
	else
		dup2(fd, 2);
	message_start();
}

static off_t
bytes_in(int fd)
{
	return lseek(fd, 0, SEEK_END);
}

static void
data_instead(void)
{
	start_with(file[0]);
	message_line("one");
	close(2);
	if (open(path[1], O_RDWR) != 2)
		_exit(1);
	message_line("two");
	/* Standard error is opened again by another open(). */
	close(2);
	if (open(path[0], O_WRONLY | O_APPEND) != 2)
		_exit(2);
	message_line("three");
	_exit(bytes_in(file[0]) == 10 + 12 && bytes_in(file[1]) == 0 ? 0 : 3);
}

static void
data_where_nothing_was(void)
{
	start_with(-1);
	if (open(path[1], O_RDWR) != 2)
		_exit(1);
	message_line("one");
	_exit(bytes_in(file[1]) == 0 ? 0 : 3);
}

static void
socket_instead(void)
{
	int pair[2];
	char c;

	start_with(file[0]);
	close(2);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || pair[0] != 2)
		_exit(1);
	message_line("one");
	_exit(recv(pair[1], &c, 1, MSG_DONTWAIT) < 0 ? 0 : 3);
}

/*
 * First pipe() alone returns descriptor 2, as for data; then the program makes
 * a pipe standard error as a shell does.
 */
static void
pipe_instead(void)
{
	int fd[2];
	char got[8];

	start_with(file[0]);
	if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) != 0 ||
	    dup3(fd[1], 2, O_CLOEXEC) < 0)
		_exit(1);
	message_line("one");
	if (read(fd[0], got, 8) >= 0 || dup2(fd[1], 2) != 2)
		_exit(2);
	message_line("two");
	_exit(read(fd[0], got, 8) == 8 ? 0 : 3);
}

START_TEST(messages_go_to_standard_error_alone)
{
	static void (*const cases[])(void) = {
	    data_instead, data_where_nothing_was, socket_instead, pipe_instead};

	files_make();
	written_by(cases[_i]);
	ck_assert_int_eq(status, 0);
}
END_TEST

Suite *
panic_suite(void)
{
	Suite *suite = suite_create("panic");
	TCase *tcase = tcase_create("panic");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, every_format_is_written_right);
	tcase_add_test(tcase, a_percent_sign_is_written);
	tcase_add_test(tcase, what_does_not_fit_is_cut_and_still_a_line);
	tcase_add_test(tcase, a_panic_says_why_and_aborts);
	tcase_add_test(tcase, assertions_are_for_debug_builds);
	tcase_add_test(tcase, a_message_is_built_of_parts);
	tcase_add_test(tcase, control_characters_of_names_are_escaped);
	tcase_add_test(tcase, no_descriptor_is_no_trouble);
	tcase_add_loop_test(tcase, messages_go_to_standard_error_alone, 0, 4);
	suite_add_tcase(suite, tcase);
	return suite;
}
