/*
 * target_live.c - a live process: stop it, copy its memory, resume it
 *
 * The command stops every thread by PTRACE_SEIZE and PTRACE_INTERRUPT, in
 * rounds until a round finds no new thread.  It changes nothing in the process,
 * and sends no signal that the process could see.  If a signal arrives at that
 * moment, the thread reports the signal instead of the stop; the command
 * delivers the signal when the thread continues.  However this command ends,
 * the kernel resumes every thread.
 *
 * A thread that is in the kernel and cannot be stopped there (a parent in
 * vfork(), a broken disk) does not run.  The command waits for it for a limited
 * time and then ignores it.
 *
 * The command reads memory by process_vm_readv(), in pieces, which several
 * threads share if there are many, and only pages that the process has touched
 * (target_touched.c).
 *
 * The process is stopped while its heap is copied, because otherwise a pointer
 * could move from memory that is not yet read to memory that was already read.
 *
 * At each stop, the command checks that the process still runs the program that
 * it ran when the command began (struct identity).
 * If the heap is large, the library makes a copy of the process instead, if it
 * can (target_copy.c).
 */
#include <assert.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/inspect/memory.h"
#include "tools/inspect/progress.h"
#include "tools/inspect/target.h"

/* Memory is copied in pieces of this size, by several threads if many. */
#define PIECE_BYTES  (2 * MIB)
#define PIECES_EACH  4
#define COPIERS_MOST 8

/* Memory that is packed is read in parts of this size. */
#define BUFFER_BYTES (256 * KIB)

/* One page in LOOK_EVERY is enough to estimate the packed size. */
#define LOOK_EVERY 64

/* How long a thread may take to stop. */
#define STOP_SECONDS 2.0

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Reads a line "key:<tab>value" of /proc/PID/status as a number, or -1. */
long
live_status(int pid, const char *key)
{
	char path[64], line[256];
	size_t n = strlen(key);
	long value = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "r");
	if (file == NULL)
		return -1;
	while (value < 0 && fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, key, n) == 0 && line[n] == ':')
			value = strtol(line + n + 1, NULL, 10);
	fclose(file);
	return value;
}

static long
ptrace_scope(void)
{
	FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "r");
	long scope = 0;

	if (file == NULL)
		return 0;
	if (fscanf(file, "%ld", &scope) != 1)
		scope = 0;
	fclose(file);
	return scope;
}

static _Noreturn void
fail_permission(struct target *target)
{
	long tracer = live_status(target->pid, "TracerPid");
	long owner = live_status(target->pid, "Uid");
	long scope = ptrace_scope();

	if (tracer > 0)
		fail_with(EXIT_ERROR,
		    "%s: process %ld is debugging it; one at a time",
		    target->name, tracer);
	if (owner >= 0 && geteuid() != 0 && owner != (long)geteuid())
		fail_with(EXIT_ERROR,
		    "%s: no permission: it belongs to user %ld; be that user "
		    "or root",
		    target->name, owner);
	if (scope != 0)
		fail_with(EXIT_ERROR,
		    "%s: no permission: kernel.yama.ptrace_scope is %ld; be "
		    "root, or set it to 0 (sysctl kernel.yama.ptrace_scope=0)",
		    target->name, scope);
	fail_with(EXIT_ERROR,
	    "%s: no permission to look at it (ptrace: %s); it may be "
	    "set-user-ID, not dumpable, or in another container",
	    target->name, strerror(EPERM));
}

_Noreturn void
live_fail_gone(struct target *target)
{
	if (target->reads_made)
		fail_with(EXIT_ERROR,
		    "%s: the kernel has ended the copy of the process, "
		    "probably because memory is short",
		    target->name);
	fail_with(EXIT_ERROR, "%s: the process has ended", target->name);
}

static int
reader_tid(const struct target *target)
{
	assert(target->live && (target->nthreads != 0 || target->reader > 0));
	if (target->reads_made)
		return target->made->pid;
	return target->nthreads ? target->threads[0].tid : target->reader;
}

