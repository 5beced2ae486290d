/*
 * node.c - machines with several memory nodes
 *
 * The kernel gives a page the memory of the node on which it is first touched,
 * and access to the memory of another node takes up to twice as long.  Each
 * node therefore has an arena of the heap (heap.c) and a cache of each size
 * class (size_class.h).  malloc() allocates from the cache of the node on which
 * it runs.  free() returns a block to the cache from which it comes, whichever
 * CPU frees it: the page map has the number of the block's per-CPU header, and
 * each node has headers of its own.  So free() has no further instruction, and
 * each CPU keeps the rounds of each node apart.
 *
 * The kernel writes the number of the node beside the CPU number that the
 * sections use.  A thread may lose its CPU after it has read the number.  Then
 * it gets a block of the node on which it was, which is slower, but not wrong.
 *
 * If the program or an administrator has asked for pages of all nodes in turn,
 * blocks have no node, and nodes are not told apart.
 */
#include "vmem/node.h"
#include "vmem/os.h"

struct nodes nodes;

void
node_start(intptr_t at)
{
	unsigned n = os_memory_nodes();

	nodes.at = at;
	nodes.mask = n <= 2 ? n - 1 : NODES - 1;
}
