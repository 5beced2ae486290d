/*
 * start.c - time and memory that an allocator adds to the start of a process
 *
 *	start.exec	from the spawn of /bin/true to its end: median of
 *			the wall clock, in us
 *	start.busy	mean of its processor time, in us
 *	start.memory	most resident memory of /bin/true, in KiB
 *
 * /bin/true inherits the preloaded allocator from the environment of this
 * program.  The program reads the resident memory of /bin/true by ptrace(2),
 * when that process is about to end.  The kernel's own sum would include the
 * copy of this program before the exec.
 *
 * Source: each command of a shell script is such a process.
 *
 * Usage: start [scale]
 */
#include <spawn.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/bench/bench.h"

#define NMOST 400

extern char **environ;

static char *const command[] = {(char *)"/bin/true", NULL};

static double
exec_once(void)
{
	double begin = bench_wall_ns();
	pid_t pid;
	int status;

	if (posix_spawn(&pid, command[0], NULL, NULL, command, environ) != 0 ||
	    waitpid(pid, &status, 0) != pid || status != 0)
		bench_die("/bin/true");
	return bench_wall_ns() - begin;
}

static double
children_cpu_ns(void)
{
	struct rusage used;

	getrusage(RUSAGE_CHILDREN, &used);
	return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e9 +
	       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e3;
}

static double
peak_kib(pid_t pid)
{
	char path[64], line[256];
	double kib = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "r");
	if (file == NULL)
		bench_die(path);
	while (fgets(line, sizeof(line), file) != NULL) {
		if (strncmp(line, "VmHWM:", 6) == 0)
			kib = strtod(line + 6, NULL);
	}
	fclose(file);
	return kib;
}

static double
memory_kib(void)
{
	pid_t pid = fork();
	double kib = 0;
	int status;

	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execv(command[0], command);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACEEXIT);
		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8))
			kib = peak_kib(pid);
		ptrace(PTRACE_CONT, pid, NULL, NULL);
	}
	return kib;
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv), wall[NMOST], cpu;
	size_t n = bench_count(NMOST, scale < 1 ? scale : 1);

	exec_once();
	cpu = children_cpu_ns();
	for (size_t i = 0; i < n; i++)
		wall[i] = exec_once();
	cpu = (children_cpu_ns() - cpu) / (double)n;
	bench_print(bench_median(wall, n) / 1e3, "us", "start.exec");
	bench_print(cpu / 1e3, "us", "start.busy");
	cpu = memory_kib();
	if (cpu > 0)
		bench_print(cpu, "KiB", "start.memory");
	return 0;
}
