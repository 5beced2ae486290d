/* demangle.h - names of C++ and Rust functions; see demangle.c */
#ifndef TOOLS_DEMANGLE_H
#define TOOLS_DEMANGLE_H

/*
 * Returns the name of a function as its source has it, without the types of its
 * parameters and without the version of its symbol.  A very long name is cut
 * and ends in "...".  The text is valid until the next call.
 */
const char *demangle_symbol(const char *symbol);

#endif
