/* target.h - the inspected process or core file; see target.c */
#ifndef TOOLS_TARGET_H
#define TOOLS_TARGET_H

#include "tools/inspect/target/pack.h"

struct mapping {
	uint64_t start;
	uint64_t end;
	uint64_t offset; /* in the file */
	bool read;
	bool write;
	bool execute;
	bool shared;
	bool file;        /* it maps a file */
	uint64_t inode;   /* of the file, of a live target */
	const char *path; /* of the file, as in /proc/PID/maps; or NULL */
	const char *name; /* the same by plain_text(), or "[heap]"; not NULL */
};

struct thread {
	int tid;
	uint64_t *words; /* all registers, as words */
	size_t nwords;
	uint64_t sp;
	uint64_t pc;
	uint64_t tp; /* thread pointer */
	/* Bits of a return address that pointer authentication may set. */
	uint64_t signature;
	bool stopped; /* it is stopped, so the registers are current */
	int signal;   /* to be delivered when it continues; 0: none */
};

/* A reference to user data that the kernel holds for the target. */
struct kernel_reference {
	uint64_t word;
	const char *what; /* "the kernel, for ..." */
};

/* Which program a process runs: execve() changes it. */
struct identity {
	uint64_t start;  /* of the process, in ticks of the kernel */
	uint64_t device; /* of the executable */
	uint64_t inode;
	uint64_t random[2]; /* the bytes that execve() puts on the stack */
};

/* Memory of the target that this command holds: a copy, or packed pages. */
struct region {
	uint64_t at;
	uint64_t bytes;
	const char *local; /* NULL: packed */
	char **pages;      /* packed: one for each PACK_BYTES from at on */
	bool in_lines;     /* to be read by lines; see target_lines.c */
	bool ours;         /* to be unmapped */
};

struct modules;
struct program;
struct symbols;

struct target {
	const char *name; /* as given */
	int pid;
	int reader; /* a live thread of it: the first may have ended */
	struct identity identity;
	int memory; /* a file: see live_open_memory(); -1: none */
	bool live;
	bool held;           /* live, and this command stopped its threads */
	bool borrowed;       /* the caller stops and resumes its threads */
	struct target *made; /* a copy that does not run, or NULL */
	bool reads_made;     /* memory is read from it, ... */
	bool was_copied;     /* ... or was */
	bool reads_lines;    /* ... by lines, instead of packing it */
	struct mapping *maps;
	size_t nmaps, maps_capacity;
	uint64_t scan_left;    /* bytes; see target_scan() */
	struct mapping *files; /* of a core; also those without memory in it */
	size_t nfiles;
	struct modules *modules; /* modules.c */
	struct symbols *symbols; /* symbols.c */
	struct program *program; /* program.c */
	struct thread *threads;
	size_t nthreads, threads_capacity;
	struct kernel_reference *kernel_references;
	size_t nkernel_references, kernel_references_capacity;
	struct region *regions; /* by address */
	size_t nregions, regions_capacity;
	size_t last; /* index of the region found last */
	uint64_t page_bytes;
	char *file; /* of a core, mapped */
	size_t file_bytes;
	bool truncated;            /* the core lacks memory that it had */
	const char *command;       /* of a core: the program's words, or "" */
	const char *comm;          /* of a core: its recorded name, or "" */
	int signal;                /* of a core; 0: none */
	int signal_code;           /* si_code */
	uint64_t fault_address;    /* si_addr, if the signal has one */
	struct pack_filter filter; /* of target_pack() */
	double stopped_at;
	double pause; /* the longest stop, in seconds */
};

/*
 * Opens a process by its number or a core file by its path.  If that is not
 * possible, ends the command with a message and EXIT_ERROR.
 */
struct target *target_open(const char *name);

/* Opens a process, also if there is a file with its number as name. */
struct target *target_open_process(const char *name);

/* Opens a child process; the caller has stopped its threads. */
struct target *target_of_child(int pid);

/* Tells target_hold() to read this while the target is stopped. */
enum hold {
	HOLD_ONLY,     /* nothing */
	HOLD_STACKS,   /* general registers, and the mappings */
	HOLD_REGISTERS /* all registers, and the mappings */
};

/*
 * Stops every thread of a live target.  The threads continue at
 * target_release(), or when this process ends for any reason.  Does nothing for
 * a core.
 */
void target_hold(struct target *target, enum hold what);
void target_release(struct target *target);

/*
 * How the library makes a copy of its process; see umem/upkeep/snapshot.c.  The
 * words are those of the target.
 */
struct copy_request {
	uint64_t state_at;
	uint64_t thread_at;
	uint64_t sleeps_on; /* futex word of the upkeep thread; 0: no thread */
	uint64_t waking_at;
	uint32_t none, asked, ready, go;
};

/*
 * Asks the upkeep thread of a target that is not held for a copy, and waits a
 * moment until it is ready.  Returns false if there is no such thread, or if it
 * does not become ready.
 */
bool target_ask_copy(struct target *target, const struct copy_request *request);

/*
 * Makes the copy, in a target that is held and was asked.  Returns false if
 * that was not possible.
 */