/* Opens the memory of the target. */
static int
memory_file(const struct target *target)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/mem",
	    target->reads_made ? target->made->pid : target->pid,
	    reader_tid(target));
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Finds another thread if the first has ended without the process. */
static void
find_reader(struct target *target)
{
	char path[64];
	struct dirent *entry;
	DIR *dir;

	assert(target->nthreads == 0 && target->nmaps == 0);
	snprintf(path, sizeof(path), "/proc/%d/task", target->pid);
	dir = opendir(path);
	while (dir != NULL && target->nmaps == 0 &&
	       (entry = readdir(dir)) != NULL) {
		target->reader = (int)strtol(entry->d_name, NULL, 10);
		if (target->reader > 0 && target->reader != target->pid)
			live_read_maps(target);
	}
	if (dir != NULL)
		closedir(dir);
	if (target->nmaps == 0)
		fail_with(EXIT_ERROR, "%s: it has ended, or is of the kernel",
		    target->name);
}

/* Reads field n of /proc/PID/stat, which counts from 1; n > 2. */
static uint64_t
stat_field(int pid, int n)
{
	char path[64], text[1024];
	const char *field;
	size_t length;
	FILE *file;

	assert(n > 2);
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (file == NULL)
		return 0;
	length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = '\0';
	/* The name before the third field may have any characters. */
	field = strrchr(text, ')');
	for (; field != NULL && n > 2; n--)
		field = strchr(field + 1, ' ');
	return field == NULL ? 0 : strtoull(field, NULL, 10);
}

/*
 * Reads the 16 bytes that the kernel chooses anew for each program, and whose
 * address it tells in the auxiliary vector.
 */
static void
read_random(int tid, uint64_t *random)
{
	uint64_t entries[128];
	struct iovec local = {random, 2 * sizeof(*random)}, remote = local;
	char path[64];
	ssize_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/auxv", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, entries, sizeof(entries));
		close(fd);
	}
	for (ssize_t i = 0; i + 1 < n / 8; i += 2) {
		if (entries[i] != AT_RANDOM)
			continue;
		remote.iov_base = (void *)entries[i + 1];
		process_vm_readv(tid, &local, 1, &remote, 1, 0);
	}
}

static struct identity
identity_of(struct target *target)
{
	struct identity identity = {.start = stat_field(target->pid, 22)};
	int tid = reader_tid(target);
	struct stat exe;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", tid);
	if (stat(path, &exe) == 0) {
		identity.device = exe.st_dev;
		identity.inode = exe.st_ino;
	}
	read_random(tid, identity.random);
	return identity;
}

static void
identity_note(struct target *target)
{
	target->identity = identity_of(target);
	target->memory = -1;
}

/*
 * Opens the memory of the program for writes.  The file mem stays that of the
 * program that runs when it is opened: if a thread that does not stop is in
 * execve(), a write later fails instead of reaching the next program.
 */
static void
memory_open(struct target *target)
{
	char path[64];

	if (target->memory >= 0)
		return;
	snprintf(path, sizeof(path), "/proc/%d/mem", reader_tid(target));
	target->memory = open(path, O_RDWR | O_CLOEXEC);
}

void
live_open(struct target *target)
{
	char path[64];

	errno = 0;
	target->pid = target->reader = (int)strtol(target->name, NULL, 10);
	snprintf(path, sizeof(path), "/proc/%d", target->pid);
	if (target->pid <= 0 || access(path, F_OK) != 0)
		fail_with(EXIT_ERROR, "%s: no such process", target->name);
	if (target->pid == getpid())
		fail_with(EXIT_ERROR, "%s: that is this command", target->name);
	identity_note(target);
	live_read_maps(target);
	if (target->nmaps == 0) {
		find_reader(target);
		identity_note(target);
	}
	memory_bound_by(target_resident(target));
}

static void
parse_mapping(struct target *target, char *line, size_t *capacity)
{
	struct mapping m = {0};
	char bits[5];
	int name = 0;
	unsigned long inode;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "%lx-%lx %4s %lx %*x:%*x %lu %n", &m.start, &m.end,
		bits, &m.offset, &inode, &name) < 5)
		return;
	m.read = bits[0] == 'r';
	m.write = bits[1] == 'w';
	m.execute = bits[2] == 'x';
	m.shared = bits[3] == 's';
	m.inode = inode;
	m.file = inode != 0;
	m.path = m.file && name ? xprint("%s", line + name) : NULL;
	m.name = name ? plain_text(line + name, SIZE_MAX) : "";
	ARRAY_GROW(target->maps, target->nmaps, *capacity);
	target->maps[target->nmaps++] = m;
}

