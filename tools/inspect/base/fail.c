/* fail.c - messages of the command, and its end */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/inspect/base/fail.h"
#include "tools/inspect/base/progress.h"

jmp_buf *fail_target;
bool fail_is_kept;
const char *fail_kept;

static void
print_message(const char *format, va_list arguments)
{
	static char kept[512];
	char text[4096 + 512]; /* a path and a message; kept may be in it */

	if (fail_is_kept) {
		vsnprintf(kept, sizeof(kept), format, arguments);
		fail_kept = kept;
		return;
	}
	vsnprintf(text, sizeof(text), format, arguments);
	progress_end();
	fflush(stdout);
	/* At once, because commands may run at the same time. */
	fprintf(stderr, "umem: %s\n", text);
}

void
print_warning(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_message(format, arguments);
	va_end(arguments);
}

_Noreturn void
fail_with(int status, const char *format, ...)
{
	va_list arguments;

	assert(status != EXIT_OK);
	va_start(arguments, format);
	print_message(format, arguments);
	va_end(arguments);
	if (fail_target != NULL)
		longjmp(*fail_target, status);
	exit(status);
}
