/* node.h - the memory node of the calling thread's CPU; see node.c */
#ifndef VMEM_NODE_H
#define VMEM_NODE_H

#include "vmem/base.h"
#include "vmem/syscall.h"

/* Nodes that are told apart; the node after the last counts as node 0. */
#define NODES 4u

struct nodes {
	uint32_t mask; /* [I] NODES - 1, 1, or 0: one node */
	intptr_t at;   /* [I] of the kernel's word, from the thread pointer */
};

extern hidden struct nodes nodes;

/*
 * Called once at start: tell nodes apart if this process may use the memory of
 * several.  at is the distance from the thread pointer to the word in which the
 * kernel keeps the number of the node.
 */
void node_start(intptr_t at);

/* The node of this CPU, below NODES; may change at any time. */
static inline unsigned
node_now(void)
{
	const uint32_t *word = (void *)(thread_self() + (uintptr_t)nodes.at);

	return load_relaxed(word) & nodes.mask;
}

#endif
