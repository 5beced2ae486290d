#!/bin/bash
# The commands and the library's reports print names that the program chose
# without control characters on the terminal, the commands also without invalid
# bytes in JSON, and without characters that change how the text around them is
# shown.  A program has the name with which it was started.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"

# Functions of a program have the name with which the program was started, also
# in a core, if its command line and the kernel agree on it, and otherwise the
# name of its file.
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

# Names with other characters.
cat >named.c <<'END'
#include <stdlib.h>
#include <unistd.h>
#include "umem/umem.h"
#include "vmem/vmem.h"
void *lost __attribute__((used));
int
main(int argc, char **argv)
{
	char c;
	umem_cache_t *cache = umem_cache_create("a\033[31m\r\nb\377\302\233c\303\251\342\200\256",
	    100, 0, NULL, NULL, NULL, NULL, NULL, 0);

	/* U+202E, U+2066, U+200F, U+061C, U+2028, U+FEFF, U+E0041; U+110000,
	   which does not exist */
	umem_cache_create("d\342\201\246\342\200\217\330\234\342\200\250"
	    "\357\273\277\363\240\201\201e\342\202\254\364\220\200\200",
	    100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	vmem_create("n\033]0;title\007m", (void *)4096, 4096, 4096, NULL, NULL,
	    NULL, 0, VM_SLEEP);
	for (int i = 0; i < 100; i++)
		umem_cache_alloc(cache, UMEM_DEFAULT);
	if (argc > 1) {
		void *p = umem_cache_alloc(cache, UMEM_DEFAULT);

		umem_cache_free(cache, p);
		umem_cache_free(cache, p);
	}
	write(1, "ready\n", 6);
	return (int)read(0, &c, 1);
}
END
program=$(printf 'pro\033[1m\ngram')
"$CC" -O1 -w -fno-builtin -I"$TOP" -o "$program" named.c -L"$B" -lumem_malloc \
    -Wl,-rpath,"$B" || exit 1
UMEM_DEBUG=audit start "./$program"
gcore -o core "$pid" >/dev/null 2>&1
formats='\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]|\xd8\x9c|\xef\xbb\xbf|\xf3\xa0'
for target in "$pid" "core.$pid"; do
	for words in stat status leaks 'leaks -d' users verify \
	    'whatis 401000' 'bufctl -v'; do
		# shellcheck disable=SC2086 # a command and its option
		set -- $words
		"$umem" "$1" "${@:2:1}" "$target" >said 2>&1
		if grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xff|\xc2\x9b' said ||
		    LC_ALL=C grep -qP "$formats" said; then
			echo "umem $words $target:"
			cat -v said | head -20
			exit 1
		fi
	done
	for command in stat status leaks users; do
		"$umem" "$command" --json "$target" >json 2>err
		python3 - json <<-'END' || exit 1
		import json, sys, unicodedata
		text = open(sys.argv[1], "rb").read().decode("utf-8")
		json.loads(text)
		wrong = [f"U+{ord(c):04X}" for c in text if c != "\n" and
		         unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")]
		assert not wrong, wrong
		END
	done
	"$umem" stat "$target" >said
	{ grep -qF 'a\x1b[31m\x0d\x0ab\xff\xc2\x9bcé\xe2\x80\xae' said &&
	    grep -qF '\xf3\xa0\x81\x81e€\xf4\x90\x80\x80' said; } || {
		echo "the caches' names in"
		cat -v said
		exit 1
	}
	grep -qF 'n\x1b]0;title\x07m' said || exit 1
done
finish 0

for debug in '' default; do
	(ulimit -c 0
	UMEM_DEBUG=$debug LD_PRELOAD=$SHIM "./$program" twice >said 2>&1)
	if grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2\x9b' said ||
	    ! grep -qF 'a\x1b[31m\x0d\x0ab' said; then
		echo "the report with UMEM_DEBUG=$debug:"
		cat -v said
		exit 1
	fi
done
grep -qF 'pro\x1b[1m\x0agram`main+0x' said || {
	echo "no name of the program in the report:"
	cat -v said
	exit 1
}
