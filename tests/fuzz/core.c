/*
 * core.c - commands that read a core, with damaged cores
 *
 * The Makefile has make_core.py write cores of small.c to the folder cores
 * beside this program.  An input that begins as an ELF file does is a core
 * itself.  Any other selects one of the cores (1 byte) and a command (1 byte),
 * and damages the core: each piece of damage is the number of a word (3 bytes),
 * a kind (1 byte) and a value (up to 8 bytes).  The words are those of the
 * headers, the notes, the library's description of itself, and memory that may
 * be written to; only such memory as is not 0.
 *
 * test link: command
 */
#include "tests/fuzz/cores.h"

/* At most so many pieces of damage are in an input. */
#define DAMAGES_MAX 16

static struct core whole;

static const struct {
	const char *words[4]; /* "CORE" and "ADDRESS" are replaced */
	enum output output;
} commands[] = {
    {{"status", "CORE"}, OUTPUT_TEXT},
    {{"status", "--json", "CORE"}, OUTPUT_JSON},
    {{"stat", "CORE"}, OUTPUT_TEXT},
    {{"stat", "--json", "CORE"}, OUTPUT_JSON},
    {{"leaks", "-dev", "CORE"}, OUTPUT_TEXT},
    {{"leaks", "--json", "CORE"}, OUTPUT_JSON},
    {{"leaks", "--folded", "CORE"}, OUTPUT_TEXT},
    {{"users", "-de", "CORE"}, OUTPUT_TEXT},
    {{"users", "--json", "CORE"}, OUTPUT_JSON},
    {{"users", "--html", "CORE"}, OUTPUT_BYTES},
    {{"users", "--allocated", "CORE"}, OUTPUT_TEXT},
    {{"users", "--allocated", "--json", "CORE"}, OUTPUT_JSON},
    {{"users", "--temporary", "--json", "CORE"}, OUTPUT_JSON},
    {{"users", "--peak", "CORE"}, OUTPUT_TEXT},
    {{"users", "--pprof", "CORE"}, OUTPUT_BYTES},
    {{"verify", "CORE"}, OUTPUT_TEXT},
    {{"verify", "--json", "CORE"}, OUTPUT_JSON},
    {{"crash", "CORE"}, OUTPUT_TEXT},
    {{"crash", "--json", "CORE"}, OUTPUT_JSON},
    {{"log", "-v", "CORE"}, OUTPUT_TEXT},
    {{"log", "--json", "CORE"}, OUTPUT_JSON},
    {{"log", "-vltransaction", "CORE"}, OUTPUT_TEXT},
    {{"walk", "CORE", "allocated"}, OUTPUT_TEXT},
    {{"walk", "--json", "CORE", "free"}, OUTPUT_JSON},
    {{"walk", "CORE", "leak"}, OUTPUT_TEXT},
    {{"metrics", "CORE"}, OUTPUT_TEXT},
    {{"whatis", "-a", "CORE", "ADDRESS"}, OUTPUT_TEXT},
    {{"whatis", "--json", "CORE", "ADDRESS"}, OUTPUT_JSON},
    {{"grep", "CORE", "ADDRESS"}, OUTPUT_TEXT},
};

#define NCOMMANDS (sizeof(commands) / sizeof(commands[0]))

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	read_cores((*argv)[0]);
	whole.fd = memfd_create("whole", MFD_CLOEXEC);
	command_init();
	return 0;
}

/* Another value of a word, which has this value. */
static uint64_t
damaged(const struct core *core, struct input *input, uint64_t word)
{
	switch (take(input, 1) % 6) {
	case 0:
		return take(input, 8);
	case 1:
		return word + (uint64_t)(int8_t)take(input, 1);
	case 2:
		return word + ((uint64_t)(int8_t)take(input, 1) << 12);
	case 3:
		return word ^ (uint64_t)1 << take(input, 1) % 64;
	case 4:
		return take(input, 1);
	default:
		return core_word(
		    core, core->words[take(input, 3) % core->nwords]);
	}
}

static void
look(const struct core *core, unsigned number, uint64_t address)
{
	char name[CORE_NAME_BYTES], text[32],
	    sysroot[] = "--sysroot=/proc/none", umem[] = "umem";
	char *argv[8] = {umem};
	unsigned n = 1;

	core_name(core, name);
	snprintf(text, sizeof(text), "%lx", address);
	for (unsigned i = 0; i < 4 && commands[number].words[i] != NULL; i++) {
		const char *word = commands[number].words[i];

		if (i == 1)
			argv[n++] = sysroot;
		argv[n++] = strcmp(word, "CORE") == 0 ? name
			    : strcmp(word, "ADDRESS") == 0
				? text
				: (char *)(uintptr_t)word;
	}
	core_map(core);
	command_try(argv, commands[number].output);
}

static int
look_at_whole(const uint8_t *data, size_t n)
{
	fuzz_check(ftruncate(whole.fd, 0) == 0);
	fuzz_check(pwrite(whole.fd, data, n, 0) == (ssize_t)n);
	whole.bytes = malloc(n);
	memcpy(whole.bytes, data, n);
	whole.n = n;
	for (unsigned i = 0; i < NCOMMANDS; i++)
		look(&whole, i, 0x5500);
	free(whole.bytes);
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct input input = {data, data + n};
	struct {
		size_t at;
		uint64_t was;
	} done[DAMAGES_MAX];
	struct core *core;
	unsigned number, ndone = 0;
	uint64_t address = 0x5500;

	if (n >= 4 && memcmp(data, ELFMAG, SELFMAG) == 0)
		return look_at_whole(data, n);
	core = &cores[take(&input, 1) % NCORES];
	number = (unsigned)take(&input, 1) % NCOMMANDS;
	while (!is_over(&input) && ndone < DAMAGES_MAX) {
		size_t at = core->words[take(&input, 3) % core->nwords];
		uint64_t was = core_word(core, at);

		done[ndone].at = at;
		done[ndone++].was = was;
		core_set_word(core, at, damaged(core, &input, was));
		/* Thousands of words have a value that is no address. */
		if (was >> 16 != 0 && was >> 48 == 0)
			address = was;
	}
	look(core, number, address);
	while (ndone-- > 0)
		core_set_word(core, done[ndone].at, done[ndone].was);
	return 0;
}
