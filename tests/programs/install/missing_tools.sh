#!/bin/bash
# Without the right to install packages, the one command that does is printed,
# and the tests run: those that need a missing tool are skipped.
set -eu
bad() {
	echo "$*"
	cat said
	exit 1
}

# A machine without python3, a C++ compiler and sudo.
mkdir bin
ln -s /usr/bin/* bin 2>/dev/null || true
ln -s /bin/* /usr/sbin/* /sbin/* bin 2>/dev/null || true
rm -f bin/python3 bin/c++ bin/sudo bin/id bin/dpkg-query
printf '#!/bin/sh\necho 1000\n' >bin/id
printf '#!/bin/sh\necho installed gcc\n' >bin/dpkg-query
chmod +x bin/id bin/dpkg-query
export PATH=$PWD/bin

command='apt-get install .*check .*python3'
"$TOP/tools/build/install_packages.sh" test >said 2>&1 || bad "fails"
grep -Eq "^    $command" said || bad "does not say how to install"
! grep -q ' gcc ' said || bad "wants an installed package"
printf '#!/bin/sh\necho "no password" >&2\nexit 1\n' >bin/sudo
chmod +x bin/sudo
"$TOP/tools/build/install_packages.sh" test >said 2>&1 || bad "fails"
grep -Eq "^    $command" said || bad "sudo fails, does not say how to install"
grep -q 'no password' said || bad "does not say why"

mkdir -p tests/jobs build
cp "$TOP/tests/run_tests.sh" tests
echo 'python3 -c pass' >tests/jobs/needs.sh
echo "\"\$CXX\" --version" >tests/jobs/compiles.sh
echo ': python3x mypython3' >tests/jobs/other.sh
echo '# python3 is in a comment' >tests/jobs/comment.sh
echo 'command -v python3 || echo without' >tests/jobs/looks.sh
echo 'command -v sh && python3 -c pass' >tests/jobs/needs_two.sh
echo '// test modes: default' >tests/jobs/cplusplus.cc
CXX=c++ tests/run_tests.sh build jobs >said 2>&1 || bad "a test failed"
grep -qx '3 passed, 0 failed, 4 skipped' said || bad "other counts"
for line in 'needs.sh: no python3' 'needs_two.sh: no python3' \
    'compiles.sh: no CXX' 'cplusplus.cc: no CXX'; do
	grep -qxF "skip jobs/$line" said || bad "does not say: $line"
done
