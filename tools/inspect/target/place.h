/* place.h - where a process runs, and since when; see place.c */
#ifndef TOOLS_PLACE_H
#define TOOLS_PLACE_H

#include "tools/inspect/target/target.h"

/* A text is "" if there is none. */
struct place {
	const char *unit;      /* of systemd, "redis.service" */
	const char *container; /* its ID, "3f4e9a1c77b0", or a namespace */
	uint64_t age;          /* nanoseconds since the process started */
};

/* Reads the place of a process; everything is empty for a core. */
struct place place_read(const struct target *target);

#endif
