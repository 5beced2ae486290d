/*
 * doctor.c - umem doctor: settings of this machine, and of a process, that cost
 * memory or time
 *
 * A check prints a line if its setting costs nothing, and else also the command
 * that changes it.
 */
#include <sys/auxv.h>
#include <sys/mman.h>
#include <string.h>
#include <unistd.h>

#include "tools/inspect/base/clock.h"
#include "tools/inspect/base/memory.h"
#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "tools/inspect/model/options.h"
#include "tools/inspect/target/target.h"

/* Older headers lack it. */
#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif

/* struct rseq has mm_cid from Linux 6.3 on. */
#define FEATURES_WITH_MM_CID 28

#define HUGE_PAGES "/sys/kernel/mm/transparent_hugepage/enabled"

/* Bytes to touch, for the time of a page. */
#define TOUCHED (8 * MIB)

static size_t nfindings;

/* Reports a setting; advice is NULL if it costs nothing. */
static void
report(const char *name, const char *state, const char *advice)
{
	nfindings += advice != NULL;
	json_open(NULL, '{');
	json_text("setting", name);
	json_text("state", state);
	json_text("advice", advice != NULL ? advice : "");
	json_close();
	plain_print(
	    "%-4s %-14s %s\n", advice != NULL ? "cost" : "ok", name, state);
	if (advice != NULL)
		plain_print("%20s%s\n", "", advice);
}

/* Returns the us that the first touch of 4 KiB takes. */
static double
touch_us(int advice)
{
	char *at = mmap(NULL, 2 * TOUCHED, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *start;
	double begin;

	if (at == MAP_FAILED)
		return 0;
	start = at + (-(uintptr_t)at & (2 * MIB - 1));
	madvise(at, 2 * TOUCHED, advice);
	begin = seconds_now();
	for (size_t byte = 0; byte < TOUCHED; byte += 4 * KIB)
		start[byte] = 1;
	begin = seconds_now() - begin;
	munmap(at, 2 * TOUCHED);
	return 1e6 * begin * (4 * KIB) / TOUCHED;
}

static void
check_pages(void)
{
	double small = touch_us(MADV_NOHUGEPAGE);
	double huge = touch_us(MADV_HUGEPAGE);
	FILE *file = fopen(HUGE_PAGES, "re");
	char word[64] = "none"; /* the chosen one, in brackets */

	/* There is no other word before the first one. */
	if (file != NULL && fscanf(file, "%*[^[]") == 0)
		(void)!fscanf(file, "[%63[^]]", word);
	if (file != NULL)
		fclose(file);
	report("huge pages",
	    xprint("%s; 4 KiB take %.2f us, in huge pages %.2f us", word, small,
		huge),
	    strcmp(word, "never") == 0 ? "echo madvise >" HUGE_PAGES
	    : huge > small
		? "UMEM_OPTIONS=huge_pages=no  (they are slower here)"
		: NULL);
}

static void
check_kernel(void)
{
	uint64_t overcommit = 0, scope = 0;
	bool has_cid = getauxval(AT_RSEQ_FEATURE_SIZE) >= FEATURES_WITH_MM_CID;

	file_number("/proc/sys/vm/overcommit_memory", "", &overcommit);
	report("overcommit", xprint("%lu", overcommit),
	    overcommit == 2
		? "sysctl vm.overcommit_memory=0  (2 counts untouched memory)"
		: NULL);
	file_number("/proc/sys/kernel/yama/ptrace_scope", "", &scope);
	report("ptrace_scope", xprint("%lu", scope),
	    scope != 0 && geteuid() != 0
		? "sudo umem ..., or sysctl kernel.yama.ptrace_scope=0"
		: NULL);
	report("mm_cid", has_cid ? "yes" : "no",
	    has_cid ? NULL
		    : "Linux 6.3 or later: free blocks of fewer CPUs are kept");
}

/*
 * Compares a limit of the heap with the memory that the process may have.
 * Without a control group that limits it, it needs none.
 */
static void
check_limit(
    const struct target_options *options, const char *name, const char *advice)
{
	const struct target_option *option = options_find(options, name);
	uint64_t limit = option != NULL ? option->value : 0, all = 0;
	uint64_t memory = memory_limit_of(options->target->pid);

	file_number("/proc/meminfo", "MemTotal", &all);
	report(name,
	    xprint("%s; the process may have %s",
		limit == 0 ? "none" : size_text(limit), size_text(memory)),
	    (limit != 0 && limit < memory) || memory >= all * KIB ? NULL
								  : advice);
}

static void
check_process(struct target *target, struct layout *layout)
{
	struct target_options options = options_read(target, layout);
	uint64_t owner = 0, seccomp = 0, most = 65530;
	size_t nmaps;
	bool is_locked;

	layout_peek(layout, target, layout_value(layout, L_CPU_LAYER),
	    L_LAYER_OWNER, &owner);
	is_locked = owner == layout_value(layout, L_RSEQ_NONE);
	file_number(proc_path(target->pid, "status"), "Seccomp", &seccomp);
	report("magazines",
	    is_locked ? "locked: no restartable sequences" : "rseq",
	    !is_locked     ? NULL
	    : seccomp != 0 ? "permit rseq(2) and membarrier(2) in the filter"
			   : "no mode=locked, valgrind, glibc.pthread.rseq=0");
	file_number("/proc/sys/vm/max_map_count", "", &most);
	target_files(target, &nmaps);
	report("mappings", xprint("%zu of %lu", nmaps, most),
	    nmaps > most / 2 ? "sysctl vm.max_map_count=1048576" : NULL);
	check_limit(&options, "soft_limit",
	    "UMEM_OPTIONS=soft_limit=80%  (releases memory in time)");
	check_limit(&options, "hard_limit",
	    "UMEM_OPTIONS=hard_limit=90%  (malloc fails, nothing is killed)");
}

int
command_doctor(int argc, char **argv)
{
	const char *pid = *options_take(argc, argv, NULL, 0, 0, 1);
	struct target *target = NULL;
	struct layout *layout = NULL;

	if (pid != NULL) {
		target = target_open_process(pid);
		layout = layout_find_ready(target);
	}
	json_open(NULL, '[');
	if (target != NULL)
		check_process(target, layout);
	check_pages();
	check_kernel();
	json_close();
	return nfindings != 0 ? EXIT_FOUND : EXIT_OK;
}
