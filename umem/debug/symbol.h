/* symbol.h - names for addresses of code; see symbol.c */
#ifndef UMEM_SYMBOL_H
#define UMEM_SYMBOL_H

#include "vmem/panic.h"

/*
 * Appends "program`function+0x1c" or, if the function is not known,
 * "program+0x1a2c" with the address in the file, as the command umem does.
 */
void symbol_text(struct message *m, uintptr_t pc);

/*
 * Returns the name of the program or library that has this address in its code
 * or variables, or NULL.
 */
const char *symbol_object(const void *p);

#endif
