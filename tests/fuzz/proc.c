/*
 * proc.c - files of /proc/PID
 *
 * The first byte of the input selects the file that has the rest as its text.
 * The kernel writes these files, but processes choose some of the names in
 * them.
 *
 * test link: command
 */
#include "tests/fuzz/command.h"
#include "tools/inspect/base/memory.h"
#include "tools/inspect/symbols/jit.h"
#include "tools/inspect/symbols/program.h"
#include "tools/inspect/target/place.h"

static const char *const names[] = {"/maps", "/cgroup", "/status", "/stat",
    "/comm", "/cmdline", "/timers", "/memory.max", "/memory.stat"};

#define NNAMES (sizeof(names) / sizeof(names[0]))

static struct command_file served;

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	command_init();
	return 0;
}

/* A name is one line. */
static void
check_name(const char *name)
{
	if (name == NULL)
		return;
	check_plain(name, strlen(name));
	fuzz_check(strchr(name, '\n') == NULL);
}

static void
check_mappings(struct target *target)
{
	live_read_maps(target);
	for (size_t i = 0; i < target->nmaps; i++) {
		struct mapping *m = &target->maps[i];

		check_name(m->name);
		fuzz_check(m->file || m->path == NULL);
		target_mapping(target, m->start);
		target_mapped(target, m->start, 1 << 20);
	}
}

static int
read_all(void *arg)
{
	struct target target = {.name = "1",
	    .pid = getpid(),
	    .reader = getpid(),
	    .live = true,
	    .held = true,
	    .borrowed = true,
	    .page_bytes = 4096};
	struct place place;
	const char *limit = NULL;

	(void)arg;
	check_mappings(&target);
	check_name(program_name(&target));
	check_name(jit_advice(&target, /* has_nameless */ true));
	place = place_read(&target);
	check_name(place.unit);
	check_name(place.container);
	memory_limit_of(target.pid);
	memory_is_left_to(target.pid, UINT64_MAX, &limit);
	check_name(limit);
	live_status(target.pid, "Threads");
	live_is_same_program(&target);
	target_read_kernel_references(&target);
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (n == 0)
		return 0;
	served =
	    (struct command_file){names[data[0] % NNAMES], data + 1, n - 1};
	command.served = &served;
	command.nserved = 1;
	command_call(read_all, NULL);
	command_reset();
	return 0;
}
