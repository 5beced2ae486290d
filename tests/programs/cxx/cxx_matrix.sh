#!/bin/bash
# test timeout: 300
# umem.hpp compiles without a warning with each compiler of the machine, from
# C++17 on, and without RTTI; the programs beside this script pass, some with
# two sanitizers, too.  Misuse that the compiler can see is refused.
set -eu
command -v "${CXX%% *}" >/dev/null || { echo "no $CXX"; exit 77; }
here=$TOP/tests/programs/cxx
# As installed; the compiler says nothing of headers in folders of -isystem.
mkdir include
ln -s "$TOP"/umem/umem*.h* "$TOP/vmem/vmem.h" include
flags=(-O1 -g -Iinclude -isystem "$TOP" -D_GNU_SOURCE -pthread -Wall -Wextra -Wconversion -Wsign-conversion
    -Wshadow -Wold-style-cast -Wcast-qual -Wredundant-decls -pedantic -Werror)
export LD_LIBRARY_PATH=$B
programs="cxx_cache cxx_containers cxx_arena"

# The standards that a compiler has, the newest last.
standards() {
	local std

	for std in c++17 c++20 c++23; do
		! "$1" -std=$std -fsyntax-only -x c++ /dev/null 2>/dev/null ||
		    echo $std
	done
	# Its older name; gcc 10 has neither.
	"$1" -std=c++23 -fsyntax-only -x c++ /dev/null 2>/dev/null ||
	    ! "$1" -std=c++2b -fsyntax-only -x c++ /dev/null 2>/dev/null ||
	    echo c++2b
}

# build_and_run NAME COMPILER FLAG...
build_and_run() {
	local name=$1

	shift
	"$@" "${flags[@]}" "$here/$name.cc" -o "$name" -L"$B" -lumem
	"./$name" 2>err || { cat err; echo "$name: $*"; exit 1; }
}

# The programs run in the newest standard, in which they differ most from those
# that the Makefile builds.
echo '#include <umem.hpp>' >alone.cc
# In the other order than in cxx_retire.cc.
printf '#include <%s>\n' umem.hpp urcu/urcu-memb.h umem_rcu.h >both.cc
for cxx in $(printf '%s\n' "${CXX%% *}" g++ clang++ | sed s/^c++/g++/ |
    sort -u); do
	command -v "$cxx" >/dev/null || continue
	for std in $(standards "$cxx"); do
		"$cxx" "${flags[@]}" -std="$std" -fsyntax-only alone.cc
	done
	"$cxx" "${flags[@]}" -std="$std" -fno-rtti -fsyntax-only alone.cc
	"$cxx" "${flags[@]}" -std="$std" -fsyntax-only "$here/cxx_retire.cc"
	"$cxx" "${flags[@]}" -std="$std" -fsyntax-only both.cc
	for name in $programs; do
		build_and_run "$name" "$cxx" -std="$std"
	done
done

# A library and a program have the same cache of a type, also if they hide their
# symbols.
cat >part.h <<-END
	#include <list>
	#include <umem.hpp>
	using numbers = std::list<long, umem::slab_allocator<long>>;
	__attribute__((visibility("default"))) void fill(numbers &list);
END
cat >part.cc <<-END
	#include "part.h"
	void fill(numbers &list) { list.assign(100, 5); }
END
cat >whole.cc <<-END
	#include "part.h"
	int main()
	{
		numbers list;

		fill(list);
		list.pop_back();
		list.push_front(1);
		return list.size() == 100 ? 0 : 1;
	}
END
for cxx in g++ clang++; do
	command -v "$cxx" >/dev/null || continue
	hidden=("$cxx" "${flags[@]}" -std=c++17 -fvisibility=hidden)
	"${hidden[@]}" -fPIC -shared part.cc -o libpart.so
	"${hidden[@]}" whole.cc -o whole -L. -lpart -L"$B" -lumem
	LD_LIBRARY_PATH=$B:. ./whole || { echo "hidden: $cxx"; exit 1; }
done

# Here the library has no sanitizer, other than in the builds with SAN.  Without
# libraries of the sanitizers there is nothing to run.
echo 'int main() {}' >empty.cc
sanitize=("-fsanitize=address,undefined" -fno-sanitize-recover=all)
if "$CXX" "${sanitize[@]}" empty.cc -o empty 2>/dev/null && ./empty; then
	for name in cxx_cache cxx_arena; do
		build_and_run "$name" "$CXX" -std=c++17 "${sanitize[@]}"
	done
fi

# refused TEXT - a function with this text does not compile
refused() {
	printf '#include <umem.hpp>\n#include <string>\nusing namespace umem;\n%s\n' \
	    "void f() { $1 }" >refused.cc
	! "$CXX" "${flags[@]}" -std=c++17 -fsyntax-only refused.cc 2>err || {
		echo "not refused: $1"
		exit 1
	}
	grep -qE "$2" err || { cat err; exit 1; }
}

refused 'cache<int> a; cache<int> b(a);' 'deleted'
refused 'cache<int> a; auto p = a.take();' 'make\(\) makes an object'
refused 'cache<int, kept> a; auto p = a.make(1);' 'take\(\) takes an object'
refused 'cache<int[3]> a;' 'objects of a cache are of an object type'
refused 'cache<volatile int> a;' 'an object type, not const or volatile'
refused 'cache<int> a; cache<long> b; auto p = a.make(1); p = b.make(1);' \
    'no (match|viable)'
refused 'cache<std::string> a; auto p = a.make();
    (void)retire(std::move(p), nullptr);' 'no destructor runs'
refused 'cache<int> a; a.make(1);' 'nodiscard|unused|ignoring'
