/*
 * os.h - the interface to the kernel
 *
 * Only os.c makes system calls.  No function here changes errno or is a
 * cancellation point.  os_purge(), os_decommit() and os_move() take pages from
 * the program by libc's functions, which the program may have replaced: the
 * caller holds no lock.  A test can make memory and membarrier requests fail
 * (os_fail_nth()).  Addresses and sizes of ranges are multiples of the page
 * size, in bytes.
 */
#ifndef VMEM_OS_H
#define VMEM_OS_H

#include "vmem/base.h"

/*
 * Confine the library to the system calls that malloc() of libc makes (mmap,
 * munmap, mremap, mprotect, madvise, futex).  From then on os_resident() and
 * os_membarrier_rseq() fail, and os_name() and os_thread_name() do nothing.
 * Waits, up to a limit, until no other thread is inside one of these four
 * functions.  Cannot be undone.
 */
void os_confine(void);
bool os_is_confined(void);

/*
 * Record that the calling process owns this memory.  Called before a task is
 * created that shares the memory and is no thread.
 */
void os_note_process(void);

/*
 * The same in the child of fork(), if its parent has called os_note_process().
 * No other thread is inside a system call of the library.
 */
void os_process_after_fork(void);

/*
 * Does the calling process own this memory?  False in the child of vfork(),
 * which shares the memory of its parent.  True in a copy of the process that a
 * clone() system call has made.
 */
bool os_is_process(void);

/*
 * Has the caller been the only thread that libc knows of, since the start of
 * the process or since the fork() that created it?  If libc does not tell: is
 * it the only thread now, for all that the kernel tells?
 */
bool os_is_single_threaded(void);

/*
 * May the library call functions of libc that are not plain computations?
 * ThreadSanitizer replaces them, and calls malloc() before its own work.
 * os_constructed() says that the constructors of the program's libraries run,
 * and from then on true is returned.  It returns whether ThreadSanitizer is
 * there.
 */
bool os_libc_is_ready(void);
bool os_constructed(void);

/* Calls of the program; they return the kernel's result unchanged. */
long os_unshare(int flags, int unused);
long os_setns(int fd, int type);
long os_prctl(int option, const unsigned long arg[4]);

/* Bytes in a page. */
size_t os_page_size(void);

/*
 * Reserve address space without memory.  hint is the preferred address or NULL.
 * Returns NULL if the kernel refuses.
 */
void *os_reserve(void *hint, size_t bytes);

/* Reserve address space at exactly this address; false if not possible. */
bool os_reserve_at(void *at, size_t bytes);

/*
 * Reserve address space that reads as zeros and is not charged before
 * os_commit().  Returns NULL if the kernel refuses.
 */
void *os_reserve_zeros(size_t bytes);

/* Make reserved pages readable and writable; they are zero at first. */
bool os_commit(void *at, size_t bytes);

/* Release pages and their memory charge; the range is reserved again. */
bool os_decommit(void *at, size_t bytes);

/* Make committed pages inaccessible until they are committed again. */
bool os_protect(void *at, size_t bytes);

/* Map zeroed, committed memory at any address; NULL if refused. */
void *os_map(size_t bytes);

/*
 * Release address space.  If the kernel refuses, because the process has too
 * many mappings, the range is lost, but not its memory.
 */
bool os_unmap(void *at, size_t bytes);

/*
 * Drop the contents of committed pages; they read as zeros afterwards.  Locked
 * pages are dropped only if the purge is forced.  After several refusals in a
 * row, the function returns false for a while without a system call.
 */
bool os_purge(void *at, size_t bytes);

/*
 * From begin until the end, which may be nested, purges are forced: os_purge()
 * also purges locked memory, and os_purge_forbid() does not matter.
 */
void os_purge_force(bool begin);
void os_purge_forbid(bool forbid);

/* Would os_purge() make a system call now?  Would it if it were forced? */
bool os_may_purge(void);
bool os_may_purge_by_force(void);

/*
 * Is the caller in a function that the program has put in the place of libc's,
 * called by one of the three functions that take pages away?  The second
 * function also says whether this address is among them.
 */
bool os_is_taking(void);
bool os_is_taking_from(const void *at);

/* Let the next os_purge() make a system call, despite earlier refusals. */
void os_purge_resume(void);

