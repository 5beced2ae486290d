/* fork.h - brings the library to a consistent state for fork(); see fork.c */
#ifndef UMEM_FORK_H
#define UMEM_FORK_H

/*
 * The handlers that pthread_atfork() calls: before the fork, after it in the
 * parent, and after it in the child.
 */
void fork_prepare(void);
void fork_parent(void);
void fork_child(void);

/* Registers the handlers.  Further calls do nothing. */
void fork_register(void);

#endif