void
live_read_maps(struct target *target)
{
	char *line = NULL, path[64];
	size_t n = 0, capacity = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/maps", target->pid,
	    reader_tid(target));
	file = fopen(path, "r");
	if (file == NULL && (errno == ENOENT || errno == ESRCH))
		live_fail_gone(target);
	if (file == NULL)
		fail_permission(target);
	target->maps = NULL;
	target->nmaps = 0;
	target_scan_anew(target);
	while (getline(&line, &n, file) > 0)
		parse_mapping(target, line, &capacity);
	free(line);
	fclose(file);
}

static struct thread *
thread_find(struct target *target, int tid)
{
	for (size_t i = 0; i < target->nthreads; i++)
		if (target->threads[i].tid == tid)
			return &target->threads[i];
	return NULL;
}

/* Returns 1 if the thread is seized, 0 if it has ended meanwhile. */
static int
thread_seize(struct target *target, int tid)
{
	struct thread *thread;

	assert(tid > 0 && thread_find(target, tid) == NULL);
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) != 0) {
		if (errno == ESRCH)
			return 0;
		/* The kernel refuses a thread that has ended, too. */
		if (errno == EPERM &&
		    (target->nthreads != 0 || tid != target->reader))
			return 0;
		fail_permission(target);
	}
	ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
	ARRAY_GROW(target->threads, target->nthreads, target->threads_capacity);
	thread = &target->threads[target->nthreads++];
	memset(thread, 0, sizeof(*thread));
	thread->tid = tid;
	return 1;
}

/* Seizes new threads and returns their number. */
static size_t
seize_round(struct target *target)
{
	char path[64];
	struct dirent *entry;
	size_t nnew = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", target->pid);
	dir = opendir(path);
	if (dir == NULL)
		live_fail_gone(target);
	while ((entry = readdir(dir)) != NULL) {
		int tid = (int)strtol(entry->d_name, NULL, 10);

		if (tid > 0 && thread_find(target, tid) == NULL)
			nnew += (size_t)thread_seize(target, tid);
	}
	closedir(dir);
	return nnew;
}

static bool
thread_wait(struct thread *thread, double until)
{
	int status;

	for (;;) {
		int got = waitpid(thread->tid, &status, __WALL | WNOHANG);

		if (got < 0 || (got > 0 && !WIFSTOPPED(status)))
			return false;
		if (got > 0) {
			thread->stopped = true;
			if (status >> 16 == 0)
				thread->signal = WSTOPSIG(status);
			return true;
		}
		if (seconds_now() > until)
			return true;
		usleep(50);
	}
}

static void
threads_wait(struct target *target)
{
	double until = seconds_now() + STOP_SECONDS;
	size_t n = 0;

	for (size_t i = 0; i < target->nthreads; i++) {
		struct thread *thread = &target->threads[i];

		if (thread->stopped || thread_wait(thread, until))
			target->threads[n++] = *thread;
	}
	assert(n <= target->nthreads);
	target->nthreads = n;
}

static int
words_get(int tid, unsigned long set, uint64_t *to, size_t capacity)
{
	struct iovec io = {to, capacity * sizeof(*to)};

	if (ptrace(PTRACE_GETREGSET, tid, (void *)set, &io) != 0)
		return 0;
	return (int)(io.iov_len / sizeof(*to));
}

void
live_read_thread(struct target *target, struct thread *thread)
{
	static uint64_t words[4096];
	size_t n = (size_t)words_get(thread->tid, NT_PRSTATUS, words, 64);
	int more;

	(void)target;
	if (n <= REGISTER_PC)
		return;
	thread->stopped = true;
	thread->sp = words[REGISTER_SP];
	thread->pc = words[REGISTER_PC];
#ifdef REGISTER_TP
	thread->tp = words[REGISTER_TP];
#else
	uint64_t masks[2]; /* of data addresses and of code addresses */

	words_get(thread->tid, NT_ARM_TLS, &thread->tp, 1);
	if (words_get(thread->tid, NT_ARM_PAC_MASK, masks, 2) == 2)
		thread->signature = masks[1];
#endif
	/* During a copy, a pointer may be in a vector register only. */
	more = words_get(thread->tid, REGISTERS_WIDE, words + n, 4000);
	if (more == 0)
		more = words_get(thread->tid, NT_PRFPREG, words + n, 1000);
	n += (size_t)more;
	assert(n <= array_size(words));
	free(thread->words);
	thread->words = xalloc(n * sizeof(*words));
	memcpy(thread->words, words, n * sizeof(*words));
	thread->nwords = n;
}

