#!/bin/bash
# A C and a C++ program build against the installed files alone, shared and
# static.  The installed command runs a program.  uninstall leaves nothing.
set -eu
root=$TMP/root
(umask 077 &&
    make -s -C "$TOP" install DESTDIR="$root" PREFIX=/opt/umem >/dev/null)
# An administrator's umask does not hide the files from the other users.
hidden=$(find "$root/opt" ! -type l ! -perm -044)
[ -z "$hidden" ] || { echo "hidden: $hidden"; exit 1; }
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

# A program written for illumos: the headers declare all functions that it
# uses, and it defines its settings without a prototype of its own.
cat >source.c <<'END'
#include <umem.h>
#include <sys/vmem.h>

const char *
_umem_options_init(void)
{
	return "zero_size=block";
}

const char *
_umem_debug_init(void)
{
	return "";
}

const char *
_umem_logging_init(void)
{
	return "";
}

int
main(void)
{
	ssize_t n = 0;
	void *plain = malloc(10), *none;

	umem_startup(NULL, 0, 0, NULL, NULL);
	none = umem_alloc(0, UMEM_DEFAULT);
	if (plain == NULL || none == NULL)
		return 1;
	umem_free(none, 0);
	free(plain);
	vmem_reap();
	umem_reap();
	return system("echo good") != n;
}
END
cp source.c source.cc
cat >caches.cc <<'END'
#include <umem.hpp>
#include <cstdio>

int
main()
{
	umem::cache<int> cache;

	std::puts(*cache.make(3) == 3 ? "good" : "bad");
	return 0;
}
END
sed 's/<umem.h>/<SECOND>/; s/<sys.vmem.h>/<umem.h>/; s/<SECOND>/<sys\/vmem.h>/' \
    source.c >reversed.c

# Flags are of the type of the parameters.
cat >flags.c <<'END'
#include <umem.h>
#include <vmem.h>

static void
look(void *arg, void *start, size_t size)
{
	(void)arg;
	(void)start;
	(void)size;
}

int
main(void)
{
	umem_cache_t *cache = umem_cache_create((char *)"flags", 8, 0, NULL,
	    NULL, NULL, NULL, NULL, UMC_INTERNAL);

	vmem_walk(NULL, VMEM_REENTRANT, look, NULL);
	vmem_walk(NULL, VMEM_ALLOC | VMEM_REENTRANT, look, NULL);
	umem_cache_destroy(cache);
	return (unsigned)UMC_INTERNAL != 0x80000000 ||
	       (unsigned)VMEM_REENTRANT != 0x80000000;
}
END
cp flags.c flags.cc

# The compiler sees an overflow, and a block that is lost at once.
cat >overflow.c <<'END'
#include <string.h>
#include <umem.h>

int
main(void)
{
	char *block = umem_alloc(8, UMEM_DEFAULT);

	memset(block, 0, 9);
	umem_free(block, 8);
	return 0;
}
END
cat >unused.c <<'END'
#include <umem.h>

int
main(void)
{
	umem_zalloc(8, UMEM_DEFAULT);
	return 0;
}
END

