/* described.h - names for tools outside the process; see vmem/description.h */
#ifndef UMEM_UPKEEP_DESCRIBED_H
#define UMEM_UPKEEP_DESCRIBED_H

/* snapshot.c */
#define DESCRIBED_SNAPSHOT(M, V, C, B)                                         \
	V(SNAPSHOT, snapshot)                                                  \
	C(SNAPSHOT_NONE)                                                       \
	C(SNAPSHOT_ASKED)                                                      \
	C(SNAPSHOT_READY)                                                      \
	C(SNAPSHOT_GO)                                                         \
	M(SNAPSHOT_STATE, snapshot, snapshot, state)                           \
	M(SNAPSHOT_THREAD, snapshot, snapshot, thread)                         \
	M(SNAPSHOT_SLEEPS_ON, snapshot, snapshot, sleeps_on)                   \
	M(SNAPSHOT_WAKING, snapshot, snapshot, waking)

#endif
