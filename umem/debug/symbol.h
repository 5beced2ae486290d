/* symbol.h - names for addresses of code; see symbol.c */
#ifndef UMEM_SYMBOL_H
#define UMEM_SYMBOL_H

#include "vmem/panic.h"

/* Appends "lib'symbol+0xoff", or as much of that as is known. */
void symbol_text(struct message *m, uintptr_t pc);

#endif
