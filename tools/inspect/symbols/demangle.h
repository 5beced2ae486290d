/* demangle.h - names of C++ and Rust functions; see demangle.c */
#ifndef TOOLS_DEMANGLE_H
#define TOOLS_DEMANGLE_H

#include <stdbool.h>

/*
 * Returns the name of a function as its source has it, without the types of its
 * parameters and without the version of its symbol.  A very long name is cut
 * and ends in "...".  The text is valid until the next call.  Sets *is_rust if
 * rustc has made the symbol.
 */
const char *demangle_symbol(const char *symbol, bool *is_rust);

#endif
