/*
 * operators.c - the C++ operators new and delete
 *
 * Out of memory
 *	The program's own C++ library handles the failure: its operator new
 *	calls malloc() again, calls the new-handler and throws.  The library is
 *	looked up only then, so that no C program loads a C++ library.
 *
 * Programs that replace operators
 *	A program may replace some of the operators and not others.  The
 *	operators that it does not replace then behave as the standard says
 *	([new.delete]): the array, sized and nothrow forms call the plain forms,
 *	even if the program has replaced these.  Therefore the derived forms
 *	compare, before they take the fast path, the address that the plain
 *	form's name resolves to in the process (umem/preempted.list permits
 *	that it is another one) with the address of umem's own function.
 *
 * Programs with an allocator of their own
 *	If malloc(), free() or aligned_alloc() is not umem's in the process, the
 *	operators call it by its name, because a block of new may go to free(),
 *	and a block of malloc() to delete.
 *
 * Kinds
 *	A debugged block records whether it was allocated by malloc(), new or
 *	new[], and must be freed by the matching function.  The slow paths
 *	check this; a block that is not debugged has no kind.  If the program
 *	has replaced any of the operators, or malloc() or free(), all operators
 *	use malloc()'s kind, because memory from umem may go through the
 *	program's own delete to free().
 */
#include <dlfcn.h>

#include "umem/malloc/archive.h"
#include "umem/malloc/alloc.h"
#include "umem/debug/debug.h"
#include "umem/malloc/replaced.h"
#include "umem/cache/misuse.h"
#include "vmem/panic.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* The plain forms, from which other forms are derived. */
REPLACEABLE(void *, _Znwm, size_t size);
REPLACEABLE(void *, _Znam, size_t size);
REPLACEABLE(void *, _ZnwmSt11align_val_t, size_t size, size_t align);
REPLACEABLE(void *, _ZnamSt11align_val_t, size_t size, size_t align);
REPLACEABLE(void, _ZdlPv, void *p);
REPLACEABLE(void, _ZdaPv, void *p);
REPLACEABLE(void, _ZdlPvSt11align_val_t, void *p, size_t align);
REPLACEABLE(void, _ZdaPvSt11align_val_t, void *p, size_t align);

REPLACEABLE_HERE(_Znwm);
REPLACEABLE_HERE(_Znam);
REPLACEABLE_HERE(_ZnwmSt11align_val_t);
REPLACEABLE_HERE(_ZnamSt11align_val_t);
REPLACEABLE_HERE(_ZdlPv);
REPLACEABLE_HERE(_ZdaPv);
REPLACEABLE_HERE(_ZdlPvSt11align_val_t);
REPLACEABLE_HERE(_ZdaPvSt11align_val_t);

static void *
next_symbol(const char *name)
{
	static const char *const libraries[] = {
	    "libstdc++.so.6", "libc++.so.1"};
	void *symbol = dlsym(RTLD_NEXT, name);
	void *(*open)(const char *, int);

	/* By its name, because a linker warns of it in static programs. */
	*(void **)&open = dlsym(RTLD_DEFAULT, "dlopen");
	/* dlopen() may have loaded the library, for a plug-in alone. */
	for (size_t i = 0; symbol == NULL && i < array_size(libraries); i++) {
		void *library = open(libraries[i], RTLD_LAZY | RTLD_NOLOAD);

		if (library != NULL) {
			symbol = dlsym(library, name);
			dlclose(library);
		}
	}
	return symbol;
}

/*
 * Where the operators of the C++ library are not to be had: calls the
 * new-handler until there is memory, as they do, if a static program has one.
 * A form that must not throw calls no handler, which might throw.
 */
static cold_path void *
new_without_next(size_t size, size_t align, bool is_nothrow)
{
	void (*handler)(void);
	void *p;

	if (is_nothrow)
		return NULL;
	if (archive_next.throw_bad_alloc != NULL) {
		while (archive_next.get_new_handler != NULL &&
		       (handler = archive_next.get_new_handler()) != NULL) {
			handler();
			p = align == 0
				? malloc(size)
				: aligned_alloc(align, align_up(size, align));
			if (p != NULL)
				return p;
		}
		archive_next.throw_bad_alloc();
	}
	misuse("operator new", NULL, "no memory, and no C++ library");
}

/*
 * Calls the form of the C++ library, which calls the new-handler.  A form that
 * throws must be there; without a nothrow form, which can catch exceptions that
 * others throw, the result is NULL.  align is 0 for a form without one.
 */
static cold_path void *
next_new(const char *name, size_t size, size_t align, bool is_nothrow)
{
	static const char nothrow;
	void *(*plain)(size_t, const void *);
	void *(*aligned)(size_t, size_t, const void *);
	void *next = archive_is_static() ? NULL : next_symbol(name);

	/* These forms round the size up to a multiple of the alignment. */
	if (align != 0)
		store_relaxed(&debug.sizes_are_relaxed, true);
	if (next == NULL)
		return new_without_next(size, align, is_nothrow);
	*(void **)&plain = next;
	*(void **)&aligned = next;
	/* A form that throws ignores the last argument. */
	return align == 0 ? plain(size, &nothrow)
			  : aligned(size, align, &nothrow);
}

