/*
 * os.c - the interface to the kernel
 *
 * System calls are made directly.  The wrappers of libc set errno, may be
 * cancellation points, and may not be ready when the dynamic loader first calls
 * malloc().
 *
 * Calls that take memory away
 *	The drivers of network cards (UCX, Open MPI, libfabric) keep memory of
 *	the program registered, and replace or patch madvise(), mmap() and
 *	others of libc, to learn when the pages of an address go away.  So
 *	os_purge(), os_decommit() and os_move() call libc's functions.  Pages
 *	that the program has never had, those of the library's own tables and
 *	of units that are clean, need no such call: os_unmap() and the rest
 *	make system calls.
 *
 *	A function that has replaced libc's may allocate and free, and may wait
 *	for a lock of the program whose holder allocates.  Therefore
 *	- the caller holds no lock of the library, and no thread waits without
 *	  a limit for the end of a purge (heap_purge.c);
 *	- in such a function, os_purge() and os_move() refuse and os_decommit()
 *	  makes the system call, so that there is no recursion;
 *	- the thread is not cancelled there.
 *	mremap() is not called: that of UCX up to 1.13 passes on four of the
 *	five arguments, and the kernel would unmap any address.
 *
 * Failure injection: os.c counts the requests, and those in a chosen interval
 * of the count fail.  Because the test reads one word on a path that ends in a
 * system call anyway, it is always compiled in, and every build can be tested
 * with it.
 */
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "vmem/os.h"
#include "vmem/hash.h"
#include "vmem/lock.h"
#include "vmem/string.h"
#include "vmem/syscall.h"
#include "vmem/vdso.h"

/* Numbers that the headers of some libcs lack, which name them without "_". */
#define MADV_POPULATE_WRITE_      23
#define MADV_DONTNEED_LOCKED_     24
#define MREMAP_DONTUNMAP_         4
#define MPOL_F_MEMS_ALLOWED_      4
#define MPOL_INTERLEAVE_          3
#define MPOL_WEIGHTED_INTERLEAVE_ 6
#define MPOL_MODES                7 /* without the flags of a mode */
#define PR_SET_VMA_               0x53564d41
#define PR_SET_VMA_ANON_NAME_     0
#define SYS_rseq_flags_unregister 1
#define SYS_rseq_flags_unknown    (1l << 30) /* no kernel knows it */

static inline long
kernel_call(long number, long a, long b, long c, long d)
{
	return syscall6(number, a, b, c, d, 0, 0);
}

/* The kernel refuses a set for fewer nodes than it is built for. */
#define KERNEL_NODES 1024

/* Is the result of a system call an error? */
static inline bool
is_error(long result)
{
	return (unsigned long)result > -4096ul;
}

static unsigned nrequests;  /* [a] */
static unsigned fail_first; /* [a] first request that fails; 0: none */
static unsigned fail_last;  /* [a] last request that fails */

/*
 * The system call filter of a confined process may kill the process for a call
 * that malloc() of libc does not make.  unconfined_begin() first counts such a
 * call as in progress and then reads confined.  os_confine() first stores
 * confined and then waits until no such call is in progress.  All these
 * accesses are sequentially consistent, so either unconfined_begin() reads the
 * store or os_confine() reads the count.
 */
static uint32_t confined;    /* [a] */
static uint32_t nunconfined; /* [a] such calls in progress */

/* The most times that os_confine() yields the CPU while it waits. */
#define CONFINE_TRIES 10000

/* Count the end of a call that unconfined_begin() has allowed. */
static void
unconfined_end(void)
{
	__atomic_sub_fetch(&nunconfined, 1, __ATOMIC_SEQ_CST);
}

/*
 * May the library make a call that malloc() of libc does not make?  If true,
 * the caller calls unconfined_end() after the call.
 */
static bool
unconfined_begin(void)
{
	__atomic_add_fetch(&nunconfined, 1, __ATOMIC_SEQ_CST);
	if (likely(!os_is_confined()))
		return true;
	unconfined_end();
	return false;
}

/* Makes such a call; the result is -EPERM in a confined process. */
static long
unconfined_call(long number, long a, long b, long c, long d)
{
	long result = -EPERM;

	if (unconfined_begin()) {
		result = kernel_call(number, a, b, c, d);
		unconfined_end();
	}
	return result;
}

bool
os_is_confined(void)
{
	return __atomic_load_n(&confined, __ATOMIC_SEQ_CST) != 0;
}

