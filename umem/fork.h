/* fork.h - handlers for pthread_atfork(); see fork.c */
#ifndef UMEM_FORK_H
#define UMEM_FORK_H

void fork_prepare(void);
void fork_parent(void);
void fork_child(void);

#endif
