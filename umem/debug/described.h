/* described.h - names for tools outside the process; see vmem/description.h */
#ifndef UMEM_DEBUG_DESCRIBED_H
#define UMEM_DEBUG_DESCRIBED_H

/* umem/describe.c */
#define DESCRIBED_DEBUG(M, V, C, B)                                            \
	V(LOGS, logs)                                                          \
	C(LOG_TRANSACTION)                                                     \
	C(LOG_FAIL)                                                            \
	C(LOG_SLAB)                                                            \
	B(LOG_BYTES, log, log)                                                 \
	B(LOG_HEAD_BYTES, log_entry, log_entry)                                \
	M(LOG_BASE, log, log, base)                                            \
	M(LOG_SIZE, log, log, bytes)                                           \
	M(LOG_ENTRY_BYTES, log, log, entry_bytes)                              \
	M(LOG_NENTRIES, log, log, nentries)                                    \
	M(LOG_NPUT, log, log, nput)                                            \
	M(LOG_NUMBER, log_entry, log_entry, number)                            \
	V(ERROR_BUFFER, umem_error_buffer)                                     \
	V(ERROR_BEGIN, umem_error_begin)                                       \
	V(ERROR_TIME, umem_error_time)                                         \
	V(ABORT_INFO, umem_abort_info)                                         \
	M(ABORT_TIME, umem_abort_info, error_info, time)                       \
	M(ABORT_BUFFER, umem_abort_info, error_info, buffer)                   \
	V(DEBUG, debug)                                                        \
	C(BUFCTL_NEVER)                                                        \
	C(BUFCTL_ALLOCATED)                                                    \
	C(BUFCTL_FREE)                                                         \
	C(BUFCTL_RETIRED)                                                      \
	C(BUFCTL_WAITING)                                                      \
	C(BUFTAG_ALLOCATED)                                                    \
	C(BUFTAG_FREE)                                                         \
	C(PATTERN_REDZONE)                                                     \
	C(PATTERN_END)                                                         \
	C(REDZONE_FACTOR)                                                      \
	C(REDZONE_ADDEND)                                                      \
	C(UMF_AUDIT)                                                           \
	C(UMF_DEADBEEF)                                                        \
	C(UMF_CONTENTS)                                                        \
	C(UMF_CHECKSIGNAL)                                                     \
	C(UMF_FIREWALL)                                                        \
	C(UMF_RCU_WRITES)                                                      \
	C(API_RESERVED)                                                        \
	B(BUFCTL_BYTES, bufctl, bufctl)                                        \
	B(AUDIT_BYTES, bufctl_audit, bufctl_audit)                             \
	B(CHOICE_BYTES, debug_choice, debug_choice)                            \
	B(TAG_BYTES, buftag, buftag)                                           \
	M(BUFCTL_SIZE, bufctl, bufctl, size)                                   \
	M(BUFCTL_STATE, bufctl, bufctl, state)                                 \
	M(BUFCTL_API, bufctl, bufctl, api)                                     \
	M(AUDIT_ADDR, bufctl_audit, bufctl_audit, addr)                        \
	M(AUDIT_SLAB, bufctl_audit, bufctl_audit, slab)                        \
	M(AUDIT_SIZE, bufctl_audit, bufctl_audit, size)                        \
	M(AUDIT_SUM, bufctl_audit, bufctl_audit, sum)                          \
	M(AUDIT_DEPTH, bufctl_audit, bufctl_audit, depth)                      \
	M(AUDIT_CACHE, bufctl_audit, bufctl_audit, cache)                      \
	M(AUDIT_TIMESTAMP, bufctl_audit, bufctl_audit, timestamp)              \
	M(AUDIT_THREAD, bufctl_audit, bufctl_audit, thread)                    \
	M(AUDIT_ALLOCATED_TIME, bufctl_audit, bufctl_audit, allocated_time)    \
	M(AUDIT_ALLOCATED_THREAD, bufctl_audit, bufctl_audit,                  \
	    allocated_thread)                                                  \
	M(AUDIT_ALLOCATED_DEPTH, bufctl_audit, bufctl_audit, allocated_depth)  \
	M(AUDIT_STACK, bufctl_audit, bufctl_audit, stack[0])                   \
	M(TAG_REDZONE, buftag, buftag, redzone)                                \
	M(TAG_BUFCTL, buftag, buftag, bufctl)                                  \
	M(TAG_BXSTAT, buftag, buftag, bxstat)                                  \
	M(DEBUG_NFRAMES, debug, debug, nframes)                                \
	M(DEBUG_VERIFY_MAX, debug, debug, verify_max)                          \
	M(DEBUG_NOABORT, debug, debug, noabort)                                \
	M(DEBUG_CHECKNULL, debug, debug, checknull)                            \
	M(DEBUG_MTBF, debug, debug, mtbf)                                      \
	M(DEBUG_NCHOICES, debug, debug, nchoices)                              \
	M(DEBUG_CHOICE, debug, debug, choice)                                  \
	M(CHOICE_FLAGS, debug_choice, debug_choice, flags)                     \
	M(CHOICE_FIREWALL, debug_choice, debug_choice, firewall_min)           \
	M(CHOICE_PATTERNS, debug_choice, debug_choice, patterns)               \
	V(DEBUG_LARGE_CACHE, debug_large_cache)

/*
 * freed.c.  The command copies the arrays of the rings because they
 * are described.
 */
#define DESCRIBED_FREED_RINGS(M, V, C, B)                                      \
	V(FREED_LARGE, freed_large)                                            \
	V(FREED_FIREWALL, freed_firewall)                                      \
	V(LARGE_BUFCTLS, freed_large_bufctls)                                  \
	V(FIREWALL_BUFCTLS, freed_firewall_bufctls)                            \
	B(FREED_RING_BYTES, freed_ring, freed_ring)                            \
	M(FREED_RING_BUFCTL, freed_ring, freed_ring, bufctl)                   \
	M(FREED_RING_SIZE, freed_ring, freed_ring, size)                       \
	M(FREED_RING_NPUT, freed_ring, freed_ring, nput)

/* stack.c; its address is 0 if libc lacks it */
#define DESCRIBED_STACK(M, V, C, B) V(LIBC_STACK_END, libc_stack_end)

#endif