/*
 * Move pages between two committed ranges without a copy.  The source range
 * stays committed and reads as zeros.  The pages are moved by way of the range
 * at via if that is free, otherwise by way of a range that the kernel chooses.
 * Returns false if nothing was moved; the caller then copies.  The target loses
 * its pages in any case.
 */
bool os_move(void *to, void *via, void *from, size_t bytes);

/*
 * Store for each page whether it has memory, in bit 0 of one byte of pages.
 * Returns false if the kernel does not tell.
 */
bool os_resident(void *at, size_t bytes, unsigned char *pages);

/* Can the 4-byte word at this address be read? */
bool os_readable(const void *at);

/*
 * Map a regular file read-only and store its size.  os_unmap() unmaps it.
 * Returns NULL on failure.
 */
void *os_map_file(const char *path, size_t *bytes);

/* Name a range in /proc/PID/maps if the kernel can; text is static. */
void os_name(void *at, size_t bytes, const char *text);

/* Advise the kernel for or against huge pages in a range. */
void os_huge(void *at, size_t bytes, bool wanted);

/*
 * Give committed pages memory at once, at a fifth of the cost of their page
 * faults.  Kernels before 5.14 do nothing.
 */
void os_populate(void *at, size_t bytes);

/* Soft limit of a resource (RLIMIT_AS, ...); SIZE_MAX without a limit. */
size_t os_limit(int resource);

/*
 * May the kernel write a core file of this process, as far as RLIMIT_CORE says?
 * Also true if that is not known.
 */
bool os_dumps_core(void);

/*
 * Does the kernel charge all writable private memory, and refuse more than it
 * has (vm.overcommit_memory=2) or than RLIMIT_DATA permits?  False in a
 * confined process.
 */
bool os_charges_all(void);

/* Bytes of physical memory of the machine. */
size_t os_ram(void);

/* CPU numbers are below this value, the bits of the kernel's CPU mask. */
unsigned os_cpu_slots(void);

/* Number of CPUs on which this process may run now, at least 1. */
unsigned os_cpus_allowed(void);

/* Number of the CPU on which the caller runs, or 0 if unknown. */
unsigned os_cpu(void);

/* Monotonic time, cheap, with a resolution of a few milliseconds. */
uint64_t os_now_ns(void);

/* Monotonic time with a resolution of a nanosecond. */
uint64_t os_exact_ns(void);

uint32_t os_thread_id(void);

/* Name the calling thread for ps and debuggers, at most 15 bytes. */
void os_thread_name(const char *name);

/*
 * Give the calling thread the ordinary scheduling policy, the nice value 0, and
 * the CPUs that the process had at os_note_start_cpus().  An attribute that
 * the kernel does not let it change stays as it is; in a confined process, all
 * do.
 */
void os_note_start_cpus(void);
void os_thread_ordinary(void);

/* Let other threads run on this CPU first. */
void os_yield(void);

/* Store the name of the calling thread; "" if the process is confined. */
#define OS_THREAD_NAME_BYTES 16
void os_thread_name_get(char name[OS_THREAD_NAME_BYTES]);

/* An access to a page that does not allow it. */
struct os_fault {
	const void *address;
	uintptr_t pc; /* of the instruction */
	enum {
		OS_FAULT_UNKNOWN,
		OS_FAULT_READ,
		OS_FAULT_WRITE
	} access;
};

/*
 * Call panic_hooks.explain() when a thread is about to die of SIGSEGV after an
 * access to memory, from the call on or from os_constructed() on.  Does nothing
 * if SIGSEGV has not its default action, or if the process is confined.
 */
void os_explain_faults(void);

uint32_t os_process_id(void);

/* The file that a descriptor refers to. */
struct os_file {
	uint64_t device, inode;
	bool is_character; /* a character device, such as a terminal */
	bool is_pipe;
	bool is_regular;
};

/* Describe the file of a descriptor; false if the descriptor is not open. */
bool os_file_of(int fd, struct os_file *file);

/* Does a program that this one executes get the descriptor? */
bool os_is_inherited(int fd);

/* Open a file for os_read(), without waiting; negative on failure. */
int os_open(const char *path);

/* Read up to n bytes; 0 at the end of the file and on failure. */
size_t os_read(int fd, void *buffer, size_t n);
void os_close(int fd);

/*
 * Open a regular file, a character device or a FIFO to append to it, and create
 * a file if there is none, for its owner only.  Does not wait for a reader of a
 * FIFO.  Negative on failure, and if the path ends in a symbolic link: another
 * user may have made it.  Links in /dev and /proc/self/fd are those of the
 * system, which /dev/stderr is.
 */
