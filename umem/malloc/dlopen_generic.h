/*
 * dlopen_generic.h - other architectures have no entries: RTLD_DEEPBIND works
 * as in libc, and a library opened with it has the malloc() of libc
 */
#ifndef UMEM_DLOPEN_GENERIC_H
#define UMEM_DLOPEN_GENERIC_H
#endif
