/* cut.h - a mapped file that becomes shorter; see cut.c */
#ifndef TOOLS_CUT_H
#define TOOLS_CUT_H

/* From now on, the read of a file that became shorter fails with a message. */
void cut_watch(void);

#endif
