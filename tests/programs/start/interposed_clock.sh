#!/bin/bash
# The library reads the clock by the kernel's function: a clock_gettime() of the
# program or of a library before umem, like that of libfaketime, may allocate
# and tell any time.  No mode calls it, writes a message or reports an error.
set -eu
cat >clock.c <<'END'
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* The time goes backwards, by a second with each call. */
int
clock_gettime(clockid_t clock, struct timespec *now)
{
	static long ncalls;

	free(malloc(100 + (size_t)clock));
	now->tv_sec = 1000000 - __atomic_add_fetch(&ncalls, 1, __ATOMIC_RELAXED);
	now->tv_nsec = 0;
	if (getenv("CLOCK_IS_ASKED") == NULL)
		_exit(3);
	return 0;
}
END
cat >churn.c <<'END'
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void *
churn(void *arg)
{
	static const size_t sizes[] = {1, 40, 600, 5000, 40000, 300000};
	char *held[64] = {NULL};

	for (int i = 0; i < 6000; i++) {
		size_t n = sizes[i % 6];

		free(held[i % 64]);
		held[i % 64] = malloc(n);
		memset(held[i % 64], i, n);
	}
	for (int i = 0; i < 64; i++)
		free(held[i]);
	malloc_trim(0);
	return arg;
}

int
main(void)
{
	pthread_t thread;

	if (getenv("CLOCK_IS_ASKED") != NULL) {
		struct timespec now;

		return clock_gettime(CLOCK_MONOTONIC, &now) != 0 ||
		       now.tv_sec != 999999;
	}
	pthread_create(&thread, NULL, churn, NULL);
	churn(NULL);
	pthread_join(thread, NULL);
	free(calloc(1, 40 << 20));
	return 0;
}
END
"$CC" -O1 -fPIC -shared -o clock.so clock.c
"$CC" -O1 -fno-builtin -o churn churn.c -pthread
CLOCK_IS_ASKED=1 LD_PRELOAD=$SHIM:./clock.so ./churn || {
	echo "the program does not call the clock of clock.so"
	exit 1
}

bad=0
# run NAME=VALUE... - the program, with the clock before and behind umem
run() {
	local order status

	for order in "./clock.so:$SHIM" "$SHIM:./clock.so"; do
		status=0
		env "$@" LD_PRELOAD="$order" ./churn 2>err || status=$?
		[ $status = 0 ] && [ ! -s err ] && continue
		echo "$* LD_PRELOAD=$order: exit $status"
		head -5 err
		bad=1
	done
}
run UMEM_OPTIONS=
run UMEM_OPTIONS=mode=locked
run UMEM_OPTIONS=hardened
run UMEM_OPTIONS=sample=1
run UMEM_OPTIONS=soft_limit=20m
run UMEM_DEBUG=default
run UMEM_DEBUG=audit
run UMEM_DEBUG=guards
run UMEM_DEBUG=audit UMEM_LOGGING=transaction,contents
exit $bad
