/* mode.c - how the process accesses its magazines, for the program */

#include "magazine/cpu.h"
#include "umem/base/ready.h"
#include "umem/umem.h"
#include "vmem/panic.h"

public int
umem_mode(struct umem_mode *out, size_t bytes)
{
	static const int modes[] = {[RSEQ_NONE] = UMEM_MODE_LOCKED,
	    [RSEQ_LIBC] = UMEM_MODE_RSEQ_LIBC,
	    [RSEQ_OWN] = UMEM_MODE_RSEQ_OWN};

	if (out == NULL || bytes != sizeof(*out) || !umem_ready())
		return fail_int(EINVAL);
	umem_assert((size_t)cpu_layer.rseq.owner < array_size(modes));
	/* Locked mode always has a reason. */
	umem_assert(cpu_layer.rseq.owner != RSEQ_NONE ||
		    cpu_layer.rseq.reason[0] != '\0');
	out->mode = modes[cpu_layer.rseq.owner];
	out->index =
	    cpu_layer.rseq.by_mm_cid ? UMEM_INDEX_MM_CID : UMEM_INDEX_CPU_ID;
	out->ncpus = cpu_layer.nwanted;
	out->reason = cpu_layer.rseq.reason;
	return 0;
}
