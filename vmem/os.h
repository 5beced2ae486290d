/*
 * os.h - all that the library asks of the kernel
 *
 * Only os.c makes system calls.  Every request here can be made to fail for
 * a test (os_fail_nth), changes no errno, and is not a cancellation point.
 * Addresses and sizes are multiples of the page size.
 */
#ifndef VMEM_OS_H
#define VMEM_OS_H

#include "vmem/base.h"

/*
 * The process confines itself: from now on the kernel is asked for nothing but
 * the calls that malloc() of libc makes (mmap, munmap, mremap, mprotect,
 * madvise, futex).  Of the requests here, os_resident() and
 * os_membarrier_rseq() are then refused, and names are not given.  Returns when
 * no other call is under way in another thread.  Cannot be undone.
 */
void os_confine(void);
bool os_is_confined(void);

/*
 * At start, and in the child of fork(): the caller is the process whose memory
 * this is, and no other thread has a call under way.  os_is_process() is false
 * in the child of vfork(), which has the memory of its parent, and true in a
 * copy of the process that clone() made as a system call.
 */
void os_note_process(void);
bool os_is_process(void);

/*
 * Has the process had one thread that libc knows of since its start, or since
 * the fork() that made it?  False if libc does not say.
 */
bool os_is_single_threaded(void);

/* prctl(2) of the program, as the kernel answers. */
long os_prctl(int option, const unsigned long arg[4]);

size_t os_page_size(void);

/* Address space without memory; NULL if refused.  hint may be NULL. */
void *os_reserve(void *hint, size_t bytes);

/* As os_reserve, but at this very address or not at all. */
bool os_reserve_at(void *at, size_t bytes);

/* Address space that reads as zeros and costs nothing until os_commit(). */
void *os_reserve_zeros(size_t bytes);

/* Make reserved pages readable and writable, zero at first. */
bool os_commit(void *at, size_t bytes);

/* Give pages and their accounting back; the range is reserved again. */
bool os_decommit(void *at, size_t bytes);

/* Committed pages that nobody may touch until they are committed again. */
bool os_protect(void *at, size_t bytes);

/* Committed memory anywhere, zero; NULL if refused. */
void *os_map(size_t bytes);

/* Release address space.  A refusal loses the range and nothing else. */
bool os_unmap(void *at, size_t bytes);

/*
 * Drop the contents of committed pages, also of locked ones: they read as zeros
 * afterwards.  After several refusals in a row the kernel is not asked for a
 * while, and the answer is false.
 */
bool os_purge(void *at, size_t bytes);

/* False: os_purge() would not ask the kernel now. */
bool os_purge_may(void);

/* The next os_purge() asks the kernel, whatever it refused before. */
void os_purge_again(void);

/*
 * Move pages between two committed ranges without copying.  The source stays
 * committed and reads as zeros.  The pages go by way of the range at via, if
 * it is free, else of one that the kernel chooses.  False: nothing happened,
 * copy instead.
 */
bool os_move(void *to, void *via, void *from, size_t bytes);

/*
 * Which of the pages have memory: bit 0 of a byte of pages for each.  False
 * if the kernel will not say.
 */
bool os_resident(void *at, size_t bytes, unsigned char *pages);

/* Can the word at this address be read? */
bool os_readable(const void *at);

/* A file as memory that can be read, for os_unmap(); NULL if it cannot. */
void *os_map_file(const char *path, size_t *bytes);

/* Names a range in /proc/PID/maps where the kernel can; text is static. */
void os_name(void *at, size_t bytes, const char *text);

/* May the kernel use huge pages there?  It need not heed it. */
void os_huge(void *at, size_t bytes, bool wanted);

/* Leave a range out of core files, or put it back in. */
void os_core(void *at, size_t bytes, bool wanted);

/* Bytes of address space this process may have; SIZE_MAX without a limit. */
size_t os_limit_as(void);

/* Bytes that the process may raise this limit to; SIZE_MAX without a limit. */
size_t os_limit_as_most(void);

/* Bytes of physical memory of the machine. */
size_t os_ram(void);

/* Highest number of CPUs the kernel can have, for sizing tables. */
unsigned os_cpu_slots(void);

/* CPUs this process may run on now, at least 1. */
unsigned os_cpus_allowed(void);

/* CPU the caller runs on, or 0 if unknown. */
unsigned os_cpu(void);

/* Monotonic time, cheap and coarse (a few milliseconds). */
uint64_t os_now_ns(void);

/* The same to the nanosecond. */
uint64_t os_exact_ns(void);

uint32_t os_thread_id(void);

/* Names the calling thread for ps and debuggers, 15 bytes at most. */
void os_thread_name(const char *name);

uint32_t os_process_id(void);

/* The file that a descriptor stands for. */
struct os_file {
	uint64_t device, inode;
	bool is_character; /* a character device, as terminals are */
	bool is_pipe;
	bool is_inherited; /* not close-on-exec */
};

/* False: the descriptor is not open. */
bool os_file_of(int fd, struct os_file *file);

void os_write(int fd, const void *text, size_t n);
_Noreturn void os_abort(void);
_Noreturn void os_exit(int status);

/* Sleep while *word is value, at most ns (0: for ever). */
void os_futex_wait(uint32_t *word, uint32_t value, uint64_t ns);
void os_futex_wake(uint32_t *word, unsigned nwaiters);

/* Value of an entry of the auxiliary vector, 0 if absent. */
unsigned long os_auxv(unsigned long type);

/* 16 random bytes of this exec as a number; no entropy is spent. */
uint64_t os_random(void);

/* Register this thread's rseq area; false if the kernel refuses. */
bool os_rseq_register(void *area, uint32_t bytes, uint32_t signature);
bool os_rseq_unregister(void *area, uint32_t bytes, uint32_t signature);

/*
 * Would the kernel register an area?  Asked with a flag that no kernel knows,
 * which is refused with EINVAL after every other reason to refuse the call, and
 * changes nothing.
 */
bool os_rseq_allowed(void);

/*
 * Does the kernel hold this area for the calling thread?  Asked by an attempt
 * to unregister it with a wrong signature: the kernel compares the area and its
 * size first, refuses with EPERM, and changes nothing.
 */
bool os_rseq_is_held(void *area, uint32_t bytes, uint32_t signature);

/*
 * membarrier(2): os_membarrier_ready() registers the process once, false if
 * the kernel refuses.  os_membarrier_rseq() aborts every restartable section
 * that any thread of the process is in; what this thread stored before is
 * seen by every section that starts after.
 */
bool os_membarrier_ready(void);
bool os_membarrier_rseq(void);

/*
 * Make the nth memory or membarrier request from now (1 is the next) and the
 * nburst - 1 after it fail as if with ENOMEM.  nth 0 ends it.  os_requests()
 * counts them, failed ones included.
 */
void os_fail_nth(unsigned nth, unsigned nburst);
unsigned os_requests(void);

#endif