# shellcheck disable=SC2046 # words
{
	"$CC" -std=c11 -pedantic -Wall -Wextra -Werror program.c \
	    $(pkg-config --cflags --libs umem) -o shared
	"$CXX" -std=c++11 -pedantic -Wall -Wextra -Werror program.cc \
	    $(pkg-config --cflags --libs umem) -o shared_cc
	"$CC" program.c $(pkg-config --cflags umem) "$at/lib/libumem.a" \
	    -pthread -o static
	"$CC" program.c $(pkg-config --cflags umem-malloc) -static \
	    $(pkg-config --static --libs umem-malloc) -o static_malloc
	"$CC" program.c $(pkg-config --cflags umem-malloc) \
	    "$at/lib/libumem_malloc.a" -pthread -ldl -o archive_malloc
	for std in c99 c11; do
		for name in source reversed; do
			"$CC" -std=$std -pedantic -Wall -Wextra -Werror \
			    -rdynamic $name.c \
			    $(pkg-config --cflags --libs umem) -o $name
		done
	done
	"$CXX" -std=c++98 -pedantic -Wall -Wextra -Werror -rdynamic \
	    source.cc $(pkg-config --cflags --libs umem) -o source_cc
	"$CXX" -std=c++17 -pedantic -Wall -Wextra -Werror \
	    caches.cc $(pkg-config --cflags --libs umem) -o caches
	for std in c99 c11 c++98 c++17; do
		case $std in
		c++*) compile=("$CXX" flags.cc) ;;
		*) compile=("$CC" flags.c) ;;
		esac
		"${compile[@]}" -std=$std -c -pedantic -Wall -Wextra -Werror \
		    -Wconversion -Wsign-conversion $(pkg-config --cflags umem)
	done
	for name in overflow unused; do
		if "$CC" -O2 -Wall -Werror -c $name.c \
		    $(pkg-config --cflags umem) 2>err; then
			echo "$name.c: no warning"
			exit 1
		fi
	done
}
export LD_LIBRARY_PATH=$at/lib
for program in ./shared ./shared_cc ./static ./static_malloc ./archive_malloc \
    ./source ./reversed ./source_cc ./caches; do
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
[ -f "$at/share/bash-completion/completions/umem" ]
[ -f "$at/share/zsh/site-functions/_umem" ]
[ -f "$at/share/umem/umem-metrics.timer" ]

# Without DESTDIR, an installation also makes programs of this machine find the
# library.
mkdir bin
printf '#!/bin/sh\n: >"%s/ran"\n' "$TMP" >bin/ldconfig
chmod +x bin/ldconfig
unset LD_LIBRARY_PATH
[ ! -e ran ]
said=$(PATH=$TMP/bin:$PATH make -s -C "$TOP" install PREFIX="$TMP/a place")
[ -e ran ]
[[ $said = *"echo '$TMP/a place/lib' >/etc/ld.so.conf.d/"* ]]
eval "${said##*$'\n'}"
said=$(make -s -C "$TOP" install PREFIX="$TMP/a place")
[[ $said != *"do not find"* ]]

make -s -C "$TOP" uninstall DESTDIR="$root" PREFIX=/opt/umem
left=$(find "$root" ! -type d)
[ -z "$left" ] || { echo "left: $left"; exit 1; }

# "make" builds all that "make install" copies: otherwise root's installation
# would leave files of root in the build folder.
make -s -C "$TOP" all PREFIX=/opt/all >/dev/null
commands=$(make -n -C "$TOP" install DESTDIR="$root" PREFIX=/opt/all V=1)
! grep -E ' -o |(ld|ar|objcopy) -' <<<"$commands" || {
	echo "make install builds files"
	exit 1
}

# Folders with characters that make and the shell know, and one that differs
# only in such a character.  The files name the folder.
for name in 'a b' 'a+b' "a:b%c;d|e&f,g(h)'i\"j#k"; do
	make -s -C "$TOP" install DESTDIR="$root" PREFIX="/x/$name" >/dev/null
	at=$root/x/$name
	grep -qaF "/x/$name/lib" "$at/bin/umem"
	grep -qxF "prefix=/x/$name" "$at/lib/pkgconfig/umem.pc"
	grep -qF '_umem_libdir}/../include"' "$at/lib/cmake/umem/umem-config.cmake"
	make -s -C "$TOP" uninstall DESTDIR="$root" PREFIX="/x/$name"
done
left=$(find "$root" ! -type d)
[ -z "$left" ] || { echo "left: $left"; exit 1; }

# busybox has no realpath --relative-to.
printf '#!/bin/sh\nexit 1\n' >bin/realpath
chmod +x bin/realpath
config() {
	PATH=$TMP/bin:$PATH make -s -C "$TOP" install DESTDIR="$root" "$@" >/dev/null
	grep '/include"' "$root$libdir/cmake/umem/umem-config.cmake"
}
libdir=/opt/up/lib/triplet
[[ $(config PREFIX=/opt/up LIBDIR=$libdir) = *'_umem_libdir}//../../include"'* ]]
libdir=/lib
[[ $(config PREFIX="/opt/a&b" LIBDIR=/lib) = *'_umem_libdir}//../opt/a&b/include"'* ]]
