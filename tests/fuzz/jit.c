/*
 * jit.c - lists of code that was generated at run time, /tmp/perf-PID.map
 *
 * The input is the list of this process.
 *
 * test link: command
 */
#include "tests/fuzz/command.h"
#include "tools/inspect/symbols/frames.h"
#include "tools/inspect/symbols/jit.h"
#include "tools/inspect/symbols/symbols.h"

static char path[64];

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	command_init();
	return 0;
}

/* Asks for the functions at some addresses. */
static int
look_up(void *arg)
{
	struct target target = {
	    .name = "1", .pid = getpid(), .reader = getpid(), .live = true};
	struct jit *jit = jit_open(&target);
	uint64_t offset;

	(void)arg;
	for (uint64_t pc = 0; pc < 0x400; pc += 0x40) {
		const char *name = jit_function(jit, pc, &offset);

		if (name == NULL)
			continue;
		check_plain(name, strlen(name));
		fuzz_check(strchr(name, '\n') == NULL);
		frames_kinds(SYMBOL_JIT, name);
		check_plain(jit_plain(name), strlen(jit_plain(name)));
	}
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	fuzz_check(fd >= 0 && write(fd, data, n) == (ssize_t)n);
	close(fd);
	command_call(look_up, NULL);
	command_reset();
	unlink(path);
	return 0;
}