void
os_confine(void)
{
	__atomic_store_n(&confined, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < CONFINE_TRIES &&
			__atomic_load_n(&nunconfined, __ATOMIC_SEQ_CST) != 0;
	     i++)
		kernel_call(SYS_sched_yield, 0, 0, 0, 0);
}

/*
 * A variable of glibc from 2.32 on, true while the process has had no other
 * thread since its start.  In a child of fork() glibc 2.36 leaves it as it is.
 */
extern char __libc_single_threaded __attribute__((weak));

/* The folder has two links besides those of its folders, one a thread. */
#define LINKS_OF_ONE_THREAD 3

bool
os_is_single_threaded(void)
{
	struct stat tasks = {0};

	if (&__libc_single_threaded != NULL)
		return __libc_single_threaded != 0;
	if (os_is_confined() || !os_is_process())
		return false;
	unconfined_call(
	    SYS_newfstatat, AT_FDCWD, (long)"/proc/self/task", (long)&tasks, 0);
	return tasks.st_nlink == LINKS_OF_ONE_THREAD;
}

/* Count a request; false if failure injection makes it fail. */
static bool
request_count(void)
{
	unsigned n = add_relaxed(&nrequests, 1);
	unsigned first = load_relaxed(&fail_first);

	return likely(first == 0) || n < first || n > load_relaxed(&fail_last);
}

void
os_fail_nth(unsigned nth, unsigned nburst)
{
	unsigned now = load_relaxed(&nrequests);

	store_relaxed(&fail_last, now + nth + nburst - 1);
	store_relaxed(&fail_first, nth == 0 ? 0 : now + nth);
}

unsigned
os_requests(void)
{
	return load_relaxed(&nrequests);
}

size_t
os_page_size(void)
{
	static size_t bytes;

	if (unlikely(bytes == 0))
		bytes = getauxval(AT_PAGESZ);
	return bytes;
}

/* Maps memory, which is not counted as a request.  NULL: refused. */
static void *
map_uncounted(void *at, size_t bytes, int prot, int flags)
{
	long got = syscall6(SYS_mmap, (long)at, (long)bytes, prot,
	    flags | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return is_error(got) ? NULL : (void *)got;
}

static void *
map_anonymous(void *hint, size_t bytes, int prot, int flags)
{
	return request_count() ? map_uncounted(hint, bytes, prot, flags) : NULL;
}

void *
os_reserve(void *hint, size_t bytes)
{
	return map_anonymous(hint, bytes, PROT_NONE, 0);
}

bool
os_reserve_at(void *at, size_t bytes)
{
	void *got = map_anonymous(at, bytes, PROT_NONE, MAP_FIXED_NOREPLACE);

	if (got == at)
		return true;
	/* Kernels before 4.17 treat the address as a hint. */
	if (got != NULL)
		os_unmap(got, bytes);
	return false;
}

void *
os_reserve_zeros(size_t bytes)
{
	return map_anonymous(NULL, bytes, PROT_READ, 0);
}

bool
os_commit(void *at, size_t bytes)
{
	return request_count() &&
	       kernel_call(SYS_mprotect, (long)at, (long)bytes,
		   PROT_READ | PROT_WRITE, 0) == 0;
}

extern void __tsan_init(void) __attribute__((weak));
static bool constructed written_early; /* [a] by os_constructed() */

bool
os_libc_is_ready(void)
{
	return &__tsan_init == NULL || load_relaxed(&constructed);
}

/*
 * A range that a function of libc is taking from the program, and the state of
 * the thread, restored after the call.
 */
struct taking {
	const char *at;
	size_t bytes;
	int error, cancel;
};

/*
 * That of the thread, or NULL.  Volatile: the headers of libc tell the compiler
 * that madvise() calls nothing here.
 */
static __thread const struct taking *volatile taken;

static void
taking_begin(struct taking *taking, const void *at, size_t bytes)
{
	umem_assert(taken == NULL);
	lock_assert_none_held();
	taking->at = at;
	taking->bytes = bytes;
	taking->error = errno;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &taking->cancel);
	taken = taking;
}

static void
taking_end(const struct taking *taking)
{
	int disabled;

	taken = NULL;
	pthread_setcancelstate(taking->cancel, &disabled);
	errno = taking->error;
}

bool
os_is_taking(void)
{
	return taken != NULL;
}

bool
os_is_taking_from(const void *at)
{
	const struct taking *taking = taken;

	return taking != NULL &&
	       (uintptr_t)at - (uintptr_t)taking->at < taking->bytes;
}

