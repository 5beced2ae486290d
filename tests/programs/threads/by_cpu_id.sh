#!/bin/bash
# Kernels before 6.3 have no mm_cid: then cpu_id is the index, which is negative
# in a thread that is not registered.  Here a preloaded getauxval() reports such
# a kernel; glibc.pthread.rseq=0 stands for a glibc before 2.35.
set -u

cat >auxv.c <<'END'
#include <elf.h>
#include <fcntl.h>
#include <unistd.h>
unsigned long
getauxval(unsigned long type)
{
	static unsigned long v[256];
	static long n;
	if (type == 27) /* AT_RSEQ_FEATURE_SIZE */
		return 20;
	if (n == 0) {
		int fd = open("/proc/self/auxv", O_RDONLY);
		n = read(fd, v, sizeof(v)) / (long)sizeof(*v);
		close(fd);
	}
	for (long i = 0; i < n; i += 2)
		if (v[i] == type)
			return v[i + 1];
	return 0;
}
END
cat >threads.c <<'END'
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
static void *
run(void *arg)
{
	static __thread char *block[200];
	for (int n = 0; n < 20; n++) {
		for (int i = 0; i < 200; i++) {
			block[i] = malloc((size_t)i * 7 + 1);
			memset(block[i], i, (size_t)i * 7 + 1);
		}
		for (int i = 0; i < 200; i++) {
			if (block[i][i * 7] != (char)i)
				abort();
			free(block[i]);
		}
	}
	return arg;
}
int
main(void)
{
	pthread_t thread[8];
	for (int n = 0; n < 5; n++) {
		for (int i = 0; i < 8; i++)
			if (pthread_create(&thread[i], NULL, run, NULL) != 0)
				return 1;
		for (int i = 0; i < 8; i++)
			pthread_join(thread[i], NULL);
	}
	return 0;
}
END
"$CC" -shared -fPIC -o auxv.so auxv.c || exit 1
"$CC" -O1 -fno-builtin -pthread -o threads threads.c || exit 1

# runs WHERE OPTIONS TUNABLES - runs threads; the library must report that it
# uses the rseq area WHERE, indexed by cpu_id
runs() {
	LD_PRELOAD=$PWD/auxv.so:$SHIM UMEM_OPTIONS=verbose,$2 \
	    GLIBC_TUNABLES=$3 ./threads 2>said
	local status=$?
	if [ $status -ne 0 ] || ! grep -q "$1.*indexed by cpu_id" said; then
		echo "$1 $2 $3: status $status"
		cat said
		exit 1
	fi
}

[ "${GLIBC_MINOR:-35}" -lt 35 ] || runs "libc's area" thread=auto ''
runs "own area" mode=own ''
runs "own area" thread=auto glibc.pthread.rseq=0

# Threads that are refused, and those that libc does not know.
for program in 'process/clone shared' threads/refused_later; do
	for mode in rseq own; do
		[ "$program-$mode" = 'process/clone shared-own' ] && continue
		# shellcheck disable=SC2086 # a program and its argument
		if ! LD_PRELOAD=$PWD/auxv.so:$SHIM \
		    UMEM_OPTIONS=thread=no,mode=$mode "$B"/programs/$program; then
			echo "$program mode=$mode: status $?"
			exit 1
		fi
	done
done