/*
 * Returns a size that the C++ library can round up to any alignment without
 * exceeding SIZE_MAX, and that aligned_alloc() refuses, too.  Otherwise the
 * library's own rounding of a size near SIZE_MAX wraps, and it returns a block
 * of one alignment's bytes.
 */
static size_t
size_without_wrap(size_t size)
{
	return size > PTRDIFF_MAX ? (size_t)PTRDIFF_MAX + 1 : size;
}

static cold_path void *
new_failed(size_t size, size_t align, bool is_nothrow)
{
	static const char names[2][2][40] = {{"_Znwm", "_ZnwmRKSt9nothrow_t"},
	    {"_ZnwmSt11align_val_t", "_ZnwmSt11align_val_tRKSt9nothrow_t"}};

	if (align != 0)
		size = size_without_wrap(size);
	return next_new(names[align != 0][is_nothrow], size, align, is_nothrow);
}

/*
 * The operator of a program with an allocator of its own: it is made of the
 * public functions, as that of the C++ library is.
 */
static cold_path void *
foreign_new(size_t size, size_t align, bool is_nothrow)
{
	size_t bytes = size_without_wrap(size == 0 ? 1 : size);
	void *p = align == 0 ? malloc(bytes)
			     : aligned_alloc(align, align_up(bytes, align));

	return p != NULL ? p : new_failed(size, align, is_nothrow);
}

/* Returns the kind of a block that an operator allocates or frees. */
static unsigned
operator_kind(unsigned kind)
{
	umem_assert(kind == API_NEW || kind == API_ARRAY);
	if (is_replaced(malloc) || is_replaced(free) ||
	    is_replaced(aligned_alloc) || is_replaced(_Znwm) ||
	    is_replaced(_Znam) || is_replaced(_ZdlPv) || is_replaced(_ZdaPv) ||
	    is_replaced(_ZnwmSt11align_val_t) ||
	    is_replaced(_ZnamSt11align_val_t) ||
	    is_replaced(_ZdlPvSt11align_val_t) ||
	    is_replaced(_ZdaPvSt11align_val_t))
		return API_MALLOC;
	return kind;
}

static noinline void *
new_slow(size_t size, size_t align, unsigned kind, bool is_nothrow)
{
	unsigned own = operator_kind(kind);
	void *p = align == 0 ? alloc_hardened(size, own) : NULL;

	if (p != NULL)
		return p;
	p = align == 0 ? alloc_slow(size) : alloc_aligned(size, align);
	if (unlikely(p == NULL))
		p = new_failed(size, align, is_nothrow);
	alloc_set_kind(p, own);
	return p;
}

static inline void *
new_plain(size_t size, unsigned kind, bool is_nothrow)
{
	void *object;

	if (is_replaced(malloc))
		return foreign_new(size, 0, is_nothrow);
	return alloc_get_fast(size, &object)
		   ? object
		   : new_slow(size, 0, kind, is_nothrow);
}

static inline void *
new_aligned(size_t size, size_t align, unsigned kind, bool is_nothrow)
{
	void *p;

	if (is_replaced(aligned_alloc))
		return foreign_new(size, align, is_nothrow);
	p = alloc_aligned_fast(size, align);
	return likely(p != NULL) ? p : new_slow(size, align, kind, is_nothrow);
}

static const char *
delete_api_name(unsigned kind)
{
	umem_assert(kind == API_NEW || kind == API_ARRAY);
	return kind == API_NEW ? "operator delete" : "operator delete[]";
}

static noinline void
delete_slow(void *p, unsigned kind)
{
	alloc_free_as(p, operator_kind(kind), delete_api_name(kind));
}

static noinline void
delete_sized_slow(void *p, size_t size, unsigned kind)
{
	alloc_free_sized(p, size, operator_kind(kind), delete_api_name(kind));
}

/*
 * is_foreign: the program has an allocator of its own for the block.  Without
 * an aligned_alloc() of the program, an aligned block is the library's.
 */
static inline void
delete_plain(void *p, unsigned kind, bool is_foreign)
{
	if (is_foreign)
		free(p);
	else if (!alloc_free_fast(p))
		delete_slow(p, kind);
}

static inline void
delete_sized(void *p, size_t size, unsigned kind)
{
	if (is_replaced(free))
		free(p);
	else if (!alloc_free_sized_fast(p, size))
		delete_sized_slow(p, size, kind);
}