/* Returns 0 or a negated error number. */
static int
take_pages(void *at, size_t bytes, int advice)
{
	struct taking taking;
	int error;

	if (!os_libc_is_ready())
		return (int)kernel_call(
		    SYS_madvise, (long)at, (long)bytes, advice, 0);
	taking_begin(&taking, at, bytes);
	error = madvise(at, bytes, advice) == 0 ? 0 : -errno;
	taking_end(&taking);
	return error;
}

bool
os_decommit(void *at, size_t bytes)
{
	struct taking taking;
	void *got;

	if (os_is_taking() || !os_libc_is_ready())
		return map_anonymous(at, bytes, PROT_NONE, MAP_FIXED) == at;
	if (!request_count())
		return false;
	taking_begin(&taking, at, bytes);
	got = mmap(at, bytes, PROT_NONE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	taking_end(&taking);
	return got == at;
}

bool
os_protect(void *at, size_t bytes)
{
	return request_count() && kernel_call(SYS_mprotect, (long)at,
				      (long)bytes, PROT_NONE, 0) == 0;
}

void *
os_map(size_t bytes)
{
	return map_anonymous(NULL, bytes, PROT_READ | PROT_WRITE, 0);
}

bool
os_unmap(void *at, size_t bytes)
{
	if (request_count() &&
	    kernel_call(SYS_munmap, (long)at, (long)bytes, 0, 0) == 0)
		return true;
	/* The process has too many mappings: let at least the pages go. */
	kernel_call(SYS_madvise, (long)at, (long)bytes, MADV_DONTNEED, 0);
	return false;
}

/*
 * After PURGE_REFUSALS refusals in a row, and after each further one,
 * os_purge() makes no system call for PURGE_PAUSE.  Otherwise a process with
 * locked memory would try to purge the same pages for ever.  Before that, the
 * caller can try the units of a range one by one, of which only some may be
 * locked.
 */
#define PURGE_REFUSALS 8
#define PURGE_PAUSE    1000000000ull

static struct purge_pause {
	uint32_t nrefused; /* [a] in a row */
	uint64_t end_ns;   /* [a] end of the pause; 0: no pause */
} purge_pauses[2];         /* of other purges, of forced ones */

static uint32_t purge_nforced; /* [a] os_purge_force() in progress */
static bool purge_forbidden;   /* [a] by os_purge_forbid() */

static bool
purge_is_forced(void)
{
	return load_relaxed(&purge_nforced) != 0;
}

static void
purge_accepted(struct purge_pause *pause)
{
	if (likely(load_relaxed(&pause->nrefused) == 0))
		return;
	store_relaxed(&pause->nrefused, 0);
	store_relaxed(&pause->end_ns, 0);
}

static void
purge_refused(struct purge_pause *pause)
{
	if (add_relaxed(&pause->nrefused, 1) >= PURGE_REFUSALS)
		store_relaxed(&pause->end_ns, os_now_ns() + PURGE_PAUSE);
}

void
os_purge_force(bool begin)
{
	if (begin)
		add_relaxed(&purge_nforced, 1);
	else if (purge_is_forced())
		sub_relaxed(&purge_nforced, 1);
}

void
os_purge_forbid(bool forbid)
{
	store_relaxed(&purge_forbidden, forbid);
}

static bool
pause_is_over(const struct purge_pause *pause)
{
	uint64_t end = load_relaxed(&pause->end_ns);

	return !os_is_taking() && (likely(end == 0) || os_now_ns() >= end);
}

bool
os_may_purge(void)
{
	if (purge_is_forced())
		return os_may_purge_by_force();
	return !load_relaxed(&purge_forbidden) &&
	       pause_is_over(&purge_pauses[0]);
}

bool
os_may_purge_by_force(void)
{
	return pause_is_over(&purge_pauses[1]);
}

void
os_purge_resume(void)
{
	for (unsigned i = 0; i < 2; i++)
		store_relaxed(&purge_pauses[i].end_ns, 0);
}

/*
 * The kernel refuses MADV_DONTNEED for a range with locked pages.  From Linux
 * 5.18 on, the other advice drops locked and other pages.  A program locks
 * memory to have no page faults, so only a forced purge takes it.
 */
bool
os_purge(void *at, size_t bytes)
{
	bool forced = purge_is_forced();
	struct purge_pause *pause = &purge_pauses[forced];
	int error;

	if (!os_may_purge() || !request_count())
		return false;
	/* Functions that replace madvise() know this advice only. */
	error = take_pages(at, bytes, MADV_DONTNEED);
	if (error == -EINVAL && forced)
		error = take_pages(at, bytes, MADV_DONTNEED_LOCKED_);
	if (error == 0)
		purge_accepted(pause);
	else
		purge_refused(pause);
	return error == 0;
}

/*
 * Kernels before 6.17 unmap a fixed target before they check the source, for
 * example that it is a single mapping.  If that check fails, the target is
 * unmapped, and another thread's mmap() may occupy its address.
 *
 * Therefore the pages are first moved to a free range, where a refusal unmaps
 * nothing.  There they are a single mapping, and the kernel can refuse the
 * second move only for want of its own memory.  In that case the target is
 * mapped again, unless it is still mapped, and the pages are copied.
 *
 * QEMU, where it emulates the process, forgets that the source stays mapped:
 * there madvise() clears nothing, and system calls and some instructions fail.
 * The source is mapped again.
 *
 * A call of madvise() then says that the source has lost its pages.
 */
bool
os_move(void *to, void *via, void *from, size_t bytes)
{
	unsigned char first;

	/* Locked memory, which refuses this, would not be locked any more. */
	if (!os_may_purge() || !request_count() ||
	    kernel_call(SYS_madvise, (long)to, (long)bytes, MADV_DONTNEED, 0))
		return false;
	long at = syscall6(SYS_mremap, (long)from, (long)bytes, (long)bytes,
	    MREMAP_MAYMOVE | MREMAP_DONTUNMAP_, (long)via, 0);

	if (is_error(at))
		return false;
	if (syscall6(SYS_mremap, at, (long)bytes, (long)bytes,
		MREMAP_MAYMOVE | MREMAP_FIXED, (long)to, 0) != (long)to) {
		map_uncounted(
		    to, bytes, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE);
		memcpy(to, (void *)at, bytes);
		kernel_call(SYS_munmap, at, (long)bytes, 0, 0);
	}
	if (!os_resident(from, 1, &first))
		map_uncounted(from, bytes, PROT_READ | PROT_WRITE, MAP_FIXED);
	take_pages(from, bytes, MADV_DONTNEED);
	return true;
}

/*
 * The id of the process that owns this memory, in a page that the kernel clears
 * in a copy of the process.  A copy that a clone() system call has made
 * therefore reads 0, and the child of vfork() reads the id of its parent.
 * Kernels before 4.14 do not clear the page, and without memory for the page
 * the word is in ordinary memory.  In these cases a copy by clone() is treated
 * as a child of vfork().
 */
static uint32_t *noted_process; /* [a] set once */

static uint32_t *
process_word(void)
{
	static uint32_t ordinary;
	size_t bytes = os_page_size();
	uint32_t *word = os_map(bytes);

	if (word == NULL)
		return &ordinary;
	kernel_call(SYS_madvise, (long)word, (long)bytes, MADV_WIPEONFORK, 0);
	return word;
}

void
os_note_process(void)
{
	uint32_t *word = load_relaxed(&noted_process);

	if (os_is_confined() || (word != NULL && *word != 0))
		return;
	if (word == NULL)
		word = process_word();
	*word = os_process_id();
	/* Release: a thread that reads the pointer also reads the id. */
	store_release(&noted_process, word);
}

start_path void
os_process_after_fork(void)
{
	/* In most children both are 0, and no page is written to. */
	if (nunconfined != 0 || purge_nforced != 0)
		nunconfined = purge_nforced = 0;
	if (noted_process != NULL && !os_is_confined())
		*noted_process = os_process_id();
}

bool
os_is_process(void)
{
	const uint32_t *word = load_acquire(&noted_process);

	/* No task has been created that shares the memory. */
	if (word == NULL)
		return true;
	if (*word == 0)
		os_note_process();
	return *word == os_process_id();
}

bool
os_resident(void *at, size_t bytes, unsigned char *pages)
{
	return unconfined_call(
		   SYS_mincore, (long)at, (long)bytes, (long)pages, 0) == 0;
}

/* The kernel reads the word before it checks the timeout, which is 0. */
bool
os_readable(const void *at)
{
	struct timespec none = {0, 0};

	return kernel_call(SYS_futex, (long)at, FUTEX_WAIT_PRIVATE, ~0L,
		   (long)&none) != -EFAULT;
}

void *
os_map_file(const char *path, size_t *bytes)
{
	int fd = os_open(path);
	long size = 0, at = -1;
	struct os_file file;

	if (fd < 0)
		return NULL;
	if (os_file_of(fd, &file) && file.is_regular)
		size = kernel_call(SYS_lseek, fd, 0, SEEK_END, 0);
	if (size > 0)
		at = syscall6(SYS_mmap, 0, size, PROT_READ, MAP_PRIVATE, fd, 0);
	os_close(fd);
	if (at < 0 && at > -4096)
		return NULL;
	*bytes = (size_t)size;
	return (void *)at;
}

bool
os_charges_all(void)
{
	char mode = '0';
	bool is_limited;
	int fd;

	if (!unconfined_begin())
		return false;
	is_limited = os_limit(RLIMIT_DATA) != SIZE_MAX;
	fd = os_open("/proc/sys/vm/overcommit_memory");
	if (fd >= 0) {
		os_read(fd, &mode, 1);
		os_close(fd);
	}
	unconfined_end();
	return mode == '2' || is_limited;
}

void
os_name(void *at, size_t bytes, const char *text)
{
	if (!unconfined_begin())
		return;
	syscall6(SYS_prctl, PR_SET_VMA_, PR_SET_VMA_ANON_NAME_, (long)at,
	    (long)bytes, (long)text, 0);
	unconfined_end();
}

void
os_huge(void *at, size_t bytes, bool wanted)
{
	kernel_call(SYS_madvise, (long)at, (long)bytes,
	    wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE, 0);
}

void
os_populate(void *at, size_t bytes)
{
	kernel_call(
	    SYS_madvise, (long)at, (long)bytes, MADV_POPULATE_WRITE_, 0);
}

_Static_assert(RLIM_INFINITY == SIZE_MAX, "no limit is SIZE_MAX bytes");

size_t
os_limit(int resource)
{
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};

	kernel_call(SYS_prlimit64, 0, resource, 0, (long)&limit);
	return limit.rlim_cur;
}