static void
threads_detach(struct target *target)
{
	for (size_t i = 0; i < target->nthreads; i++)
		ptrace(PTRACE_DETACH, target->threads[i].tid, NULL,
		    (void *)(intptr_t)target->threads[i].signal);
}

/*
 * Ends the command if the process has called execve() since target_open():
 * every address that was computed before belongs to another program.
 */
static void
identity_check(struct target *target)
{
	struct identity now = identity_of(target);

	if (memcmp(&now, &target->identity, sizeof(now)) == 0)
		return;
	threads_detach(target);
	fail_with(EXIT_ERROR,
	    "%s: the process has begun another program meanwhile",
	    target->name);
}

void
live_hold(struct target *target)
{
	memory_open(target);
	target->stopped_at = seconds_now();
	target->nthreads = 0;
	while (seize_round(target) != 0)
		threads_wait(target);
	if (target->nthreads == 0)
		live_fail_gone(target);
	assert(!target->held);
	identity_check(target);
	memory_bound_by(target_resident(target));
	for (size_t i = 0; i < target->nthreads; i++) {
		struct thread *thread = &target->threads[i];

		if (thread->stopped)
			live_read_thread(target, thread);
		else
			print_warning(
			    "%s: thread %d does not stop; its registers are "
			    "not known",
			    target->name, thread->tid);
	}
	live_read_maps(target);
}

void
live_release(struct target *target)
{
	assert(target->held && target->nthreads != 0);
	threads_detach(target);
}

static bool
touched_peek(struct target *target, uint64_t at, char *to, size_t bytes)
{
	struct iovec local = {to, bytes};
	struct iovec remote = {(void *)at, bytes};
	ssize_t n =
	    process_vm_readv(reader_tid(target), &local, 1, &remote, 1, 0);

	if (n < 0 && errno == ESRCH)
		live_fail_gone(target);
	if (n < 0 && errno == EPERM)
		fail_permission(target);
	return n == (ssize_t)bytes;
}

bool
live_peek(struct target *target, uint64_t at, void *to, size_t bytes)
{
	uint64_t done, n;
	bool is_touched;

	for (done = 0; done < bytes; done += n) {
		n = live_touched_run(
		    target, at + done, bytes - done, &is_touched);
		if (!is_touched)
			memset((char *)to + done, 0, n);
		else if (!touched_peek(target, at + done, (char *)to + done, n))
			return false;
	}
	return true;
}

/*
 * This file of the kernel is the memory of the program that ran when it was
 * opened.  If a thread that does not stop is in execve() at this moment, the
 * memory is gone, and nothing is written to that of the next program.
 */
bool
live_poke(struct target *target, uint64_t at, const void *from, size_t bytes)
{
	assert(target->held && !target->reads_made && !target->borrowed);
	return pwrite(target->memory, from, bytes, (off_t)at) == (ssize_t)bytes;
}

/* The memory of the copy of the process; -1: there is none. */
static int copy_memory = -1;

void
live_use_copy(struct target *target)
{
	assert(copy_memory < 0 && target->reads_made);
	copy_memory = memory_file(target);
}

void
live_end_copy(void)
{
	if (copy_memory >= 0)
		close(copy_memory);
	copy_memory = -1;
}

/* Memory to be copied or packed; error is the kernel's, if that failed. */
struct piece {
	uint64_t at;
	uint64_t bytes;
	char *to;     /* NULL: to be packed */
	char **pages; /* receives the addresses of packed pages */
	int error;
	bool any; /* some of it could be read */
};