bool target_make_copy(
    struct target *target, const struct copy_request *request);

/*
 * Is mapping i missing in the copy or, if that counts, shared with it?  Then
 * the caller must read it while the target is held.
 */
bool target_copy_lacks(const struct target *target, size_t i, bool or_shared);

/* From now on, memory is read from the copy; the target may be released. */
void target_use_copy(struct target *target);

/*
 * From now on, target_pack() copies nothing: target_words() and target_view()
 * read the copy, or a target that is not copied, when they are called, until
 * target_end_copy().  present: the bytes that the target has in memory.
 */
void target_use_lines(struct target *target, uint64_t present);

/* Returns the memory that this command needs for that. */
uint64_t target_lines_bytes(uint64_t present);

/*
 * Ends the command, and so the copy, if the process has little memory left.
 * Called often, it looks at intervals only.
 */
void target_check_copy(const struct target *target);

/* Ends the copy, if there is one. */
void target_end_copy(struct target *target);

/* Does the memory of the target stay as it is? */
static inline bool
target_is_still(const struct target *target)
{
	return !target->live || target->held || target->reads_made;
}

/* Reads one stopped thread into a new element of target->threads. */
void target_read_thread(struct target *target, int tid);
void target_read_kernel_references(struct target *target);

/*
 * Makes target_at() work for [at, at + bytes): copies the present part of that
 * memory; the rest reads as zeros.  sparse: asks the kernel for the present
 * pages, and copies at target_copy_end().  The caller must not read the copy
 * before that.
 */
bool target_copy(
    struct target *target, uint64_t at, uint64_t bytes, bool sparse);
void target_copy_end(struct target *target);

/*
 * Copies as a sparse target_copy(), but keeps only the words that match
 * target->filter.  target_words() finds these words; target_at() and
 * target_run() find nothing there.
 */
bool target_pack(struct target *target, uint64_t at, uint64_t bytes);

/*
 * Estimates, before a target is held: the bytes of [at, at + bytes) that are in
 * memory or swapped out, and the bytes that target_pack() would need for them,
 * extrapolated from a few pages.
 */
struct target_size {
	uint64_t present;
	uint64_t looked_at;
	uint64_t packed; /* packed bytes for looked_at */
};
void target_measure(struct target *target, uint64_t at, uint64_t bytes,
    struct target_size *size);

/* Frees all copies. */
void target_forget(struct target *target);

/*
 * Returns the first words of [*at, end) that this command holds, copied or
 * packed.  Sets *n to the number of consecutive words and *at to their address
 * in the target.  A packed word that was not kept reads as 0.  The words stay
 * valid until the next call.  Returns NULL if there are none.
 */
const uint64_t *target_words(
    struct target *target, uint64_t *at, uint64_t end, size_t *n);

/* Returns the copy of target memory, valid until target_forget(), or NULL. */
const void *target_at(struct target *target, uint64_t at, uint64_t bytes);

/* Copies memory of a live target unless it is copied, and returns it. */
const void *target_fetch(struct target *target, uint64_t at, uint64_t bytes);

/*
 * Returns target memory, like target_at(), or reads it by lines, without which
 * it reads as zeros.  Valid until the next call.
 */
const void *target_view(struct target *target, uint64_t at, uint64_t bytes);

/*
 * Returns a copy of n words of the target, like target_at().  In a damaged
 * target their address may be unaligned; then it returns NULL.
 */
const uint64_t *target_array(struct target *target, uint64_t at, uint64_t n);

/* Returns the number of bytes from at on in the copy that has at; 0: none. */
uint64_t target_run(struct target *target, uint64_t at);

/* Reads from the copies, or else from the process in its present state. */
bool target_peek(struct target *target, uint64_t at, void *to, size_t bytes);

/* Returns how many of these bytes are mapped before the first gap. */
uint64_t target_mapped(struct target *target, uint64_t at, uint64_t bytes);

const struct mapping *target_mapping(struct target *target, uint64_t at);

/* Can the target execute the byte at this address? */
bool target_is_code(struct target *target, uint64_t at);

/*
 * Returns mappings by address, those of files among them, and sets *n to their
 * number.
 */
const struct mapping *target_files(const struct target *target, size_t *n);

/* Returns the mapping of a file that has the address, or NULL. */
const struct mapping *target_file_at(const struct target *target, uint64_t at);

/* The directory of --sysroot, or "". */
extern const char *target_sysroot;

/* For target_*.c. */
/*
 * Returns the memory at at in a line, and its bytes up to the end of the line,
 * or NULL if the copy has ended.  It is valid until the next call.
 */
const char *target_line(struct target *target, uint64_t at, uint64_t *bytes);
void target_add_region(struct target *target, struct region region);
/* Reads a number of /proc/PID/status; -1: there is none. */
long live_status(int pid, const char *key);
_Noreturn void live_fail_gone(struct target *target);
_Noreturn void live_fail_permission(struct target *target);
void live_open(struct target *target);
void live_hold(struct target *target, enum hold what);
void live_release(struct target *target);
/* Does the process run the program that it ran at live_open()? */
bool live_is_same_program(struct target *target);
/*
 * Opens the memory of the process, or of a copy, once.  The file mem stays that
 * of the program that runs when it is opened: if a thread that does not stop is
 * in execve(), a write later fails instead of reaching the next program.
 */