bool
os_dumps_core(void)
{
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};

	unconfined_call(SYS_prlimit64, 0, RLIMIT_CORE, 0, (long)&limit);
	return limit.rlim_cur != 0;
}

size_t
os_ram(void)
{
	struct sysinfo info = {0};

	if (is_error(kernel_call(SYS_sysinfo, (long)&info, 0, 0, 0)))
		return GIB;
	return (size_t)info.totalram * info.mem_unit;
}

/* Large enough for 8192 CPUs, the limit of the kernel on x86-64. */
struct cpu_mask {
	uint64_t bits[128];
};

/*
 * The CPUs on which the process might run at its start.  On most machines they
 * are in one word; on others the start maps memory for them.
 */
static struct {
	uint64_t word;
	struct cpu_mask *many; /* NULL: the set is in the word */
	unsigned mask_bytes;   /* of the kernel's mask; 0: not known */
} start_cpus written_early;

/*
 * Store the set of CPUs on which the process may run.  Returns the number of
 * bytes of the kernel's CPU mask, or 0 on failure.
 */
static unsigned
cpu_mask_get(struct cpu_mask *mask)
{
	long n =
	    kernel_call(SYS_sched_getaffinity, 0, sizeof(*mask), (long)mask, 0);

	return is_error(n) ? 0 : (unsigned)n;
}

