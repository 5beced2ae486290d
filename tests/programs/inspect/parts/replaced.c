/*
 * A program that calls execve() at SIGUSR1.  Without arguments it has 100 MiB
 * of blocks, and becomes "replaced START-END...": that fills each range of
 * addresses that the first program could write to, says so in the file
 * "replaced", and at the end of its input checks that no byte has changed.
 * With the argument "again" it becomes itself.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST 200
#define FILL 0x5a

static volatile sig_atomic_t is_asked;

static void
ask(int signal)
{
	(void)signal;
	is_asked = 1;
}

static void
say(void)
{
	fclose(fopen("replaced", "w"));
}

/* Writable ranges of less than 64 MiB, the variables of the library in them. */
static void
become_other(char **argv)
{
	char *words[MOST + 2] = {argv[0]}, line[512];
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	size_t n = 1;
	char bits[5];

	while (n <= MOST && fgets(line, sizeof(line), maps) != NULL)
		if (sscanf(line, "%lx-%lx %4s", &start, &end, bits) == 3 &&
		    bits[1] == 'w' && end - start < 64 << 20)
			asprintf(&words[n++], "%lx-%lx", start, end);
	unsetenv("LD_PRELOAD");
	execv(argv[0], words);
	exit(9);
}

static int
stay(int argc, char **argv)
{
	char *filled[MOST + 2] = {NULL};
	unsigned long start, end;
	size_t nfilled = 0;
	char c;

	for (int i = 1; i < argc; i++) {
		sscanf(argv[i], "%lx-%lx", &start, &end);
		/* A few are where this program has its own memory. */
		if (mmap((void *)start, end - start, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
			0) != (void *)start)
			continue;
		memset((void *)start, FILL, end - start);
		filled[i] = argv[i];
		nfilled++;
	}
	say();
	read(0, &c, 1);
	for (int i = 1; i < argc; i++) {
		if (filled[i] == NULL)
			continue;
		sscanf(filled[i], "%lx-%lx", &start, &end);
		for (; start < end; start++)
			if (*(char *)start != FILL) {
				printf("changed at %lx\n", start);
				return 1;
			}
	}
	return nfilled == 0;
}

int
main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = ask};
	sigset_t usr1, before;
	char c;

	if (argc > 1 && strchr(argv[1], '-') != NULL)
		return stay(argc, argv);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, &before);
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < 1600; i++)
		memset(malloc(65536), 1, 65536);
	if (getenv("BEGUN") != NULL) {
		say();
		return (int)read(0, &c, 1);
	}
	write(1, "ready\n", 6);
	sigdelset(&before, SIGUSR1);
	while (!is_asked)
		sigsuspend(&before);
	setenv("BEGUN", "yes", 1);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (argc == 1)
		become_other(argv);
	execv(argv[0], argv);
	return 9;
}
