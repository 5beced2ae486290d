#!/bin/bash
# Functions of a program have the name with which the program was started, also
# in a core, if its command line and the kernel agree on it, and otherwise the
# name of its file.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"

cat >tool-1.2.c <<'END2'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) static void
lose(void)
{
	for (int i = 0; i < 100; i++) {
		void *volatile p = malloc(1000);

		memset(p, 1, 1000);
		p = NULL;
	}
}
int
main(int argc, char **argv)
{
	char c;

	lose();
	if (argc > 1 && strcmp(argv[1], "-r") == 0)
		strcpy(argv[0], "me");
	write(1, "ready\n", 6);
	return (int)read(0, &c, 1);
}
END2
"$CC" -O1 -w -fno-builtin -o tool-1.2 tool-1.2.c || exit 1
ln -s tool-1.2 server
cat >script <<END2
#!$TMP/server -s
END2
chmod +x script

# named NAME WORD... - the functions of the program that WORD... starts, in
# blocks with records, have this name
named() {
	UMEM_DEBUG=default start "${@:2}"
	gcore -o core "$pid" >/dev/null 2>&1
	# gcore records the first word, and not the name that the kernel has.
	for target in "$pid" ${cores:+"core.$pid"}; do
		"$umem" leaks -d "$target" >said 2>err
		if ! grep -q "^    $1\`lose+0x" said; then
			echo "$target, started by ${*:2}: not $1:"
			cat said err
			exit 1
		fi
	done
	finish 0
	rm "core.$pid"
}

cores=yes
named server "$TMP/server"
named server ./server
named tool-1.2 ./tool-1.2
(PATH=$TMP:$PATH; named server server) || exit 1
cores=
# A script has its interpreter in its words; a program may change its words.
named tool-1.2 ./script
named tool-1.2 ./server -r
exit 0
