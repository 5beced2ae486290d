#!/bin/bash
# gdb: reads symbols, stops, walks a stack and calls into a program.
set -u
# shellcheck source=/dev/null
. "$TOP/tests/programs/real/real.inc"
need gdb "$CC"
cat >main.c <<'END'
#include <stdlib.h>
#include <string.h>

struct node {
	struct node *next;
	char text[20];
};

int
depth(int n, struct node *list)
{
	struct node node = {list, "node"};

	return n == 0 ? (int)strlen(list->text) : depth(n - 1, &node) + 1;
}

int
main(void)
{
	struct node *p = calloc(1, sizeof(*p));

	strcpy(p->text, "last");
	int n = depth(5, p);
	free(p);
	return n;
}
END
"$CC" -g -O0 -no-pie -o main main.c || exit
# The breakpoint is behind the initialiser.  In front of it, the local variable
# has bytes of earlier calls, which depend on the environment.
line=$(grep -n 'return n == 0' main.c | cut -d: -f1)
run() {
	with "$1" gdb -q -nx -batch -iex 'set auto-load no' \
	    -ex 'set confirm off' -ex 'set startup-with-shell off' \
	    -ex 'unset environment LD_PRELOAD' \
	    -ex 'set print address off' -ex 'info line depth' \
	    -ex 'ptype struct node' -ex "break $line if n == 0" -ex run \
	    -ex backtrace -ex 'print *list->next->next' \
	    -ex 'print depth(2, list)' -ex 'info locals' \
	    -ex 'delete' -ex continue ../main 2>&1 |
		sed 's/process [0-9]*/process N/'
}
in_each run
grep -q 'text = "node' said.none || { echo "gdb cannot trace here"; exit 77; }
