#!/bin/bash
# The cost that the library adds to the start of a process: addresses that the
# loader looks up and relocates, pages that it writes to, code that is resident
# in every process, and then, in a process that does nothing and in one that
# allocates a block, system calls and written pages, and page faults in the
# former and in a child of fork().  A change that adds one must also change the
# number here.  The numbers of the code are those of gcc 12; with other
# compilers the test only reports them.
# test not with: coverage has relocations and pages of its own
set -eu
export LC_ALL=C

if [ -n "${DEBUG:-}${SAN:-}" ] || [ "$(uname -m)" != x86_64 ] ||
    [ "$(getconf PAGESIZE)" != 4096 ] || [[ $CC == *clang* ]]; then
	echo "other code"
	exit 77
fi
if [ "${GLIBC_MINOR:-34}" -lt 34 ]; then
	echo "the loader loads libpthread and libdl, too"
	exit 77
fi
status=0
golden=12
compiler=$("$CC" -dumpversion)

# most WHAT NUMBER MOST
most() {
	echo "$1: $2"
	[ "$2" -le "$3" ] && return
	echo "$1: $2, at most $3 were expected"
	status=1
}

# most_code WHAT NUMBER MOST - which the compiler decides
most_code() {
	if [ "$compiler" = $golden ]; then
		most "$@"
	else
		echo "$1: $2"
	fi
}

kinds=$(readelf -rW "$SHIM" | awk '/ R_X86_64_/ { print $3 }')
relative=$(printf '%s\n' "$kinds" | grep -c RELATIVE)
most_code "relative relocations" "$relative" 238
most_code "other relocations" "$(($(printf '%s\n' "$kinds" | wc -l) - relative))" 70

# The loader relocates, stores addresses in .dynamic, and clears the rest of the
# page where .bss begins.
pages=$({
	readelf -rW "$SHIM" | awk '/ R_X86_64_/ { print $1 }'
	readelf -SW "$SHIM" | sed 's/^ *\[ *[0-9]*\] *//' |
	    awk '$1 == ".dynamic" || $1 == ".bss" { print $3 }'
} | sed 's/...$//' | sort -u | wc -l)
most "pages that the loader writes to" "$pages" 2

# The functions that umem/often.ld names are resident in every process.
size=$(readelf -SW "$SHIM" | sed 's/^ *\[ *[0-9]*\] *//' |
    awk '$1 == ".text.often" { print $5 }')
most_code "KiB of functions that common programs call" "$((0x${size:-ffffff} / 1024))" 78

# They, the constants and the tables of the loader are on at most three times 64
# KiB, which the kernel maps at once.  More means that often.ld is old.
resident=$(LD_PRELOAD="$SHIM" awk -v name="$(basename "$(readlink -f "$SHIM")")" '
    index($0, name) { code = $2 ~ /x/ } code && $1 == "Rss:" { n += $2; code = 0 }
    END { print n + 0 }' /proc/self/smaps)
[ "$resident" -gt 0 ] || { echo "no code of the library is resident"; status=1; }
most_code "KiB of the code that are resident" "$resident" 192

cat >count.c <<'END'
/*
 * Runs a program and writes the number of its system calls, and of the pages
 * that it has written to when it ends.
 */
#include <stddef.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* Not Private_Dirty, in which the pages of a file count that is not on disk. */
static long
written_pages(int pid)
{
	char path[64], line[512];
	long kib = 0, some, all = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/smaps", pid);
	file = fopen(path, "r");
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "Anonymous: %ld kB", &some) == 1)
			all = kib += some;
	return all / 4;
}

/*
 * Not counted: calls whose number depends on the kernel (a name for a mapping)
 * or on the version of libc, with its malloc.
 */
static int
is_counted(int pid)
{
	switch (ptrace(PTRACE_PEEKUSER, pid,
	    offsetof(struct user_regs_struct, orig_rax), 0)) {
	case SYS_prctl:
	case SYS_brk:
	case SYS_getrandom:
	case SYS_rseq:
		return 0;
	default:
		return 1;
	}
}

