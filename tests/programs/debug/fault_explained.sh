#!/bin/bash
# A fault in a guard page is explained before the program dies of it, by the
# same signal as without an explanation.  Other faults are not, and a handler of
# the program is the program's.
# test timeout: 120
set -u
cat >fault.c <<'END2'
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((noinline)) char *
maker(size_t size)
{
	char *p = malloc(size);

	__asm__ volatile("" : "+r"(p));
	return p;
}

__attribute__((noinline)) void
giver(char *p)
{
	free(p);
	__asm__ volatile("");
}

static void
handler(int number)
{
	(void)number;
	_exit(7);
}

int
main(int argc, char **argv)
{
	const char *what = argv[1];
	size_t size = argc > 2 ? atol(argv[2]) : 112;
	volatile char *p = maker(size);
	struct sigaction action;

	if (strcmp(what, "after") == 0) {
		giver((char *)p);
		return p[5];
	} else if (strcmp(what, "past") == 0) {
		/* A page further, for large blocks end at a page or less. */
		p[size + (size > 65536 ? 4095 : 3)] = 1;
	} else if (strcmp(what, "sample") == 0) {
		for (int i = 0; i < 20000; i++) {
			p = maker(112);
			p[112] ^= 1;
		}
	} else if (strcmp(what, "own") == 0) {
		signal(SIGSEGV, handler);
		p[size] = 1;
	} else if (strcmp(what, "null") == 0) {
		*(volatile char *)0 = 1;
	} else if (strcmp(what, "kill") == 0) {
		kill(getpid(), SIGSEGV);
	} else {
		sigaction(SIGSEGV, NULL, &action);
		puts(action.sa_handler == SIG_DFL ? "default" : "handled");
	}
	return 0;
}
END2
"$CC" -O1 -g -fno-builtin -w -o fault fault.c
ulimit -c 0

# run SETTING STATUS WORD... - stores the standard error of the program in err
run() {
	local setting=$1 want=$2

	shift 2
	env LD_PRELOAD="$SHIM" "$setting" ./fault "$@" >out 2>err
	status=$?
	if [ $status -ne "$want" ]; then
		echo "$setting fault $*: status $status instead of $want"
		cat err
		exit 1
	fi
}

# says REGEX... - lines of err begin so, in this order; others may be between
says() {
	local text

	cp err rest
	for text; do
		if ! grep -Eq "^umem: $text" rest; then
			echo "no 'umem: $text' in this order:"
			cat err
			exit 1
		fi
		sed -i -E "0,/^umem: $text/d" rest
	done
}

firewall=UMEM_DEBUG=default,firewall=1
where="in fault, process [0-9]+, thread [0-9]+ \\(fault\\)$"
run $firewall 139 after
says "read of 0x[0-9a-f]+, at offset 5 of the freed block of 112 bytes at 0x" \
    "$where" '    fault`main\+' 'freed by thread [0-9]+, 0.[0-9] s ago:$' \
    '    fault`giver\+' 'allocated by thread' '    fault`maker\+' \
    'umem crash CORE prints'
run $firewall 139 past
says "write to 0x[0-9a-f]+, 3 bytes past the end of the block of 112 bytes at" \
    "$where" '    fault`main\+' 'allocated by thread' '    fault`maker\+'
for setting in UMEM_DEBUG=default UMEM_OPTIONS=hardened; do
	run $setting 139 past 9000000
	says 'write to 0x[0-9a-f]+, 4095 bytes past the end of the block of 9000000'
	run $setting 139 after 9000000
	says 'read of 0x[0-9a-f]+, at offset 5 of the freed block of 9000000 bytes'
done
run UMEM_OPTIONS=sample=1k 139 sample
says "(read of|write to) 0x[0-9a-f]+, 0 bytes past the end of the block of 112" \
    "$where" '    fault`main\+' 'allocated by thread' '    fault`maker\+'

for setting in $firewall UMEM_OPTIONS=hardened; do
	run $setting 139 null
	[ ! -s err ] || { cat err; exit 1; }
	run $setting 139 kill
	[ ! -s err ] || { cat err; exit 1; }
done
run $firewall 7 own
[ ! -s err ] || { cat err; exit 1; }
run $firewall 0 ask
[ "$(cat out)" = handled ] || { cat out; exit 1; }
for setting in UMEM_DEBUG=audit UMEM_OPTIONS=sample=1t a=b; do
	run $setting 0 ask
	[ "$(cat out)" = default ] || { echo "$setting"; cat out; exit 1; }
done