/* All pieces of one copy; several threads take them in turn. */
static struct {
	struct piece *piece;
	size_t n, capacity;
	size_t next; /* atomic */
	int reader;
	const struct pack_filter *filter;
	struct target *target;
} pieces;

/*
 * Reads memory of the process pid, or of the copy.  process_vm_readv() pins the
 * pages, for which the kernel (since 5.19) first gives the copy pages of its
 * own: to read it would take as much memory again.
 */
static ssize_t
memory_read(int pid, uint64_t at, char *to, uint64_t bytes)
{
	struct iovec local = {to, bytes};
	struct iovec remote = {(void *)at, bytes};
	ssize_t got;

	if (copy_memory < 0)
		return process_vm_readv(pid, &local, 1, &remote, 1, 0);
	got = pread(copy_memory, to, bytes, (off_t)at);
	if (got == 0)
		errno = ESRCH;
	return got == 0 ? -1 : got;
}

/* Reads memory, page by page if some part of it cannot be read. */
static void
piece_read(struct piece *p, int pid, uint64_t at, uint64_t bytes, char *to)
{
	const uint64_t page = 4096;
	uint64_t done = 0;

	while (done < bytes) {
		uint64_t left = bytes - done;
		ssize_t got = memory_read(pid, at + done, to + done, left);

		if (got < 0 && (errno == ESRCH || errno == EPERM)) {
			p->error = errno;
			return;
		}
		if (got > 0) {
			p->any = true;
		} else {
			got = (ssize_t)(left < page ? left : page);
			memset(to + done, 0, (size_t)got);
		}
		done += (uint64_t)got;
	}
	assert(done == bytes);
}

bool
live_read(struct target *target, uint64_t at, uint64_t bytes, char *to)
{
	struct piece piece = {0};
	uint64_t done, n;
	bool is_touched;

	for (done = 0; done < bytes && piece.error == 0; done += n) {
		n = live_touched_run(
		    target, at + done, bytes - done, &is_touched);
		if (is_touched)
			piece_read(&piece, reader_tid(target), at + done, n,
			    to + done);
		else
			memset(to + done, 0, n);
	}
	if (piece.error == ESRCH)
		live_fail_gone(target);
	return piece.error == 0;
}

static void
piece_pack(struct piece *p, struct pack_store *store, char *buffer)
{
	assert(p->to == NULL && p->pages != NULL && p->bytes % 8 == 0);
	for (uint64_t done = 0; done < p->bytes && p->error == 0;) {
		uint64_t left = p->bytes - done;
		uint64_t n = left < BUFFER_BYTES ? left : BUFFER_BYTES;

		piece_read(p, pieces.reader, p->at + done, n, buffer);
		for (uint64_t i = 0; i < n && p->error == 0; i += PACK_BYTES) {
			size_t part = n - i < PACK_BYTES ? n - i : PACK_BYTES;

			if (!pack_page(store, pieces.filter,
				(const void *)(buffer + i), part / 8,
				&p->pages[(done + i) / PACK_BYTES]))
				p->error = ENOMEM;
		}
		done += n;
	}
}

static void
piece_add(uint64_t at, uint64_t bytes, char *to, char **pages)
{
	static_assert(PIECE_BYTES % PACK_BYTES == 0, "whole pages");
	assert((to != NULL) != (pages != NULL));
	while (bytes > 0) {
		uint64_t n = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;

		ARRAY_GROW(pieces.piece, pieces.n, pieces.capacity);
		pieces.piece[pieces.n++] = (struct piece){
		    .at = at, .bytes = n, .to = to, .pages = pages};
		at += n;
		if (to != NULL)
			to += n;
		else
			pages += n / PACK_BYTES;
		bytes -= n;
	}
}

/* For packing; each is small enough for the CPU's cache. */
static uint64_t buffers[COPIERS_MOST][BUFFER_BYTES / 8];

/*
 * The thread with the first buffer shows progress, unless the target is
 * stopped: output to a terminal may wait, and the target would wait with it.
 */