int os_open_append(const char *path);

/*
 * Store the path of the working directory in text, with its 0; false if it has
 * none, or one of n bytes or more.
 */
bool os_working_directory(char *text, size_t n);

/* Write n bytes, up to the first error.  Returns 0 or the error's number. */
int os_write(int fd, const void *text, size_t n);
_Noreturn void os_abort(void);

/* The longest sleep between two looks at a state. */
#define POLL_NS         ((uint64_t)1000000)
/*
 * The longest wait for another thread that may be in a function of the program.
 * That function may wait for a lock that the waiting thread holds, so that a
 * longer wait could be a deadlock.
 */
#define PROGRAM_WAIT_NS ((uint64_t)100000000)

/*
 * os_futex_wait() sleeps while *word is value, at most ns nanoseconds (0: for
 * ever), and at most until a signal is handled.  os_futex_await() does not end
 * with a signal; it returns whether *word has another value.  os_futex_wake()
 * returns whether it woke a thread.
 */
void os_futex_wait(uint32_t *word, uint32_t value, uint64_t ns);
bool os_futex_await(uint32_t *word, uint32_t value, uint64_t ns);
bool os_futex_wake(uint32_t *word, unsigned nwaiters);

/*
 * Makes a child with a copy of the memory and with the same descriptors, and
 * returns its process number, or 0 if the kernel refuses.  If the child ever
 * runs, it ends at once.  Its end sends no signal.
 */
uint32_t os_copy_process(void);

/* Releases such a child if it has ended; true: it no longer exists. */
bool os_reap_copy(uint32_t copy);

/* Value of an entry of the auxiliary vector, or 0 if there is none. */
unsigned long os_auxv(unsigned long type);

/*
 * A random number, mixed from the 16 random bytes that the kernel supplies at
 * exec.  Every call returns the same number and consumes no entropy.  If the
 * addresses of the process are not random, the number is 0.
 */
uint64_t os_random(void);

/*
 * The kernel's release as a number that OS_VERSION() makes; 0 if the kernel
 * does not tell.  A part that is missing or not a number is 0.
 */
#define OS_VERSION(major, minor, patch)                                        \
	((major) << 20 | (minor) << 10 | (patch))
uint32_t os_kernel_version(void);

/* The number of a release such as "6.12.48+deb13-arm64". */
uint32_t os_version_of(const char *release);

/*
 * Does the kernel randomise the addresses of this process?  Debuggers, setarch
 * -R and kernel.randomize_va_space turn that off.
 */
bool os_addresses_are_random(void);

/* Register or unregister this thread's rseq area; false if refused. */
bool os_rseq_register(void *area, uint32_t bytes, uint32_t signature);
bool os_rseq_unregister(void *area, uint32_t bytes, uint32_t signature);

/*
 * Would the kernel register an rseq area?  The function makes the call with a
 * flag that no kernel knows.  The kernel checks all other reasons for a refusal
 * first, then refuses the flag with EINVAL and changes nothing.
 */
bool os_rseq_allowed(void);

/*
 * Returns false if the calling thread has no registered rseq area.  The
 * function asks the kernel to register one at an address of the kernel.  If the
 * thread has one, the kernel refuses the second, otherwise the address, by
 * EFAULT.  True if the kernel does not answer.
 */
bool os_rseq_is_held(void);

/* Register the process for os_membarrier_rseq(); false if refused. */
bool os_membarrier_ready(void);

/*
 * One more than the highest number of the first 64 nodes whose memory this
 * process may use; 1 if there is one such node, if its pages come from all
 * nodes in turn, or if the kernel does not say.
 */
unsigned os_memory_nodes(void);

/*
 * Abort every restartable section that a thread of the process is executing, by
 * membarrier(2).  Every section that starts afterwards sees all earlier stores
 * of the calling thread.  Returns false if the kernel refuses.
 */
bool os_membarrier_rseq(void);

/*
 * For tests: make the nth memory or membarrier request from now (1 is the next)
 * and the nburst - 1 requests after it fail as if with ENOMEM.  nth 0 ends the
 * injection.
 */
void os_fail_nth(unsigned nth, unsigned nburst);

/* Number of memory and membarrier requests so far, failed ones included. */
unsigned os_requests(void);

#endif
