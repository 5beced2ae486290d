/*
 * demangle.c - names of C++ and Rust functions, by libiberty
 *
 * libiberty knows C++ and both of Rust's schemes, and can leave out the types
 * of parameters, which are often longer than a line; libstdc++'s
 * __cxa_demangle() does neither.
 *
 * A short symbol can stand for an endless name, because a part of a name may
 * repeat all earlier parts.  Therefore the name is put together in a buffer of
 * limited size, and libiberty is left by longjmp() when the buffer is full.
 */
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

#include "tools/inspect/symbols/demangle.h"

/* Three lines of a wide terminal.  Names of templates can be longer. */
#define NAME_BYTES_MAX 600

static char name[NAME_BYTES_MAX + sizeof("...")];
static size_t name_bytes;
static bool name_is_rust;
static jmp_buf name_is_full;

static void
demangled_add(const char *text, size_t n, void *arg)
{
	size_t left = NAME_BYTES_MAX - name_bytes;

	(void)arg;
	memcpy(name + name_bytes, text, n < left ? n : left);
	name_bytes += n < left ? n : left;
	if (n > left)
		longjmp(name_is_full, 1);
}

/* Puts the name together from a mangled symbol, or else from the symbol. */
static void
demangle(const char *symbol)
{
	bool is_mangled = symbol[0] == '_' && strchr("ZR", symbol[1]) != NULL;

	name_bytes = 0;
	name_is_rust = is_mangled;
	if (is_mangled &&
	    rust_demangle_callback(symbol, DMGL_NO_OPTS, demangled_add, NULL))
		return;
	name_is_rust = false;
	name_bytes = 0;
	if (is_mangled && cplus_demangle_v3_callback(
			      symbol, DMGL_NO_OPTS, demangled_add, NULL))
		return;
	name_bytes = 0;
	demangled_add(symbol, strcspn(symbol, "@"), NULL);
}

const char *
demangle_symbol(const char *symbol, bool *is_rust)
{
	bool fits = setjmp(name_is_full) == 0;

	if (fits)
		demangle(symbol);
	*is_rust = name_is_rust;
	memcpy(name + name_bytes, fits ? "" : "...", fits ? 1 : 4);
	return name;
}