start_path void
os_note_start_cpus(void)
{
	struct cpu_mask mask = {{0}};
	unsigned n = cpu_mask_get(&mask) / sizeof(mask.bits[0]);

	start_cpus.mask_bytes = n * sizeof(mask.bits[0]);
	start_cpus.word = mask.bits[0];
	while (n > 1 && mask.bits[n - 1] == 0)
		n--;
	if (n > 1 && (start_cpus.many = os_map(sizeof(mask))) != NULL)
		*start_cpus.many = mask;
}

void
os_thread_ordinary(void)
{
	struct sched_param none = {0};

	if (!unconfined_begin())
		return;
	kernel_call(SYS_sched_setscheduler, 0, SCHED_OTHER, (long)&none, 0);
	kernel_call(SYS_setpriority, PRIO_PROCESS, 0, 0, 0);
	if (start_cpus.many != NULL)
		kernel_call(SYS_sched_setaffinity, 0, start_cpus.mask_bytes,
		    (long)start_cpus.many, 0);
	else
		kernel_call(SYS_sched_setaffinity, 0, sizeof(start_cpus.word),
		    (long)&start_cpus.word, 0);
	unconfined_end();
}

unsigned
os_cpu_slots(void)
{
	if (start_cpus.mask_bytes == 0)
		os_note_start_cpus();
	return start_cpus.mask_bytes == 0 ? 1024 : start_cpus.mask_bytes * 8;
}