static void
delete_aligned(void *p, size_t align, size_t size, unsigned kind)
{
	if (is_replaced(aligned_alloc))
		free(p);
	else
		alloc_free_aligned(
		    p, align, size, operator_kind(kind), delete_api_name(kind));
}

/* new, new[] */

public void *
_Znwm(size_t size)
{
	return new_plain(size, API_NEW, false);
}

public void *
_Znam(size_t size)
{
	if (is_replaced(_Znwm))
		return _Znwm(size);
	return new_plain(size, API_ARRAY, false);
}

public void *
_ZnwmRKSt9nothrow_t(size_t size, const void *nothrow)
{
	(void)nothrow;
	if (is_replaced(_Znwm))
		return next_new("_ZnwmRKSt9nothrow_t", size, 0, true);
	return new_plain(size, API_NEW, true);
}

public void *
_ZnamRKSt9nothrow_t(size_t size, const void *nothrow)
{
	(void)nothrow;
	if (is_replaced(_Znam) || is_replaced(_Znwm))
		return next_new("_ZnamRKSt9nothrow_t", size, 0, true);
	return new_plain(size, API_ARRAY, true);
}

public void *
_ZnwmSt11align_val_t(size_t size, size_t align)
{
	return new_aligned(size, align, API_NEW, false);
}

public void *
_ZnamSt11align_val_t(size_t size, size_t align)
{
	if (is_replaced(_ZnwmSt11align_val_t))
		return _ZnwmSt11align_val_t(size, align);
	return new_aligned(size, align, API_ARRAY, false);
}

public void *
_ZnwmSt11align_val_tRKSt9nothrow_t(
    size_t size, size_t align, const void *nothrow)
{
	(void)nothrow;
	if (is_replaced(_ZnwmSt11align_val_t))
		return next_new(
		    "_ZnwmSt11align_val_tRKSt9nothrow_t", size, align, true);
	return new_aligned(size, align, API_NEW, true);
}

public void *
_ZnamSt11align_val_tRKSt9nothrow_t(
    size_t size, size_t align, const void *nothrow)
{
	(void)nothrow;
	if (is_replaced(_ZnamSt11align_val_t) ||
	    is_replaced(_ZnwmSt11align_val_t))
		return next_new(
		    "_ZnamSt11align_val_tRKSt9nothrow_t", size, align, true);
	return new_aligned(size, align, API_ARRAY, true);
}

/* delete, delete[] */

public void
_ZdlPv(void *p)
{
	delete_plain(p, API_NEW, is_replaced(free));
}

public void
_ZdaPv(void *p)
{
	if (is_replaced(_ZdlPv))
		_ZdlPv(p);
	else
		delete_plain(p, API_ARRAY, is_replaced(free));
}

public void
_ZdlPvm(void *p, size_t size)
{
	if (is_replaced(_ZdlPv))
		_ZdlPv(p);
	else
		delete_sized(p, size, API_NEW);
}

public void
_ZdaPvm(void *p, size_t size)
{
	if (is_replaced(_ZdaPv) || is_replaced(_ZdlPv))
		_ZdaPv(p);
	else
		delete_sized(p, size, API_ARRAY);
}

public void
_ZdlPvRKSt9nothrow_t(void *p, const void *nothrow)
{
	(void)nothrow;
	_ZdlPv(p);
}

public void
_ZdaPvRKSt9nothrow_t(void *p, const void *nothrow)
{
	(void)nothrow;
	_ZdaPv(p);
}

public void
_ZdlPvSt11align_val_t(void *p, size_t align)
{
	(void)align;
	delete_plain(p, API_NEW, is_replaced(aligned_alloc));
}

public void
_ZdaPvSt11align_val_t(void *p, size_t align)
{
	if (is_replaced(_ZdlPvSt11align_val_t))
		_ZdlPvSt11align_val_t(p, align);
	else
		delete_plain(p, API_ARRAY, is_replaced(aligned_alloc));
}

public void
_ZdlPvmSt11align_val_t(void *p, size_t size, size_t align)
{
	if (is_replaced(_ZdlPvSt11align_val_t))
		_ZdlPvSt11align_val_t(p, align);
	else
		delete_aligned(p, align, size, API_NEW);
}

public void
_ZdaPvmSt11align_val_t(void *p, size_t size, size_t align)
{
	if (is_replaced(_ZdaPvSt11align_val_t) ||
	    is_replaced(_ZdlPvSt11align_val_t))
		_ZdaPvSt11align_val_t(p, align);
	else
		delete_aligned(p, align, size, API_ARRAY);
}

public void
_ZdlPvSt11align_val_tRKSt9nothrow_t(void *p, size_t align, const void *nothrow)
{
	(void)nothrow;
	_ZdlPvSt11align_val_t(p, align);
}

public void
_ZdaPvSt11align_val_tRKSt9nothrow_t(void *p, size_t align, const void *nothrow)
{
	(void)nothrow;
	_ZdaPvSt11align_val_t(p, align);
}
