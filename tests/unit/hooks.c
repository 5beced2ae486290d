/* hooks.c - see hooks.h */
#include <check.h>
#include <pthread.h>

#include "magazine/magazine.h"
#include "tests/unit/hooks.h"
#include "umem/base/page_map.h"
#include "vmem/heap.h"
#include "vmem/os.h"

void (*hook_heap_freed)(void *at, size_t bytes);
void (*hook_meta_freed)(void *at, size_t bytes);
void (*hook_lock_released)(struct lock *lock);
void (*hook_os_purge)(void *at, size_t bytes);
void (*hook_os_futex_wait)(const uint32_t *word);
void (*hook_pthread_created)(void);
void (*hook_magazine_install)(void);
uint64_t hook_now_ns;
bool hook_charges_all;
uint32_t hook_kernel_version;
size_t hook_page_size;
void *hook_taken;

void __real_heap_free(void *at, size_t bytes);
void __real_meta_free(void *at, size_t bytes);
bool __real_os_purge(void *at, size_t bytes);
uint64_t __real_os_now_ns(void);
bool __real_os_charges_all(void);
uint32_t __real_os_kernel_version(void);
size_t __real_os_page_size(void);
bool __real_os_resident(void *at, size_t bytes, unsigned char *pages);
void __real_os_futex_wait(uint32_t *word, uint32_t value, uint64_t ns);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
    void *(*run)(void *), void *arg);
void __real_lock_release(struct lock *lock);
void __real_magazine_install(struct magazine_layer *layer, struct magazine *m);
void __real__mark_point(const char *file, int line);

void
__wrap_heap_free(void *at, size_t bytes)
{
	__real_heap_free(at, bytes);
	if (hook_heap_freed != NULL)
		hook_heap_freed(at, bytes);
}

void
__wrap_meta_free(void *at, size_t bytes)
{
	__real_meta_free(at, bytes);
	if (hook_meta_freed != NULL)
		hook_meta_freed(at, bytes);
}

void
__wrap_lock_release(struct lock *lock)
{
	__real_lock_release(lock);
	if (unlikely(hook_lock_released != NULL))
		hook_lock_released(lock);
}

bool
__wrap_os_purge(void *at, size_t bytes)
{
	if (hook_os_purge != NULL)
		hook_os_purge(at, bytes);
	return __real_os_purge(at, bytes);
}

uint64_t
__wrap_os_now_ns(void)
{
	return hook_now_ns != 0 ? hook_now_ns : __real_os_now_ns();
}

bool
__wrap_os_charges_all(void)
{
	return hook_charges_all || __real_os_charges_all();
}

uint32_t
__wrap_os_kernel_version(void)
{
	return hook_kernel_version != 0 ? hook_kernel_version
					: __real_os_kernel_version();
}

size_t
__wrap_os_page_size(void)
{
	return hook_page_size != 0 ? hook_page_size : __real_os_page_size();
}

bool
__wrap_os_resident(void *at, size_t bytes, unsigned char *pages)
{
	return hook_page_size == 0 && __real_os_resident(at, bytes, pages);
}

void
__wrap_os_futex_wait(uint32_t *word, uint32_t value, uint64_t ns)
{
	if (hook_os_futex_wait != NULL)
		hook_os_futex_wait(word);
	__real_os_futex_wait(word, value, ns);
}

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
    void *(*run)(void *), void *arg)
{
	int error = __real_pthread_create(thread, attr, run, arg);

	if (error == 0 && hook_pthread_created != NULL)
		hook_pthread_created();
	return error;
}

void
__wrap_magazine_install(struct magazine_layer *layer, struct magazine *mag)
{
	if (hook_magazine_install != NULL)
		hook_magazine_install();
	__real_magazine_install(layer, mag);
}

/*
 * Check writes the place of each assertion that holds to a file, for the report
 * of a crash.  A test with many does without the later ones.
 */
void
__wrap__mark_point(const char *file, int line)
{
	static unsigned nmarks;

	if (__atomic_fetch_add(&nmarks, 1, __ATOMIC_RELAXED) < 1000)
		__real__mark_point(file, line);
}

void
hook_take_again(void *at, size_t bytes)
{
	bool zeroed;

	hook_heap_freed = NULL;
	hook_taken = NULL;
	/* The heap may hand out other free spans of that length first. */
	for (unsigned i = 0; i < 1000 && hook_taken != at; i++)
		hook_taken = heap_alloc(bytes, HEAP_UNIT, &zeroed);
	ck_assert_ptr_eq(hook_taken, at);
	page_map_enter_large(at, bytes);
}