unsigned
os_cpus_allowed(void)
{
	struct cpu_mask mask = {{0}};
	unsigned n = cpu_mask_get(&mask) / sizeof(mask.bits[0]);
	unsigned ncpus = 0;

	for (unsigned i = 0; i < n; i++)
		ncpus += (unsigned)__builtin_popcountll(mask.bits[i]);
	return ncpus == 0 ? 1 : ncpus;
}

unsigned
os_cpu(void)
{
	int cpu = sched_getcpu();

	return cpu < 0 ? 0 : (unsigned)cpu;
}

static int
clock_by_system_call(clockid_t clock, struct timespec *now)
{
	return (int)kernel_call(SYS_clock_gettime, clock, (long)now, 0, 0);
}

/*
 * Not clock_gettime() of libc: a function of this name in the program or in
 * another library may allocate, or tell another time.
 */
static uint64_t
clock_ns(clockid_t clock)
{
	static vdso_clock *known; /* [a] NULL before the first use */
	vdso_clock *read = load_relaxed(&known);
	struct timespec now = {0};

	if (unlikely(read == NULL)) {
		read = vdso_find_clock();
		if (read == NULL)
			read = clock_by_system_call;
		store_relaxed(&known, read);
	}
	read(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t
os_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC_COARSE);
}

uint64_t
os_exact_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint32_t
os_thread_id(void)
{
	return (uint32_t)kernel_call(SYS_gettid, 0, 0, 0, 0);
}

void
os_thread_name(const char *name)
{
	unconfined_call(SYS_prctl, PR_SET_NAME, (long)name, 0, 0);
}

void
os_yield(void)
{
	unconfined_call(SYS_sched_yield, 0, 0, 0, 0);
}

void
os_thread_name_get(char name[OS_THREAD_NAME_BYTES])
{
	name[0] = '\0';
	unconfined_call(SYS_prctl, PR_GET_NAME, (long)name, 0, 0);
}

static bool explains_faults written_early;

/*
 * Restores the default action.  An access faults again after the return; a
 * signal of another origin is sent again, with the same origin.
 */
static void
fault_handler(int number, siginfo_t *info, void *context)
{
	struct sigaction action = {.sa_handler = SIG_DFL};
	int before = errno;

	if (info->si_code == SEGV_MAPERR || info->si_code == SEGV_ACCERR) {
		struct os_fault fault = {.address = info->si_addr,
		    .pc = context_pc(context),
		    .access = context_access(context)};

		panic_hooks.explain(&fault);
	}
	sigaction(SIGSEGV, &action, NULL);
	if (info->si_code <= 0)
		kernel_call(SYS_rt_tgsigqueueinfo,
		    kernel_call(SYS_getpid, 0, 0, 0, 0),
		    kernel_call(SYS_gettid, 0, 0, 0, 0), number, (long)info);
	errno = before;
}

/* Uses libc's function, because a handler needs a function to return by. */
static void
fault_handle(void)
{
	struct sigaction action;
	int before = errno;

	if (os_is_confined())
		return;
	if (sigaction(SIGSEGV, NULL, &action) == 0 &&
	    (action.sa_flags & SA_SIGINFO) == 0 &&
	    action.sa_handler == SIG_DFL) {
		/* The handler blocks all signals. */
		memset(&action.sa_mask, 0xff, sizeof(action.sa_mask));
		action.sa_sigaction = fault_handler;
		action.sa_flags = SA_SIGINFO;
		sigaction(SIGSEGV, &action, NULL);
	}
	errno = before;
}

void
os_explain_faults(void)
{
	explains_faults = true;
	if (os_libc_is_ready())
		fault_handle();
}

start_path bool
os_constructed(void)
{
	store_relaxed(&constructed, true);
	if (explains_faults)
		fault_handle();
	return &__tsan_init != NULL;
}

uint32_t
os_process_id(void)
{
	return (uint32_t)kernel_call(SYS_getpid, 0, 0, 0, 0);
}

