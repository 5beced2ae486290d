#!/bin/bash
# A C and a C++ program build against nothing but what is installed, shared
# and static; the command runs a program from there; uninstall leaves nothing.
set -eu
root=$TMP/root
make -s -C "$TOP" install DESTDIR="$root" PREFIX=/opt/umem >/dev/null
at=$root/opt/umem
export PKG_CONFIG_SYSROOT_DIR=$root
export PKG_CONFIG_PATH=$at/lib/pkgconfig

cat >program.c <<'END'
#include <vmem.h>
#include <umem.h>
#include <stdio.h>
#include <string.h>

/* Names of the library's inside, free for a program to use. */
int slab_create(void);
int os_map(void);
int slab_create(void) { return 1; }
int os_map(void) { return 2; }

int
main(void)
{
	vmem_t *arena = vmem_create("ids", (void *)1, 100, 1, NULL, NULL, NULL,
	    0, VM_NOSLEEP);
	void *id = vmem_alloc(arena, 1, VM_NOSLEEP);
	umem_cache_t *cache = umem_cache_create("c", 100, 0, NULL, NULL, NULL,
	    NULL, NULL, 0);
	void *object = umem_cache_alloc(cache, UMEM_DEFAULT);
	char *block = (char *)umem_zalloc(1000, UMEM_DEFAULT);
	struct umem_mode mode;

	if (id == NULL || object == NULL || block == NULL || block[999] != 0 ||
	    umem_mode(&mode, sizeof(mode)) != 0 ||
	    strcmp(umem_version(), UMEM_VERSION) != 0 ||
	    slab_create() + os_map() != 3)
		return 1;
	umem_free(block, 1000);
	umem_cache_free(cache, object);
	umem_cache_destroy(cache);
	vmem_free(arena, id, 1);
	vmem_destroy(arena);
	puts("good");
	return 0;
}
END
cp program.c program.cc

# shellcheck disable=SC2046 # words
{
	"$CC" -std=c11 -pedantic -Wall -Wextra -Werror program.c \
	    $(pkg-config --cflags --libs umem) -o shared
	"$CXX" -std=c++11 -pedantic -Wall -Wextra -Werror program.cc \
	    $(pkg-config --cflags --libs umem) -o shared_cc
	"$CC" program.c $(pkg-config --cflags umem) "$at/lib/libumem.a" \
	    -pthread -o static
}
export LD_LIBRARY_PATH=$at/lib
for program in ./shared ./shared_cc ./static; do
	echo "$program"
	[ "$($program)" = good ]
done
"$at/bin/umem" run -v -- ./shared 2>err
grep -q '^umem: [0-9.]* mode ' err || { cat err; exit 1; }
[ "$(pkg-config --modversion umem)" = \
    "$("$at/bin/umem" version | cut -d' ' -f2)" ]
# A name has a page, its own or one that leads to where it is described.
grep -qx '.so man3/umem_alloc.3' "$at/share/man/man3/umem_free.3"
[ -f "$at/share/man/man7/umem_options.7" ]

make -s -C "$TOP" uninstall DESTDIR="$root" PREFIX=/opt/umem
left=$(find "$root" ! -type d)
[ -z "$left" ] || { echo "left: $left"; exit 1; }
