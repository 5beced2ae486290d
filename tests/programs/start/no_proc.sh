#!/bin/bash
# The library works without /proc and /sys.
set -eu
hide='mount -t tmpfs none /proc && mount -t tmpfs none /sys'
$UNSHARE sh -c "$hide" 2>/dev/null || {
	echo "no mount namespaces here"
	exit 77
}
cat >main.c <<'END'
#include <malloc.h>

#include "tests/programs/check.h"

static void *
load(void *arg)
{
	churn((uintptr_t)arg, 20000, 20000);
	return NULL;
}

int
main(void)
{
	struct umem_mode mode;
	pthread_t thread[8];

	check(access("/proc/self", F_OK) != 0);
	check(access("/sys/devices", F_OK) != 0);
	check(umem_mode != NULL && umem_mode(&mode, sizeof(mode)) == 0);
	check(mode.ncpus >= 1);
	printf("%d\n", mode.mode);
	fflush(stdout);
	for (uintptr_t i = 0; i < 8; i++)
		thread[i] = thread_start(load, (void *)(i + 1));
	for (int i = 0; i < 8; i++)
		thread_end(thread[i]);
	malloc_trim(0);
	pid_t pid = fork();
	if (pid == 0) {
		churn(3, 20000, 100000);
		_exit(0);
	}
	child_end(pid);
	return 0;
}
END
"$CC" -D_GNU_SOURCE -fno-builtin -I"$TOP" -o main main.c -pthread
for mode in rseq own locked; do
	export UMEM_OPTIONS=mode=$mode
	# The mode is not a worse one for it: compared with that of the demo.
	hidden=$($UNSHARE sh -c "$hide && LD_PRELOAD=$SHIM ./main")
	said=$(LD_PRELOAD=$SHIM UMEM_OPTIONS=$UMEM_OPTIONS,verbose env true 2>&1)
	case $hidden/$said in
	2/*locked* | [01]/*rseq*) ;;
	*)
		echo "without /proc mode $hidden, with: $said"
		exit 1
		;;
	esac
done
