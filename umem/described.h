/* described.h - names for tools outside the process; see vmem/description.h */
#ifndef UMEM_DESCRIBED_H
#define UMEM_DESCRIBED_H

#include "vmem/described.h"
#include "magazine/described.h"
#include "umem/base/described.h"
#include "umem/slab/described.h"
#include "umem/cache/described.h"
#include "umem/upkeep/described.h"
#include "umem/debug/described.h"
#include "umem/profile/described.h"
#include "umem/malloc/described.h"
#include "umem/rcu/described.h"

/* option_table.c */
#define DESCRIBED_OPTIONS(M, V, C, B)                                          \
	V(OPTION_TABLE, option_table)                                          \
	V(OPTION_LISTS, option_word_lists)                                     \
	V(OPTION_TARGETS, option_targets)                                      \
	C(OPTION_FLAG)                                                         \
	C(OPTION_SIZE)                                                         \
	C(OPTION_SECONDS)                                                      \
	C(OPTION_MILLISECONDS)                                                 \
	C(OPTION_WORD)                                                         \
	C(OPTION_PATH)                                                         \
	C(OPTION_LOGGING)                                                      \
	B(OPTION_BYTES, option, option)                                        \
	B(OPTION_WORD_BYTES, option_word, option_word)                         \
	B(OPTION_LIST_BYTES, option_list, option_list)                         \
	B(OPTION_TARGET_BYTES, option_variable_at, option_variable_at)         \
	M(OPTION_NAME, option, option, name)                                   \
	M(OPTION_TYPE, option, option, type)                                   \
	M(OPTION_VARIABLE, option, option, variable)                           \
	M(OPTION_TARGET, option, option, target)                               \
	M(OPTION_LIST, option, option, words)                                  \
	M(OPTION_LIVE, option, option, is_live)                                \
	M(OPTION_CLAMPED, option, option, is_clamped)                          \
	M(OPTION_SHARE, option, option, takes_share)                           \
	M(OPTION_INITIAL, option, option, initial)                             \
	M(OPTION_INITIAL_TEXT, option, option, initial_text)                   \
	M(OPTION_MINIMUM, option, option, minimum)                             \
	M(OPTION_MAXIMUM, option, option, maximum)                             \
	M(OPTION_WORD_NAME, option_word, option_word, name)                    \
	M(OPTION_WORD_VALUE, option_word, option_word, value)                  \
	M(OPTION_TARGET_AT, option_variable_at, option_variable_at, distance)  \
	M(OPTION_TARGET_SIZE, option_variable_at, option_variable_at, bytes)

/* describe.c: the lists for which headers suffice. */
#define DESCRIBED_PUBLIC(M, V, C, B)                                           \
	DESCRIBED_BASE(M, V, C, B)                                             \
	DESCRIBED_SLABS(M, V, C, B)                                            \
	DESCRIBED_CACHES(M, V, C, B)                                           \
	DESCRIBED_DEBUG(M, V, C, B)                                            \
	DESCRIBED_ALLOC(M, V, C, B)                                            \
	DESCRIBED_GRACE(M, V, C, B)                                            \
	V(IMAGE_END, _end)

/* All entries. */
#define DESCRIBED_ALL(M, V, C, B)                                              \
	DESCRIBED_ARENAS(M, V, C, B)                                           \
	DESCRIBED_HEAP(M, V, C, B)                                             \
	DESCRIBED_COMMIT(M, V, C, B)                                           \
	DESCRIBED_PROBES(M, V, C, B)                                           \
	DESCRIBED_STATES(M, V, C, B)                                           \
	DESCRIBED_META(M, V, C, B)                                             \
	DESCRIBED_MAGAZINES(M, V, C, B)                                        \
	DESCRIBED_SNAPSHOT(M, V, C, B)                                         \
	DESCRIBED_FREED_RINGS(M, V, C, B)                                      \
	DESCRIBED_STACK(M, V, C, B)                                            \
	DESCRIBED_SAMPLES(M, V, C, B)                                          \
	DESCRIBED_STACKS(M, V, C, B)                                           \
	DESCRIBED_OPTIONS(M, V, C, B)                                          \
	DESCRIBED_START(M, V, C, B)                                            \
	DESCRIBED_PUBLIC(M, V, C, B)
#endif
