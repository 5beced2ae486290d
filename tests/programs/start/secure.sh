#!/bin/bash
# In a set-user-ID program the library ignores our variables; without that bit
# it obeys them.
set -eu
[ "$(id -u)" = 0 ] || { echo "needs root"; exit 77; }
command -v setpriv >/dev/null || { echo "no setpriv"; exit 77; }
cat >main.c <<'END'
#include <stdio.h>
#include <sys/auxv.h>

#include "umem/umem.h"

int
main(void)
{
	struct umem_mode mode;

	if (umem_alloc(100, UMEM_DEFAULT) == NULL ||
	    umem_mode(&mode, sizeof(mode)) != 0)
		return 1;
	printf("secure %d mode %d\n", getauxval(AT_SECURE) != 0, mode.mode);
	return 0;
}
END
cp "$B/libumem.so.1" libumem.so
"$CC" -I"$TOP" -o main main.c -Wl,-soname,x -Wl,-rpath,"$TMP" -L. -lumem
mv libumem.so libumem.so.1
chmod 755 "$TMP" main libumem.so.1
as_nobody() {
	setpriv --reuid 65534 --regid 65534 --clear-groups \
	    env UMEM_OPTIONS=mode=locked,verbose,nosuchword \
	    UMEM_DEBUG=default,nosuchtoo UMEM_LOGGING=nosuchlog "$@" 2>err
}
plain=$(as_nobody ./main)
[ "$plain" = "secure 0 mode 2" ] || { echo "plain: $plain"; cat err; exit 1; }
grep -q '^umem: UMEM_OPTIONS: .nosuchword. not recognized$' err
grep -q '^umem: UMEM_DEBUG: .nosuchtoo. not recognized$' err
grep -q '^umem: UMEM_LOGGING: .nosuchlog. not recognized$' err
chmod u+s main
secure=$(as_nobody ./main)
case $secure in
"secure 0"*)
	echo "no set-user-ID programs here"
	exit 77
	;;
"secure 1 mode "*) ;;
*)
	echo "secure: $secure"
	exit 1
	;;
esac
[ ! -s err ] || { cat err; exit 1; }
# The mode is the one without any option.
without=$(env -u UMEM_OPTIONS ./main)
[ "${secure#secure 1}" = "${without#secure 0}" ] || {
	echo "$secure, without options $without"
	exit 1
}
