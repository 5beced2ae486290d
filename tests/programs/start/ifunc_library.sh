#!/bin/bash
# malloc works in the resolver of an IFUNC of a shared library, which the
# loader may relocate before the library that malloc is in.
set -eu
cat >lib.c <<'END'
#include <stdlib.h>

char *early;

static int
answer(void)
{
	return 42;
}

static int (*resolve(void))(void)
{
	early = malloc(1000);
	if (early != NULL) {
		for (int i = 0; i < 1000; i++)
			early[i] = 1;
		early = realloc(early, 3000);
		free(malloc(200000));
		free(calloc(10, 10));
	}
	return answer;
}

int which(void) __attribute__((ifunc("resolve")));
END
cat >main.c <<'END'
#include "tests/programs/check.h"

extern char *early;
int which(void);

int
main(void)
{
	check(which() == 42);
	check(early != NULL && early[0] == 1 && early[999] == 1);
	free(early);
	churn(1, 10000, 100000);
	return 0;
}
END
# A call within the library makes the loader resolve it for the library.
echo 'int which(void); int call(void) { return which(); }' >call.c
"$CC" -shared -fPIC -fno-builtin -Wl,-z,now -o libifunc.so lib.c call.c
"$CC" -D_GNU_SOURCE -I"$TOP" -o main main.c -L. -lifunc -pthread
export LD_LIBRARY_PATH=.
LD_PRELOAD=$SHIM ./main
LD_PRELOAD=$SHIM LD_BIND_NOW=1 ./main
LD_PRELOAD=$SHIM UMEM_OPTIONS=mode=locked ./main