int
main(int argc, char **argv)
{
	long ncalls = 0, npages = -1;
	int status, pid = fork();

	if (pid == 0) {
		if (argc < 2 || ptrace(PTRACE_TRACEME, 0, 0, 0) != 0)
			_exit(77);
		personality(ADDR_NO_RANDOMIZE);
		execv(argv[1], argv + 1);
		_exit(1);
	}
	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		if (WSTOPSIG(status) == (SIGTRAP | 0x80))
			ncalls += is_counted(pid);
		else
			ptrace(PTRACE_SETOPTIONS, pid, 0,
			    PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXIT);
		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8))
			npages = written_pages(pid);
		ptrace(PTRACE_SYSCALL, pid, 0, 0);
	}
	/* Each call stops the process before and after it. */
	printf("%ld %ld\n", ncalls / 2, npages);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
END
cat >idle.c <<'END'
int main(void) { return 0; }
END
cat >block.c <<'END'
#include <stdlib.h>
int main(void) { void *volatile p = malloc(32); return p == NULL; }
END
cat >faults.c <<'END'
/*
 * Runs a program 200 times and writes the least number of its page faults, or
 * of those of its children if it has exited with that number.  The kernel maps
 * up to 16 pages at a fault, by multiples of 64 KiB.  So it depends on the
 * random addresses how many faults libc takes.
 */
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

int
main(int argc, char **argv)
{
	char *environment[] = {argv[1], NULL};
	struct rusage used;
	long least = LONG_MAX;
	int pid, status;

	for (int i = 0; i < 200; i++) {
		if (argc != 3 || posix_spawn(&pid, argv[2], NULL, NULL,
				     argv + 2, environment) != 0 ||
		    wait4(pid, &status, 0, &used) != pid)
			return 1;
		if (WEXITSTATUS(status) != 0)
			used.ru_minflt = WEXITSTATUS(status);
		if (used.ru_minflt < least)
			least = used.ru_minflt;
	}
	printf("%ld\n", least);
	return 0;
}
END
cat >child.c <<'END'
/* Exits with the least number of page faults of 9 children. */
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int
main(void)
{
	void *volatile p = malloc(32);
	struct rusage used;
	int least = 200, pid;

	for (int i = 0; i < 9; i++) {
		pid = fork();
		if (pid == 0)
			_exit(p == NULL);
		if (wait4(pid, NULL, 0, &used) != pid)
			return 255;
		if (used.ru_minflt < least)
			least = used.ru_minflt;
	}
	return least;
}
END
for name in count idle block faults child; do
	"$CC" -O1 -o "$name" "$name.c"
done

# added PROGRAM CALLS PAGES - at most so many more than without the library
added() {
	local without with calls pages

	without=$(env -i "./count" "./$1") || return 77
	with=$(env -i LD_PRELOAD="$SHIM" "./count" "./$1") || return 77
	read -r calls pages < <(printf '%s %s\n' "$without" "$with" |
	    awk '{ print $3 - $1, $2 < 0 || $4 < 0 ? 0 : $4 - $2 }')
	most "system calls added to $1" "$calls" "$2"
	most "written pages added to $1" "$pages" "$3"
}

# On 8 CPUs or more, the library also reads the quota of its cgroup.
first=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')
taskset -cp "$first" $$ >/dev/null

# A sandbox may refuse ptrace().
if env -i ./count ./idle; then
	added idle 10 3
	added block 31 14
fi
# faults PROGRAM MOST - at most so many more than without the library
faults() {
	most "page faults added to $1" \
	    $(($(./faults "LD_PRELOAD=$SHIM" "./$1") - $(./faults NONE= "./$1"))) "$2"
}

# One more if two functions lie on both sides of a multiple of 64 KiB.
faults idle 8
faults child 4
exit $status
