/* symbols.h - names of code addresses of the target; see symbols.c */
#ifndef TOOLS_SYMBOLS_H
#define TOOLS_SYMBOLS_H

#include "tools/inspect/target/target.h"

/*
 * Marks the address of an instruction itself, where the functions below take
 * return addresses: that of the instruction that faults.
 */
#define SYMBOL_EXACT ((uint64_t)1 << 63)

/* The object of a frame whose code was generated at run time. */
#define SYMBOL_JIT "[JIT]"

/*
 * Returns "program`function+0x1c", or the known part of it.  The text stays
 * valid.  pc is a return address.
 */
const char *symbol_name(struct target *target, uint64_t pc);

/* A function that was active at a return address. */
struct symbol_frame {
	const char *name;     /* "program`function+0x1c"; inlined: no offset */
	const char *object;   /* "program", or NULL */
	const char *function; /* or NULL */
	const char *line;     /* "file.c:12", or NULL */
	const char *path; /* of that file, as the compiler has it; or NULL */
	bool is_rust;     /* its symbol is one of rustc */
	bool is_inlined;  /* by the compiler, into the next frame */
	unsigned kinds;   /* frames_kinds() */
};

/*
 * Returns the functions of a return address, and sets *n to their number: those
 * that the compiler has inlined there, innermost first, and then the function
 * of symbol_name().
 */
const struct symbol_frame *symbol_frames(
    struct target *target, uint64_t pc, size_t *n);

/* Prints these functions, a line each, indented by this number of blanks. */
void symbol_print(struct target *target, uint64_t pc, int indent);

/*
 * Stores up to n addresses of the stack of a thread of a core, the innermost
 * first, and returns their number.  They are return addresses, or SYMBOL_EXACT.
 * If the thread has called an address without code, that address is the first.
 */
size_t symbol_unwind(struct target *target, const struct thread *thread,
    uint64_t *pcs, size_t n);

/* Frees the files of a target, of which no name is looked up any more. */
void symbols_close(struct target *target);

/* Has a function of a stack, of so many addresses, the text in its name? */
bool symbols_match(struct target *target, unsigned depth, const uint64_t *stack,
    const char *text);

/* Returns the build ID of the file that has pc, in hexadecimal, or "". */
const char *symbol_build_id(struct target *target, uint64_t pc);

/*
 * Prints how the functions of a program that generates code get names, if they
 * have none.
 */
void symbols_print_advice(struct target *target);

#endif
