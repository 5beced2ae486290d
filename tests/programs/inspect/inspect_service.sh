#!/bin/bash
# The recipes of umem_service(7): the drop-in is one for systemd, its options
# are good, and root with the named capabilities looks at other users.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
bad() {
	echo "$*"
	cat said
	exit 1
}
page=$TOP/man/umem_service.7

# recipe WORD - the literal lines of the page around the one with the word
recipe() {
	awk -v word="$1" '/^\.Bd/ { text = ""; next }
	    /^\.Ed/ { if (index(text, word)) printf "%s", text; text = "" }
	    { text = text $0 "\n" }' "$page"
}

recipe LD_PRELOAD=libumem >drop-in
[ "$(wc -l <drop-in)" -eq 4 ] || bad "no drop-in"
options=$(sed -n 's/^Environment=UMEM_OPTIONS=//p' drop-in)
UMEM_OPTIONS=${options//%%/%} "$umem" run -v true >said 2>&1
[ "$(grep -Ec '(soft|hard)_limit=' said)" -eq 2 ] || bad "the options are not set"
! grep -q 'not recognized\|ignored' said || bad "the options are wrong"
if command -v systemd-analyze >/dev/null; then
	{ cat drop-in; echo "ExecStart=/bin/true"; } >umem-test.service
	SYSTEMD_UNIT_PATH=$PWD: systemd-analyze verify ./umem-test.service \
	    >said 2>&1 || bad "systemd-analyze"
	[ ! -s said ] || bad "systemd-analyze has hints"
fi

cat >main.c <<'END2'
#include <stdio.h>
#include <stdlib.h>

int
main(void)
{
	char *volatile lost = malloc(5000);

	lost = malloc(5000);
	puts("ready");
	fflush(stdout);
	return getchar() == 0 || lost == NULL;
}
END2
"$CC" -g -fno-builtin -o main main.c || exit 1
chmod 711 .
if [ "$(id -u)" -ne 0 ] || ! command -v setpriv >/dev/null ||
    ! setpriv --bounding-set -all true 2>/dev/null ||
    ! setpriv --reuid 65534 --clear-groups test -r "$SHIM" 2>/dev/null; then
	exit 0
fi
start setpriv --reuid 65534 --clear-groups env UMEM_OPTIONS=sample=100 ./main
few=$(recipe 'umem ps')
few=${few% umem ps}
[[ $few == "setpriv --bounding-set -all,"* ]] || bad "no recipe: $few"
# shellcheck disable=SC2086 # words
$few "$umem" ps >said 2>&1 || bad "ps"
grep -q "^ *$pid .* main " said || bad "ps lacks the process"
# shellcheck disable=SC2086 # words
$few "$umem" metrics "$pid" >said 2>&1 || bad "metrics"
# shellcheck disable=SC2086 # words
$few "$umem" top -n 1 "$pid" >said 2>&1 || bad "top"
more=$(sed -n '/^The other commands also use/,/^because/p' "$page" |
    grep -o 'CAP_[A-Z_]*' | sed 's/CAP_/,+/' | tr -d '\n' | tr '[:upper:]' '[:lower:]')
[ ${#more} -gt 20 ] || bad "no capabilities: $more"
# shellcheck disable=SC2086 # words
$few$more "$umem" leaks "$pid" >said 2>&1
[ $? -eq 1 ] || bad "leaks"
grep -q 'main' said || bad "leaks does not name the function"
# The service with call sites.
own=$(recipe SITES= | sed -n 's/^CapabilityBoundingSet=//p' |
    sed 's/CAP_/,+/g; s/ //g' | tr '[:upper:]' '[:lower:]')
[[ $own == ,+set* ]] || bad "no capabilities for call sites: $own"
# shellcheck disable=SC2086 # words
$few$own "$umem" metrics --sites=10 "$pid" >said 2>&1 || bad "metrics --sites"
grep -q '^umem_site_live_bytes{site="main (main.c:' said || bad "metrics has no site"
! setpriv --bounding-set -all "$umem" status "$pid" >said 2>&1 ||
    bad "no capability is needed"
finish 0