start_path bool
os_file_of(int fd, struct os_file *file)
{
	struct stat info = {0};

	if (kernel_call(SYS_fstat, fd, (long)&info, 0, 0) != 0)
		return false;
	file->device = info.st_dev;
	file->inode = info.st_ino;
	file->is_character = S_ISCHR(info.st_mode);
	file->is_pipe = S_ISFIFO(info.st_mode);
	file->is_regular = S_ISREG(info.st_mode);
	return true;
}

bool
os_is_inherited(int fd)
{
	long flags = kernel_call(SYS_fcntl, fd, F_GETFD, 0, 0);

	return flags >= 0 && (flags & FD_CLOEXEC) == 0;
}

int
os_open(const char *path)
{
	return (int)kernel_call(SYS_openat, AT_FDCWD, (long)path,
	    O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
}

size_t
os_read(int fd, void *buffer, size_t n)
{
	long done;

	do
		done = kernel_call(SYS_read, fd, (long)buffer, (long)n, 0);
	while (done == -EINTR);
	return done > 0 ? (size_t)done : 0;
}

void
os_close(int fd)
{
	kernel_call(SYS_close, fd, 0, 0, 0);
}

/* Is the path in a folder in which only the system makes links? */
static bool
is_system_link(const char *path)
{
	/* Without pointers, which the loader would relocate. */
	static const char folders[][16] = {
	    "/dev/", "/dev/fd/", "/proc/self/fd/"};

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		const char *name = path + strlen(folders[i]);

		if (string_begins_with(path, folders[i]) &&
		    name[string_span(name, "/")] == '\0')
			return true;
	}
	return false;
}

int
os_open_append(const char *path)
{
	int follow = is_system_link(path) ? 0 : O_NOFOLLOW;
	int fd = (int)kernel_call(SYS_openat, AT_FDCWD, (long)path,
	    follow | O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK |
		O_NOCTTY,
	    S_IRUSR | S_IWUSR);
	struct os_file file;

	if (fd < 0)
		return fd;
	if (os_file_of(fd, &file) &&
	    (file.is_regular || file.is_character || file.is_pipe))
		return fd;
	os_close(fd);
	return -EINVAL;
}

bool
os_working_directory(char *text, size_t n)
{
	return kernel_call(SYS_getcwd, (long)text, (long)n, 0, 0) > 0 &&
	       text[0] == '/';
}

int
os_write(int fd, const void *text, size_t n)
{
	const char *at = text;

	while (n > 0) {
		long done = kernel_call(SYS_write, fd, (long)at, (long)n, 0);

		if (done == -EINTR)
			continue;
		if (done <= 0)
			return done == 0 ? EIO : (int)-done;
		at += done;
		n -= (size_t)done;
	}
	return 0;
}

void
os_abort(void)
{
	struct {
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(void);
		uint64_t mask;
	} action = {0};
	uint64_t mask = (uint64_t)1 << (SIGABRT - 1);
	long process = kernel_call(SYS_getpid, 0, 0, 0, 0);
	long thread = kernel_call(SYS_gettid, 0, 0, 0, 0);

	/* A handler of the program runs once; then the default action. */
	for (;;) {
		kernel_call(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&mask, 0,
		    sizeof(mask));
		kernel_call(SYS_tgkill, process, thread, SIGABRT, 0);
		kernel_call(SYS_rt_sigaction, SIGABRT, (long)&action, 0,
		    sizeof(action.mask));
	}
}

void
os_futex_wait(uint32_t *word, uint32_t value, uint64_t ns)
{
	struct timespec time = {.tv_sec = (time_t)(ns / 1000000000),
	    .tv_nsec = (long)(ns % 1000000000)};

	kernel_call(SYS_futex, (long)word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG,
	    value, ns == 0 ? 0 : (long)&time);
}

bool
os_futex_await(uint32_t *word, uint32_t value, uint64_t ns)
{
	uint64_t now = os_exact_ns(), end = now + ns;

	for (; load_acquire(word) == value && now < end; now = os_exact_ns())
		os_futex_wait(word, value, end - now);
	return load_acquire(word) != value;
}

bool
os_futex_wake(uint32_t *word, unsigned nwaiters)
{
	return kernel_call(SYS_futex, (long)word,
		   FUTEX_WAKE | FUTEX_PRIVATE_FLAG, nwaiters, 0) > 0;
}

