#!/bin/bash
# make demo and make test install the packages that they need before they
# compile anything; make alone names the missing packages in one message.
#
# PATH begins with stand-ins: dpkg-query knows no package, apt-get only writes
# down its arguments, and the compilers write down that they ran.
set -eu
mkdir bin
printf '#!/bin/sh\nexit 1\n' >bin/dpkg-query
printf '#!/bin/sh\necho "apt-get $*" >>%s/calls\n' "$PWD" >bin/apt-get
printf '#!/bin/sh\necho "cc $*" >>%s/calls\nexit 1\n' "$PWD" >bin/cc
# Of sudo, only "sudo env NAME=VALUE COMMAND" is used.
printf '#!/bin/sh\nexec "$@"\n' >bin/sudo
chmod +x bin/*
bad() {
	echo "$*"
	cat calls said 2>/dev/null
	exit 1
}
# build WORD... - make in the tree, into a build folder of this test
build() {
	rm -rf calls build
	touch calls
	env -u MAKEFLAGS -u SAN -u DEBUG PATH="$PWD/bin:$PATH" \
	    make -C "$TOP" B="$PWD/build" CC="${compiler:-cc}" CXX=cc "$@" \
	    >said 2>&1
}

# installs GOAL PACKAGE... - before the first call of a compiler
installs() {
	local package

	! build "$1" || bad "make $1 succeeded without a compiler"
	[[ $(head -n 1 calls) == apt-get\ * ]] ||
	    bad "make $1 compiles before packages are installed"
	for package in "${@:2}"; do
		head -n 1 calls | tr ' ' '\n' | grep -qxF -e "$package" ||
		    bad "make $1 does not install $package"
	done
}
installs demo gcc libc6-dev libdw-dev libiberty-dev systemtap-sdt-dev valgrind redis-server
installs test gcc libc6-dev libdw-dev libiberty-dev systemtap-sdt-dev valgrind check g++
installs stress gcc libc6-dev libdw-dev libiberty-dev systemtap-sdt-dev valgrind postgresql debootstrap
installs bench gcc libc6-dev libdw-dev libiberty-dev systemtap-sdt-dev valgrind clang
# This one would not end at the first call of a compiler.
build -n lint
grep -q '^tools/build/install_packages.sh.* lint' said || bad "make lint"

# lacks TEXT - make compiles nothing and says which requirement is missing
lacks() {
	! build || bad "make succeeded without $1"
	[ "$(grep -c 'check_requirements.sh: missing' said)" = 1 ] ||
	    bad "not one message"
	grep -q "missing: .*$1" said || bad "the message does not name $1"
	grep -q 'tools/build/install_packages.sh build' said ||
	    bad "the message does not say how to install it"
	! grep -Eiq 'command not found|No such file|error:|apt-get' said calls ||
	    bad "more than the message"
	[ "$(grep -c -e ' -c ' calls)" = 0 ] || bad "something was compiled"
}
compiler=$PWD/none/cc lacks 'a C compiler'
compiler=$PWD/shadowed
for header in elfutils/libdw.h libiberty/demangle.h valgrind/memcheck.h; do
	mkdir -p "shadow/${header%/*}"
	echo '#error not installed' >"shadow/$header"
	printf '#!/bin/sh\necho "cc $*" >>%s/calls\nexec %s -I%s/shadow "$@"\n' \
	    "$PWD" "$(command -v "${CC%% *}")" "$PWD" >"$compiler"
	chmod +x "$compiler"
	lacks "$header"
	rm -r shadow
done
