#!/bin/bash
# find_package(umem) and pkg-config in an installation with a blank in its
# prefix, and after the tree has moved: a project in C and one in C++.
# test timeout: 300
set -eu
command -v cmake >/dev/null || { echo "no cmake"; exit 77; }
root=$TMP/root
at="$root/opt/a prefix"
make -s -C "$TOP" install DESTDIR="$root" PREFIX='/opt/a prefix' >/dev/null
unset MAKEFLAGS
mkdir c cxx

# The usable size of a small block tells whether the program has the malloc of
# glibc, as it shall with PLAIN=1.
cat >c/program.c <<'END'
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <umem.h>
#include <sys/vmem.h>

int
main(void)
{
	void *block = umem_alloc(100, UMEM_DEFAULT);
	void *other = malloc(1);

	if (block == NULL || other == NULL)
		return 1;
	puts((malloc_usable_size(other) == 24) == PLAIN ? "good" : "bad");
	umem_free(block, 100);
	free(other);
	return 0;
}
END
cat >c/rcu.c <<'END'
#define URCU_API_MAP
#include <urcu/urcu-memb.h>
#include <umem_rcu.h>
#include <stdio.h>

int
main(void)
{
	rcu_register_thread();
	umem_free_rcu(umem_alloc(100, UMEM_DEFAULT), 100);
	umem_rcu_barrier();
	rcu_unregister_thread();
	puts("good");
	return 0;
}
END
cat >c/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.13)
project(c LANGUAGES C)
find_package(umem 0.1 REQUIRED COMPONENTS malloc OPTIONAL_COMPONENTS rcu)
set(CMAKE_C_FLAGS "-Wall -Wextra -Werror")
foreach(name umem umem_static malloc malloc_static)
  add_executable(${name} program.c)
  target_link_libraries(${name} umem::${name})
  target_compile_definitions(${name} PRIVATE PLAIN=1)
endforeach()
foreach(name malloc malloc_static)
  set_target_properties(${name} PROPERTIES COMPILE_DEFINITIONS PLAIN=0)
endforeach()
target_link_libraries(malloc_static -static)
if(umem_rcu_FOUND)
  foreach(kind rcu rcu_static)
    add_executable(${kind} rcu.c)
    target_link_libraries(${kind} umem::${kind} urcu-memb)
    add_executable(malloc_${kind} rcu.c)
  endforeach()
  target_link_libraries(malloc_rcu umem::malloc umem::rcu urcu-memb)
  target_link_libraries(malloc_rcu_static
    umem::malloc_static umem::rcu_static urcu-memb)
endif()
END
cat >cxx/program.cc <<'END'
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
cat >cxx/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.13)
project(cxx LANGUAGES CXX)
find_package(umem REQUIRED)
foreach(name umem umem_static malloc malloc_static)
  add_executable(${name} program.cc)
  target_link_libraries(${name} umem::${name})
  target_compile_features(${name} PRIVATE cxx_std_17)
endforeach()
END

# project NAME PREFIX [ARGUMENT...] - builds it, and runs all of its programs
project() {
	local program n=0

	if ! cmake -S "$1" -B "$1/build" -DCMAKE_PREFIX_PATH="$2" \
	    -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX" >said 2>&1 ||
	    ! cmake --build "$1/build" >said 2>&1; then
		cat said
		exit 1
	fi
	for program in "$1"/build/*; do
		if [ ! -f "$program" ] || [ ! -x "$program" ]; then
			continue
		fi
		echo "$program"
		[ "$("$program")" = good ]
		n=$((n + 1))
	done
	[ $n -ge 4 ]
}
project c "$at"
[ ! -e "$at/lib/libumem_rcu.a" ] || [ -x c/build/malloc_rcu_static ]

# A version that we do not have is not found.
mkdir later
cat >later/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.13)
project(later LANGUAGES C)
find_package(umem ${WANTED} QUIET)
message("found ${WANTED}: ${umem_FOUND}")
END
for wanted in 0.1=1 0.1.0=1 99=0 1.0=0 '0.1...0.9=1' '0.0.1...<0.0.2=0'; do
	cmake -S later -B later/build -DCMAKE_PREFIX_PATH="$at" \
	    -DWANTED="${wanted%=*}" >said 2>&1
	grep -qx "found ${wanted/=/: }" said || { cat said; exit 1; }
done

# pkg-config quotes the blank for the shell.
export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH=$at/lib/pkgconfig
if command -v pkg-config >/dev/null; then
	plain=1
	for name in umem umem-malloc; do
		eval "\"\$CC\" -DPLAIN=$plain c/program.c -o shared" \
		    "$(pkg-config --cflags --libs $name)"
		[ "$(LD_LIBRARY_PATH=$at/lib ./shared)" = good ]
		plain=0
	done
fi

mv "$at" "$TMP/moved here"
project cxx "$TMP/moved here"
mv "$TMP/moved here" "$at"
make -s -C "$TOP" uninstall DESTDIR="$root" PREFIX='/opt/a prefix'
left=$(find "$root" ! -type d -o -path '*cmake*' -name umem)
[ -z "$left" ] || { echo "left: $left"; exit 1; }
