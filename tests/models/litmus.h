/*
 * litmus.h - the accesses of vmem/base.h and of gcc, for herd7
 *
 * WEAK(NAME, order) is an order that run.py replaces by relaxed as a bug.
 */
#define relaxed memory_order_relaxed
#define acquire memory_order_acquire
#define release memory_order_release
#define acq_rel memory_order_acq_rel
#define seq_cst memory_order_seq_cst

#define load(p, order)     atomic_load_explicit(p, order)
#define store(p, x, order) atomic_store_explicit(p, x, order)
#define add(p, n, order)   atomic_fetch_add_explicit(p, n, order)
#define sub(p, n, order)   atomic_fetch_sub_explicit(p, n, order)
#define swap(p, x, order)  atomic_exchange_explicit(p, x, order)
#define fence(order)       atomic_thread_fence(order)
/* Compares with *from, a word of its own. */
#define compare_swap(p, from, to, order)                                       \
	atomic_compare_exchange_strong_explicit(p, from, to, order, relaxed)