static void *
pieces_work(void *buffer)
{
	struct pack_store store = {0};
	size_t i;

	while ((i = __atomic_fetch_add(&pieces.next, 1, __ATOMIC_RELAXED)) <
	       pieces.n) {
		struct piece *p = &pieces.piece[i];

		if (buffer == buffers[0] && pieces.target->reads_made)
			target_check_copy(pieces.target);
		if (buffer == buffers[0] && !pieces.target->held)
			progress_show("reading memory", i, pieces.n);
		if (p->to != NULL)
			piece_read(p, pieces.reader, p->at, p->bytes, p->to);
		else
			piece_pack(p, &store, buffer);
	}
	return buffer;
}

/* The number of threads: at most the number of CPUs that we may use. */
static size_t
copiers(void)
{
	size_t n = pieces.n / PIECES_EACH;
	cpu_set_t cpus;

	if (n <= 1 || sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
		return 1;
	if (n > (size_t)CPU_COUNT(&cpus))
		n = (size_t)CPU_COUNT(&cpus);
	return n < COPIERS_MOST ? n : COPIERS_MOST;
}

/* Copies by several threads, this one included; fewer are enough, too. */
static void
pieces_share(void)
{
	pthread_t thread[COPIERS_MOST];
	size_t n = copiers(), started = 0;

	assert(n > 0 && n <= COPIERS_MOST);
	while (started + 1 < n && pthread_create(&thread[started], NULL,
				      pieces_work, buffers[started + 1]) == 0)
		started++;
	pieces_work(buffers[0]);
	while (started > 0)
		pthread_join(thread[--started], NULL);
	progress_end();
}

/* Copies all added pieces.  Returns true if some memory was readable. */
static bool
pieces_copy(struct target *target)
{
	bool any = false;

	pieces.next = 0;
	pieces.reader = reader_tid(target);
	pieces.filter = &target->filter;
	pieces.target = target;
	pieces_share();
	assert(pieces.next >= pieces.n);
	for (size_t i = 0; i < pieces.n; i++) {
		const struct piece *p = &pieces.piece[i];

		if (p->error == ESRCH)
			live_fail_gone(target);
		if (p->error == EPERM)
			fail_permission(target);
		if (p->error == ENOMEM)
			memory_fail(target->name);
		any |= p->any;
	}
	pieces.n = 0;
	return any;
}

/* A function for runs of present pages, and the destination of copies. */
struct runs {
	void (*f)(const struct runs *, uint64_t at, uint64_t bytes);
	uint64_t start; /* to and pages are for this address */
	char *to;
	char **pages;
	struct target *target;
	struct target_size *size;
};

/*
 * Calls runs->f for each run of present pages of [at, at + bytes).  Returns
 * false if the kernel does not show which pages are present.
 */
static bool
each_run(
    struct target *target, uint64_t at, uint64_t bytes, const struct runs *runs)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = at;
	static uint64_t entries[8192];
	bool told = true;

	target_scan(target, bytes);
	if (at % page != 0 || bytes % page != 0)
		return false;
	while (bytes > 0 && told) {
		uint64_t n = bytes / page, i = 0;

		if (n > array_size(entries))
			n = array_size(entries);
		told = live_pagemap(target, at / page, entries, n);
		while (told && i < n) {
			uint64_t first = i;
			bool there = pagemap_is_there(entries[i]);

			while (i < n && pagemap_is_there(entries[i]) == there)
				i++;
			assert(i > first);
			if (there)
				runs->f(runs, at + first * page,
				    (i - first) * page);
		}
		at += n * page;
		bytes -= n * page;
	}
	if (!told && at != start)
		live_fail_gone(target);
	return told;
}

/* Asks for huge pages: fewer page faults while the target is stopped. */
static void
advise_huge(char *to, uint64_t bytes)
{
	if (bytes >= 4 * MIB)
		madvise(to, bytes, MADV_HUGEPAGE);
}

static void
add_one_run(const struct runs *runs, uint64_t at, uint64_t bytes)
{
	char *to = runs->to + (at - runs->start);

	assert(runs->to != NULL && at >= runs->start);
	advise_huge(to, bytes);
	piece_add(at, bytes, to, NULL);
}

static void
pack_one_run(const struct runs *runs, uint64_t at, uint64_t bytes)
{
	assert(runs->pages != NULL && (at - runs->start) % PACK_BYTES == 0);
	piece_add(
	    at, bytes, NULL, runs->pages + (at - runs->start) / PACK_BYTES);
}

