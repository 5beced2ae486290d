/* fork.h - all at rest while the process is copied; see fork.c */
#ifndef UMEM_FORK_H
#define UMEM_FORK_H

/* The handlers, as pthread_atfork() names them. */
void fork_prepare(void);
void fork_parent(void);
void fork_child(void);

/* Has them called at each fork(); once more does no harm. */
void fork_register(void);

#endif
