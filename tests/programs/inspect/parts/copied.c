/*
 * copied.c - a program with much memory, which must not notice that umem looks
 * at it
 *
 *	copied MIB [single | confined]
 *
 * Keeps a list of blocks of 256 bytes, MIB in all, loses three blocks, and has
 * the only pointers to two others, and to objects of a cache, in memory that a
 * child of fork() shares or lacks.  A thread moves pointers from place to
 * place; with "single", the first thread does, and there is no other.
 * Prints "leak ADDRESS" for each block that is lost, then "ready".  Until its
 * standard input ends, it has no children to wait for, and a pipe that it
 * closes is closed.  "confined": a filter of system calls, which the library
 * does not know, ends the process if it makes another one.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/seccomp.h"
#include "umem/umem.h"
#include "vmem/vmem.h"

#define NPLACES 1000

struct node {
	struct node *next;
	char text[248];
};

static struct node *volatile list;
static void *volatile place[NPLACES];
/* Each pointer is in one half or the other, on a page of its own. */
static void *volatile wide[2][NPLACES][512];
static volatile int done;

__attribute__((noinline)) static void
lose(int n)
{
	while (n-- > 0) {
		void *p = memset(malloc(5000), 0x5a, 5000);

		printf("leak %lx\n", (unsigned long)p);
	}
}

static void
move_all(void)
{
	for (unsigned i = 0; i < NPLACES; i++) {
		unsigned j = (8 * i + 1) % NPLACES;
		void *p = place[i];

		if (p == NULL)
			p = malloc(100);
		place[i] = place[j];
		place[j] = p;
	}
	free(place[0]);
	place[0] = NULL;
}

/* Who reads both halves while this runs finds some pointers in neither. */
static void
move_wide(void)
{
	for (int to = 1; to >= 0; to--) {
		for (unsigned i = 0; i < NPLACES; i++)
			wide[to][i][0] = wide[!to][i][0];
		for (unsigned i = 0; i < NPLACES; i++)
			wide[!to][i][0] = NULL;
	}
}

static void *
move(void *arg)
{
	for (unsigned i = 0; i < NPLACES; i++)
		wide[0][i][0] = malloc(1000);
	while (!done) {
		move_all();
		move_wide();
	}
	return arg;
}

/* Some of the calls are slow paths of the library. */
static void
fill_and_free(void)
{
	for (unsigned i = 0; i < NPLACES; i++)
		place[i] = malloc(3000);
	for (unsigned i = 0; i < NPLACES; i++) {
		free(place[i]);
		place[i] = NULL;
	}
}

/* Ends the process for a clone() of a copy, by any thread. */
static void
confine(void)
{
	struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					 offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4),
	    BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
	    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, CLONE_THREAD),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog program = {.len = 7, .filter = code};

	/* By system calls: the library does not see them. */
	check(syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	check(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		  SECCOMP_FILTER_FLAG_TSYNC, &program) == 0);
}

/* A copy of the process that has descriptors of its own keeps the pipe open. */
static void
check_pipe(void)
{
	int end[2];
	char c;

	check(pipe2(end, O_NONBLOCK) == 0);
	usleep(1000);
	close(end[1]);
	check(read(end[0], &c, 1) == 0);
	close(end[0]);
}

/* The memory of the objects is outside the heap. */
__attribute__((noinline)) static void
keep_objects(void **kept[2])
{
	size_t bytes = 1 << 20;
	vmem_t *source = vmem_create("mapped",
	    mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
	    bytes, 65536, NULL, NULL, NULL, 0, VM_NOSLEEP);
	umem_cache_t *cache = umem_cache_create(
	    "sourced", 500, 0, NULL, NULL, NULL, NULL, source, 0);

	/* A stack may keep one by chance. */
	for (int i = 0; i < 100; i++)
		kept[i % 2][200 + i] = umem_cache_alloc(cache, UMEM_NOFAIL);
}

int
main(int argc, char **argv)
{
	size_t n = ((size_t)atoi(argv[1]) << 20) / sizeof(struct node);
	struct pollfd input = {.events = POLLIN};
	void **kept[2];
	const char *mode = argc > 2 ? argv[2] : "";
	bool is_single = strcmp(mode, "single") == 0;
	pthread_t thread;

	/* First, so that no register keeps a pointer to them. */
	lose(3);
	free(malloc(5000));
	while (n-- > 0) {
		struct node *node = malloc(sizeof(*node));

		memset(node->text, 0x41, sizeof(node->text));
		node->next = list;
		list = node;
	}
	for (int i = 0; i < 2; i++)
		kept[i] = mmap(NULL, 65536, PROT_READ | PROT_WRITE,
		    MAP_ANONYMOUS | (i == 0 ? MAP_SHARED : MAP_PRIVATE), -1, 0);
	check(madvise(kept[1], 65536, MADV_DONTFORK) == 0);
	for (int i = 0; i < 2; i++)
		kept[i][100] = malloc(3000);
	keep_objects(kept);
	if (!is_single)
		check(pthread_create(&thread, NULL, move, NULL) == 0);
	if (strcmp(mode, "confined") == 0)
		confine();
	puts("ready");
	fflush(stdout);
	while (poll(&input, 1, 0) == 0) {
		check(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
		check_pipe();
		if (is_single)
			fill_and_free();
	}
	done = 1;
	if (!is_single)
		pthread_join(thread, NULL);
	return kept[0][100] == NULL || kept[1][100] == NULL;
}
