#!/bin/bash
# The commands and the library's reports print names that the program chose
# without control characters on the terminal, the commands also without invalid
# bytes in JSON, and without characters that change how the text around them is
# shown.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"

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

	/* U+202E, U+2066, U+200F, U+061C, U+2028, U+FEFF, U+E0041 */
	umem_cache_create("d\342\201\246\342\200\217\330\234\342\200\250"
	    "\357\273\277\363\240\201\201e\342\202\254",
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
	for words in stat status caches arenas leaks 'leaks -d' users verify frag \
	    'whatis 401000' 'sizes -i' 'bufctl -v'; do
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
	    grep -qF '\xf3\xa0\x81\x81e€' said; } || {
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
