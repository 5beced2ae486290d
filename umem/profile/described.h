/* described.h - names for tools outside the process; see vmem/description.h */
#ifndef UMEM_PROFILE_DESCRIBED_H
#define UMEM_PROFILE_DESCRIBED_H

/* sample.c */
#define DESCRIBED_SAMPLES(M, V, C, B)                                          \
	V(SAMPLING, sampling)                                                  \
	V(SAMPLES, samples)                                                    \
	V(NSAMPLES, nsamples)                                                  \
	V(NTAKEN, sample_ntaken)                                               \
	V(NLOST, sample_nlost)                                                 \
	V(NHALVED, sample_nhalved)                                             \
	C(SAMPLES_MAX)                                                         \
	C(SAMPLE_LIVE)                                                         \
	C(SAMPLE_FREED)                                                        \
	C(SAMPLE_WAITING)                                                      \
	B(SAMPLE_BYTES, sample, sample)                                        \
	M(SAMPLING_MEAN, sampling, sampling, mean)                             \
	M(SAMPLING_ABLE, sampling, sampling, is_allowed)                       \
	M(SAMPLING_COUNTED_END, sampling, sampling, counted_end)               \
	M(SAMPLING_CHOSEN, sampling, sampling, chosen)                         \
	M(SAMPLE_BLOCK, sample, sample, block)                                 \
	M(SAMPLE_CACHE, sample, sample, cache)                                 \
	M(SAMPLE_SPAN, sample, sample, span)                                   \
	M(SAMPLE_OWN_UNIT, sample, sample, own_unit)                           \
	M(SAMPLE_SIZE, sample, sample, size)                                   \
	M(SAMPLE_COUNTED, sample, sample, counted)                             \
	M(SAMPLE_MEAN, sample, sample, mean)                                   \
	M(SAMPLE_TIME, sample, sample, time)                                   \
	M(SAMPLE_THREAD, sample, sample, thread)                               \
	M(SAMPLE_FREED_TIME, sample, sample, freed_time)                       \
	M(SAMPLE_FREED_THREAD, sample, sample, freed_thread)                   \
	M(SAMPLE_STATE, sample, sample, state)                                 \
	M(SAMPLE_GUARDED, sample, sample, is_guarded)                          \
	M(SAMPLE_COUNTED_NOW, sample, sample, is_counted)                      \
	M(SAMPLE_STACK, sample, sample, stack)                                 \
	M(SAMPLE_FREED_STACK, sample, sample, freed_stack)

/* sample_stack.c */
#define DESCRIBED_STACKS(M, V, C, B)                                           \
	V(STACKS, stacks)                                                      \
	V(NPEAKS, npeaks)                                                      \
	V(PEAK_TIME, peak_time)                                                \
	V(SUMS_RESET, sample_sums_reset)                                       \
	C(SAMPLE_BUCKETS)                                                      \
	C(SAMPLE_BLOCK_PARTS)                                                  \
	C(SAMPLE_FRAMES)                                                       \
	B(SAMPLE_STACK_BYTES, sample_stack, sample_stack)                      \
	M(SAMPLE_STACK_NEXT, sample_stack, sample_stack, next)                 \
	M(SAMPLE_STACK_DEPTH, sample_stack, sample_stack, depth)               \
	M(STACK_ALLOCATED_BLOCKS, sample_stack, sample_stack,                  \
	    sums.allocated.blocks)                                             \
	M(STACK_ALLOCATED_BYTES, sample_stack, sample_stack,                   \
	    sums.allocated.bytes)                                              \
	M(STACK_FREED_BLOCKS, sample_stack, sample_stack, sums.freed.blocks)   \
	M(STACK_FREED_BYTES, sample_stack, sample_stack, sums.freed.bytes)     \
	M(STACK_LIVED_MS_BLOCKS, sample_stack, sample_stack,                   \
	    sums.lived_ms.blocks)                                              \
	M(STACK_LIVED_MS_BYTES, sample_stack, sample_stack,                    \
	    sums.lived_ms.bytes)                                               \
	M(STACK_LIVED_S_BLOCKS, sample_stack, sample_stack,                    \
	    sums.lived_s.blocks)                                               \
	M(STACK_LIVED_S_BYTES, sample_stack, sample_stack, sums.lived_s.bytes) \
	M(STACK_PEAK_BLOCKS, sample_stack, sample_stack, sums.peak.blocks)     \
	M(STACK_PEAK_BYTES, sample_stack, sample_stack, sums.peak.bytes)       \
	M(SAMPLE_STACK_NPEAKS, sample_stack, sample_stack, sums.npeaks)        \
	M(SAMPLE_STACK_PCS, sample_stack, sample_stack, pc[0])

#endif
