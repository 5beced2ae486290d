#!/bin/bash
# On a machine with several memory nodes, free memory in the arena of a node is
# neither in use nor reachable.  A launcher answers the library's question for
# the nodes, because most machines have one.
#
# test not with: qemu has no seccomp filters
set -eu
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
cat >nodes.c <<'END'
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* get_mempolicy() waits for an answer from now on; returns their file. */
static int
listen_to_calls(void)
{
	struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_get_mempolicy, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog program = {.len = 4, .filter = code};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
	    SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

/* Tells the program that it may use nodes 0 and 1, and has no policy. */
static void
answer(int calls)
{
	struct seccomp_notif call = {0};
	struct seccomp_notif_resp reply = {0};
	unsigned long nodes = 3;
	int policy = 0;
	struct iovec from = {&nodes, sizeof(nodes)}, to = {0};

	if (ioctl(calls, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0)
		_exit(1);
	to.iov_base = (void *)call.data.args[1];
	if (call.data.args[4] == 0) {
		from = (struct iovec){&policy, sizeof(policy)};
		to.iov_base = (void *)call.data.args[0];
	}
	to.iov_len = from.iov_len;
	process_vm_writev(call.pid, &from, 1, &to, 1, 0);
	reply.id = call.id;
	if (ioctl(calls, SECCOMP_IOCTL_NOTIF_SEND, &reply) != 0)
		_exit(1);
}

int
main(int argc, char **argv)
{
	int calls = listen_to_calls();
	pid_t parent = getpid();

	if (calls < 0)
		return 77;
	/* The child has the filter, too, but does not ask. */
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(0);
		answer(calls);
		answer(calls);
		_exit(0);
	}
	close(calls);
	setenv("LD_PRELOAD", argv[1], 1);
	execv(argv[2], argv + 2);
	return 1;
}
END
cat >main.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "umem/umem.h"

enum {
	BYTES = 60000,
	N = 200
};

static void *volatile lost;

/* Blocks that all point to a block that is lost. */
__attribute__((noinline)) static void
fill(void **blocks)
{
	lost = malloc(333);
	for (int i = 0; i < N; i++) {
		void *volatile *words = malloc(BYTES);

		for (size_t j = 0; j < BYTES / sizeof(*words); j++)
			words[j] = lost;
		blocks[i] = (void *)words;
	}
	lost = NULL;
}

/* Frees them, except one in each huge page or so. */
__attribute__((noinline)) static void
use(void)
{
	static void *blocks[N];
	static char text[1 << 17];

	fill(blocks);
	for (int i = 0; i < N; i++) {
		if (i % 16 == 0)
			for (int j = 0; j < BYTES; j++)
				((volatile char *)blocks[i])[j] = 0;
		else
			free(blocks[i]);
		if (i % 16 != 0)
			blocks[i] = NULL;
	}
	umem_reap();
	umem_metrics(text, sizeof(text));
	fputs(text, stdout);
}

int
main(void)
{
	char c;

	setvbuf(stdout, NULL, _IONBF, 0);
	use();
	write(1, "ready\n", 6);
	return (int)read(0, &c, 1);
}
END
"$CC" -O1 -w -D_GNU_SOURCE -o nodes nodes.c
"$CC" -O1 -g -fno-builtin -w -I"$TOP" -o main main.c -L"$B" -lumem_malloc \
    -Wl,-rpath,"$B"
preload=$SHIM
./nodes "$preload" /bin/true || {
	echo "no filter can answer calls here"
	exit 77
}
SHIM='' start env UMEM_OPTIONS=thread=no ./nodes "$preload" ./main
"$umem" stat "$pid" >arenas
if ! grep -q umem_node_1 arenas; then
	finish 0
	echo "the library does not tell nodes apart here"
	exit 77
fi
"$umem" metrics "$pid" >said
for name in heap_bytes limited_bytes; do
	diff <(grep "^umem_$name " told) <(grep "^umem_$name " said)
done
[ "$(sed -n 's/^umem_dirty_bytes //p' said)" -gt 8000000 ]
"$umem" leaks "$pid" >lost && { cat lost; exit 1; }
grep -Eq '^ *[0-9]+ +100% +1 .* unknown: blocks of umem_alloc_' lost ||
    { cat lost; exit 1; }
finish 0
