/* target.h - the process or core file that is looked at; see target.c */
#ifndef TOOLS_TARGET_H
#define TOOLS_TARGET_H

#include "tools/pack.h"

struct mapping {
	uint64_t start;
	uint64_t end;
	uint64_t offset; /* in the file */
	bool read;
	bool write;
	bool execute;
	bool shared;
	bool file;        /* something of a file lies there */
	const char *name; /* by plain_text(), as in /proc/PID/maps; not NULL */
};

struct thread {
	int tid;
	uint64_t *words; /* all registers, as words */
	size_t nwords;
	uint64_t sp;
	uint64_t pc;
	uint64_t tp;  /* thread pointer */
	bool stopped; /* the registers are those of this moment */
};

/* A word that the kernel keeps for the target. */
struct kept {
	uint64_t word;
	const char *what; /* "the kernel, for ..." */
};

/* Memory of the target that we hold: a copy, or packed pages. */
struct region {
	uint64_t at;
	uint64_t bytes;
	const char *local; /* NULL: packed */
	char **pages;      /* packed: one for each PACK_BYTES from at on */
	bool ours;         /* to be unmapped */
};

struct target {
	const char *name; /* as given */
	int pid;
	int reader; /* a thread of it that runs: the first may have ended */
	bool live;
	bool held;     /* a live one whose threads are stopped by us */
	bool borrowed; /* the caller stops its threads, and lets them go */
	struct mapping *maps;
	size_t nmaps;
	struct thread *threads;
	size_t nthreads, threads_room;
	struct kept *kept;
	size_t nkept, kept_room;
	struct region *regions; /* by address */
	size_t nregions, regions_room;
	size_t last;          /* region found last */
	struct region *ready; /* memory for copies, touched before */
	size_t nready, ready_room;
	char *file; /* of a core, mapped */
	size_t file_bytes;
	struct pack_filter filter; /* of target_pack() */
	double stopped_at, pause;  /* seconds */
};

/*
 * A process by its number or a core file by its path.  What cannot be had
 * ends the command with a message and EXIT_BLIND.
 */
struct target *target_open(const char *name);

/* A process that is our child and whose threads the caller has stopped. */
struct target *target_of_child(int pid);

/*
 * A live one: stops every thread, reads their registers and the mappings.
 * The threads go on at target_release(), or when this process ends for
 * whatever reason.  A core: nothing.
 */
void target_hold(struct target *target);
void target_release(struct target *target);

/* Of one thread that is stopped, into a new element of target->threads. */
void target_read_thread(struct target *target, int tid);
void target_read_maps(struct target *target);
void target_read_kept(struct target *target);

/*
 * Makes target_at() work for [at, at + bytes): copies that memory, or what
 * of it is there, the rest being zeros.  sparse: ask which pages there are,
 * and copy at target_copy_end(), before which nobody may look.
 */
bool target_copy(
    struct target *target, uint64_t at, uint64_t bytes, bool sparse);
void target_copy_end(struct target *target);

/*
 * As target_copy(), sparse, but keeps only the words of target->filter: for
 * target_words(), while target_at() and target_run() find nothing there.
 */
bool target_pack(struct target *target, uint64_t at, uint64_t bytes);

/*
 * Before a target is held: the bytes of [at, at + bytes) that are in memory or
 * swapped out, and how many of them target_pack() would take: an estimate from
 * a few pages.
 */
struct target_size {
	uint64_t present;
	uint64_t looked_at;
	uint64_t packed; /* of the bytes that were looked at */
};
void target_measure(struct target *target, uint64_t at, uint64_t bytes,
    struct target_size *size);

/*
 * Before a target is held: have memory for the copy of [at, at + bytes), as
 * much as there is now, and more for what may come to its end.  The kernel
 * takes longer to give it than to fill it.
 */
void target_prepare(
    struct target *target, uint64_t at, uint64_t bytes, uint64_t more);

/* Forgets what was copied. */
void target_forget(struct target *target);

/*
 * The first words of [*at, end) that we hold, copied or packed, and how many
 * follow each other there; sets *at to where they are.  A packed word that was
 * not kept is 0.  The words stay until the next call.  NULL: there are none.
 */
const uint64_t *target_words(
    struct target *target, uint64_t *at, uint64_t end, size_t *n);

/* Our copy of the target's memory, or NULL.  Stays until target_forget(). */
const void *target_at(struct target *target, uint64_t at, uint64_t bytes);

/* How many bytes from at on are in the copy that has it; 0: none. */
uint64_t target_run(struct target *target, uint64_t at);

/* From our copies, or else from the process as it is now. */
bool target_peek(struct target *target, uint64_t at, void *to, size_t bytes);

/* How many of these bytes are mapped before there is a gap. */
uint64_t target_mapped(struct target *target, uint64_t at, uint64_t bytes);

const struct mapping *target_mapping(struct target *target, uint64_t at);

/* For target_*.c. */
void target_add_region(struct target *target, struct region region);
void live_open(struct target *target);
void live_hold(struct target *target);
void live_release(struct target *target);
bool live_copy(
    struct target *target, uint64_t at, uint64_t bytes, char *to, bool sparse);
void live_pack(
    struct target *target, uint64_t at, uint64_t bytes, char **pages);
void live_measure(struct target *target, uint64_t at, uint64_t bytes,
    struct target_size *size);
void live_copy_end(struct target *target);
void live_touch(struct target *target, uint64_t at, uint64_t bytes, char *to);
bool live_peek(struct target *target, uint64_t at, void *to, size_t bytes);
void live_read_maps(struct target *target);
void live_read_thread(struct target *target, struct thread *thread);
void live_read_kept(struct target *target); /* target_kernel.c */
void core_open(struct target *target);

/* Where the registers that we must know are in NT_PRSTATUS's words. */
#if defined(__x86_64__)
#define REGISTER_SP 19
#define REGISTER_PC 16
#define REGISTER_TP 21
#define RED_ZONE    128
#define OUR_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define REGISTER_SP 31
#define REGISTER_PC 32
#define RED_ZONE    0
#define OUR_MACHINE EM_AARCH64
#endif

#endif