static void
add_lines_of_run(const struct runs *runs, uint64_t at, uint64_t bytes)
{
	struct target *target = runs->target;
	struct region *last = target->regions + target->last;

	/* each_run() may divide a run. */
	if (target->nregions != 0 && last->in_lines &&
	    last->at + last->bytes == at)
		last->bytes += bytes;
	else
		target_add_region(
		    target, (struct region){
				.at = at, .bytes = bytes, .in_lines = true});
}

static void
touch_one_run(const struct runs *runs, uint64_t at, uint64_t bytes)
{
	char *to = runs->to + (at - runs->start);

	advise_huge(to, bytes);
	madvise(to, bytes, MADV_POPULATE_WRITE);
}

static void
measure_one_run(const struct runs *runs, uint64_t at, uint64_t bytes)
{
	struct target_size *size = runs->size;
	uint64_t words[PACK_WORDS];

	assert(bytes % PACK_BYTES == 0);
	for (uint64_t i = 0; i < bytes; i += PACK_BYTES) {
		struct iovec local = {words, sizeof(words)};
		struct iovec remote = {(void *)(at + i), sizeof(words)};

		size->present += PACK_BYTES;
		if (size->present / PACK_BYTES % LOOK_EVERY != 1 ||
		    process_vm_readv(reader_tid(runs->target), &local, 1,
			&remote, 1, 0) != sizeof(words))
			continue;
		size->looked_at += sizeof(words);
		size->packed +=
		    pack_cost(&runs->target->filter, words, PACK_WORDS);
	}
}

/*
 * Makes a part of a copy that the target has not touched read as zeros.  The
 * pages of a new copy do so without taking memory.
 */
static void
clear_part(char *to, uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t before = -(uintptr_t)to % page, whole;

	if (bytes < before + page) {
		memset(to, 0, bytes);
		return;
	}
	whole = (bytes - before) / page * page;
	memset(to, 0, before);
	madvise(to + before, whole, MADV_DONTNEED);
	memset(to + before + whole, 0, bytes - before - whole);
}

/* Copies a range at once.  Returns true if some of it was readable. */
static bool
copy_touched(struct target *target, uint64_t at, uint64_t bytes, char *to)
{
	bool any = false, is_touched;
	uint64_t done, n;

	for (done = 0; done < bytes; done += n) {
		n = live_touched_run(
		    target, at + done, bytes - done, &is_touched);
		any |= !is_touched;
		if (is_touched)
			piece_add(at + done, n, to + done, NULL);
		else
			clear_part(to + done, n);
	}
	return pieces_copy(target) || any;
}

bool
live_copy(
    struct target *target, uint64_t at, uint64_t bytes, char *to, bool sparse)
{
	struct runs runs = {.f = add_one_run, .start = at, .to = to};
	size_t before = pieces.n;

	if (sparse && each_run(target, at, bytes, &runs))
		return true;
	pieces.n = before;
	return copy_touched(target, at, bytes, to);
}

void
live_pack(struct target *target, uint64_t at, uint64_t bytes, char **pages)
{
	struct runs runs = {.f = pack_one_run, .start = at, .pages = pages};
	size_t before = pieces.n;

	if (each_run(target, at, bytes, &runs))
		return;
	pieces.n = before;
	piece_add(at, bytes, NULL, pages);
}

/* A page that the target has not touched reads as zeros: it gets no region. */
void
live_add_lines(struct target *target, uint64_t at, uint64_t bytes)
{
	struct runs runs = {.f = add_lines_of_run, .target = target};

	if (!each_run(target, at, bytes, &runs))
		add_lines_of_run(&runs, at, bytes);
}

void
live_copy_end(struct target *target)
{
	pieces_copy(target);
}

void
live_touch(struct target *target, uint64_t at, uint64_t bytes, char *to)
{
	struct runs runs = {.f = touch_one_run, .start = at, .to = to};

	each_run(target, at, bytes, &runs);
}

void
live_measure(struct target *target, uint64_t at, uint64_t bytes,
    struct target_size *size)
{
	struct runs runs = {
	    .f = measure_one_run, .target = target, .size = size};

	if (!each_run(target, at, bytes, &runs))
		size->present += bytes;
}
