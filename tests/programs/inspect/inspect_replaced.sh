#!/bin/bash
# If the process calls execve() after the command has computed addresses and
# before it stops the process, the command writes nothing into the new program,
# also if that is the same program at the same addresses: it ends with one line
# and status 2.
# test timeout: 120
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"

# Before this command stops a process, the process calls execve().
cat >late.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/ptrace.h>
#include <unistd.h>

long
ptrace(enum __ptrace_request request, ...)
{
	static int is_late;
	va_list arguments;
	void *address, *data;
	long (*real)(enum __ptrace_request, ...) = dlsym(RTLD_NEXT, "ptrace");
	int pid;

	va_start(arguments, request);
	pid = va_arg(arguments, int);
	address = va_arg(arguments, void *);
	data = va_arg(arguments, void *);
	va_end(arguments);
	if (request == PTRACE_SEIZE && !is_late) {
		is_late = 1;
		kill(pid, SIGUSR1);
		while (access("replaced", F_OK) != 0)
			usleep(1000);
	}
	return real(request, pid, address, data);
}
END
"$CC" -shared -fPIC -w -o late.so late.c -ldl || exit 1
"$CC" -O1 -w -fno-builtin -o becomes "$TOP/tests/programs/inspect/parts/replaced.c" ||
    exit 1

# refuses PROGRAM... - each command, when PROGRAM has called execve()
refuses() {
	local words

	for words in 'ctl PID sample=4k' 'leaks PID' \
	    'users PID' 'grep PID 1234567'; do
		rm -f replaced
		start "$@"
		# shellcheck disable=SC2086 # a command and its arguments
		LD_PRELOAD=$TMP/late.so timeout $((60 * TEST_TIME_FACTOR)) \
		    "$umem" ${words/PID/$pid} >said 2>err
		status=$?
		if [ $status -ne 2 ] || [ "$(wc -l <err)" -ne 1 ] ||
		    ! grep -q 'has begun another program' err; then
			echo "$words of $*: status $status"
			head -20 said err
			exit 1
		fi
		finish 0
	done
}

export UMEM_OPTIONS=thread=yes
refuses ./becomes
refuses ./becomes again
! setarch -R true 2>/dev/null || refuses setarch -R ./becomes again
exit 0