void live_open_memory(struct target *target);
/* Returns a thread by which the kernel finds the memory of the process. */
int live_reader(const struct target *target);
bool live_copy(
    struct target *target, uint64_t at, uint64_t bytes, char *to, bool sparse);
void live_pack(
    struct target *target, uint64_t at, uint64_t bytes, char **pages);
void live_add_lines(struct target *target, uint64_t at, uint64_t bytes);
void live_measure(struct target *target, uint64_t at, uint64_t bytes,
    struct target_size *size);
bool live_peek(struct target *target, uint64_t at, void *to, size_t bytes);
bool live_read(struct target *target, uint64_t at, uint64_t bytes, char *to);
/*
 * Reads memory that may be read, a page that cannot be read as zeros.  Sets
 * *any if some of it could be read.  Returns 0, or the error (ESRCH, EPERM)
 * after which nothing can be read.  Several threads may call it.
 */
int live_read_present(const struct target *target, uint64_t at, uint64_t bytes,
    char *to, bool *any);
/* Writes to a target that is held. */
bool live_poke(
    struct target *target, uint64_t at, const void *from, size_t bytes);
/*
 * Returns the length of the first run of [at, at + bytes) that may be read
 * (*is_touched), or that is zeros and must not be read (target_touched.c).
 */
uint64_t live_touched_run(
    struct target *target, uint64_t at, uint64_t bytes, bool *is_touched);
/*
 * Reads n words of /proc/PID/pagemap, which stays open: a process with many
 * threads has thousands of ranges.  Returns false if the kernel hides them.
 */
bool live_pagemap(
    const struct target *target, uint64_t page, uint64_t *words, size_t n);
/*
 * Returns the bytes of [at, at + bytes), in whole pages, that were only read:
 * they are the kernel's page of zeros.  A kernel before 6.7 does not tell.
 */
uint64_t live_zero_pages(
    const struct target *target, uint64_t at, uint64_t bytes);
/* Is the page of this word of /proc/PID/pagemap present or swapped out? */
static inline bool
pagemap_is_there(uint64_t word)
{
	return word >> 62 != 0;
}
void live_read_maps(struct target *target);
/* Parses a line of /proc/PID/maps; returns false if it is none. */
bool live_parse_mapping(const char *line, struct mapping *m);
/* Reads the general registers of a stopped thread, or all. */
void live_read_thread(struct thread *thread, bool all);

void core_open(struct target *target);

/*
 * target_scan() adds to a count of addresses: the command looks for their
 * pages.  It ends the command if there are too many.  The count begins anew
 * when the mappings are read, and by target_scan_anew().
 */
void target_scan_anew(struct target *target);
void target_scan(struct target *target, uint64_t bytes);

/*
 * Returns the thread whose stack pointer is in the mapping, or 0.  The target
 * was stopped, or is a core.
 */
int target_stack_of(const struct target *target, const struct mapping *m);

/* Returns the bytes that the target has in memory or swapped out. */
uint64_t target_resident(const struct target *target);

/* Indices of the required registers in the words of NT_PRSTATUS. */
#if defined(__x86_64__)
#define REGISTER_SP    19
#define REGISTER_PC    16
#define REGISTER_TP    21
#define RED_ZONE       128
#define OUR_MACHINE    EM_X86_64
/* The register set of whole vector registers, in a process and in a core. */
#define REGISTERS_WIDE NT_X86_XSTATE
/* The list of robust mutexes in libc's descriptor of a thread. */
#define THREAD_ROBUST  736
/* The general registers by their index, and in the order of DWARF. */
#define REGISTER_NAMES                                                         \
	{[0] = "r15",                                                          \
	    [1] = "r14",                                                       \
	    [2] = "r13",                                                       \
	    [3] = "r12",                                                       \
	    [4] = "rbp",                                                       \
	    [5] = "rbx",                                                       \
	    [6] = "r11",                                                       \
	    [7] = "r10",                                                       \
	    [8] = "r9",                                                        \
	    [9] = "r8",                                                        \
	    [10] = "rax",                                                      \
	    [11] = "rcx",                                                      \
	    [12] = "rdx",                                                      \
	    [13] = "rsi",                                                      \
	    [14] = "rdi"}
#define REGISTER_DWARF                                                         \
	{10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16}
#elif defined(__aarch64__)
#define REGISTER_SP    31
#define REGISTER_PC    32
#define REGISTER_LINK  30 /* the return address of the last call */
#define RED_ZONE       0
#define OUR_MACHINE    EM_AARCH64
#define REGISTERS_WIDE NT_ARM_SVE
#define THREAD_ROBUST  224
#define REGISTER_NAMES                                                         \
	{"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10",    \
	    "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19",     \
	    "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28"}
#define REGISTER_DWARF                                                         \
	{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, \
	    20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31}
#endif

#endif
