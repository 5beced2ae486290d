/*
 * probe.c - USDT probes, for perf, bpftrace and profilers
 *
 * A probe is a nop whose address and arguments are in a note of the library's
 * file, which <sys/sdt.h> makes.  A tracer puts a breakpoint there.  Each probe
 * has a semaphore, a counter that the tracer raises while it looks.  The
 * library calls the function with the probe only if the counter is not 0, so a
 * probe at which nobody looks costs a load and a branch.  No probe is on a fast
 * path.
 *
 * otel_memory:* are those of OpenTelemetry's eBPF profiler, as its design
 * document 00003-memory-profiling defines them; umem:* are the library's own.
 *
 * Without <sys/sdt.h> (Debian: systemtap-sdt-dev) the functions are empty, and
 * no note leads a tracer to the semaphores.
 */
#include "vmem/describe.h"
#include "vmem/described.h"
#include "vmem/probe.h"

#define PROBE_SEMAPHORE(provider, name, parameters, ...)                       \
	unsigned short provider##_##name##_semaphore                           \
	    __attribute__((section(".probes")));
PROBES(PROBE_SEMAPHORE)

#if __has_include(<sys/sdt.h>)

enum {
	PROBES_BUILT = 1
};

/* The macro would change the directive .hidden of the assembler. */
#undef hidden
#define SDT_USE_VARIADIC
#define _SDT_HAS_SEMAPHORES     1
/* Constants and registers only: not all tracers read other operands. */
#define STAP_SDT_ARG_CONSTRAINT nr
#include <sys/sdt.h>

/*
 * The notes alone do not keep their base from the linker's --gc-sections, and
 * ld.gold then reports an error.  The distance to it, beside the semaphores,
 * which are kept, does.
 */
__asm__(".pushsection .probes, \"aw\"\n\t.balign 4\n\t"
	".4byte _.stapsdt.base - .\n\t.popsection");

#define PROBE_DEFINE(provider, name, parameters, ...)                          \
	cold_path void probe_##provider##_##name parameters                    \
	{                                                                      \
		STAP_PROBEV(provider, name, __VA_ARGS__);                      \
	}

#else

enum {
	PROBES_BUILT = 0
};

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define PROBE_DEFINE(provider, name, parameters, ...)                          \
	cold_path void probe_##provider##_##name parameters                    \
	{                                                                      \
	}

#endif

PROBES(PROBE_DEFINE)

DESCRIBE(DESCRIBED_PROBES);