uint32_t
os_copy_process(void)
{
	long copy;

	if (!unconfined_begin())
		return 0;
	/* The last byte of the flags is the signal at the end: none. */
	copy = kernel_call(SYS_clone, CLONE_FILES | CLONE_FS, 0, 0, 0);
	if (copy == 0)
		kernel_call(SYS_exit_group, 0, 0, 0, 0);
	unconfined_end();
	return is_error(copy) ? 0 : (uint32_t)copy;
}

bool
os_reap_copy(uint32_t copy)
{
	/* A confined process keeps the remains of the copy until it ends. */
	return unconfined_call(
		   SYS_wait4, (long)copy, 0, WNOHANG | __WCLONE, 0) != 0;
}

unsigned long
os_auxv(unsigned long type)
{
	int saved = errno;
	unsigned long value = getauxval(type);

	errno = saved;
	return value;
}

/*
 * The kernel writes the name of the program to the end of the stack.  Without
 * randomisation, this is the end of the address space or the page before.  No
 * system call is needed, so no filter can forbid it.
 */
bool
os_addresses_are_random(void)
{
	uintptr_t name = os_auxv(AT_EXECFN);

	return name == 0 || ((uintptr_t)2 << highbit(name)) - name >
				2 * os_page_size() + PATH_MAX;
}

uint64_t
os_random(void)
{
	const unsigned char *bytes = (const void *)os_auxv(AT_RANDOM);
	uint64_t value = 0;

	if (!os_addresses_are_random())
		return 0;
	for (int i = 0; bytes != NULL && i < 16; i++)
		value = hash_multiply(value) + bytes[i];
	return value ^ value >> 32;
}

uint32_t
os_version_of(const char *release)
{
	uint32_t part[3] = {0};

	for (int i = 0; i < 3; i++) {
		while (*release >= '0' && *release <= '9' && part[i] < 1000)
			part[i] = part[i] * 10 + (uint32_t)(*release++ - '0');
		if (part[i] > 1023)
			part[i] = 1023;
		if (*release++ != '.')
			break;
	}
	return OS_VERSION(part[0], part[1], part[2]);
}

uint32_t
os_kernel_version(void)
{
	struct utsname name = {.release = ""};

	if (is_error(kernel_call(SYS_uname, (long)&name, 0, 0, 0)))
		return 0;
	return os_version_of(name.release);
}

bool
os_rseq_register(void *area, uint32_t bytes, uint32_t signature)
{
	return kernel_call(SYS_rseq, (long)area, bytes, 0, signature) == 0;
}

bool
os_rseq_allowed(void)
{
	return kernel_call(SYS_rseq, 0, 0, SYS_rseq_flags_unknown, 0) ==
	       -EINVAL;
}

bool
os_rseq_is_held(void)
{
	return kernel_call(SYS_rseq, -4096, 32, 0, 0) != -EFAULT;
}

bool
os_rseq_unregister(void *area, uint32_t bytes, uint32_t signature)
{
	return kernel_call(SYS_rseq, (long)area, bytes,
		   SYS_rseq_flags_unregister, signature) == 0;
}

bool
os_membarrier_ready(void)
{
	return request_count() &&
	       kernel_call(SYS_membarrier,
		   MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0,
		   0) == 0;
}

unsigned
os_memory_nodes(void)
{
	uint64_t allowed[KERNEL_NODES / 64] = {0};
	int mode = MPOL_INTERLEAVE_;

	if (is_error(syscall6(SYS_get_mempolicy, 0, (long)allowed, KERNEL_NODES,
		0, MPOL_F_MEMS_ALLOWED_, 0)) ||
	    (allowed[0] & (allowed[0] - 1)) == 0)
		return 1;
	syscall6(SYS_get_mempolicy, (long)&mode, 0, 0, 0, 0, 0);
	mode &= MPOL_MODES;
	return mode == MPOL_INTERLEAVE_ || mode == MPOL_WEIGHTED_INTERLEAVE_
		   ? 1
		   : highbit(allowed[0]) + 1;
}

bool
os_membarrier_rseq(void)
{
	return request_count() &&
	       unconfined_call(SYS_membarrier,
		   MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0, 0) == 0;
}

long
os_unshare(int flags, int unused)
{
	(void)unused;
	return kernel_call(SYS_unshare, flags, 0, 0, 0);
}

long
os_setns(int fd, int type)
{
	return kernel_call(SYS_setns, fd, type, 0, 0);
}

long
os_prctl(int option, const unsigned long arg[4])
{
	return syscall6(SYS_prctl, option, (long)arg[0], (long)arg[1],
	    (long)arg[2], (long)arg[3], 0);
}
