/* panic_report.h - the report of misuse and of internal errors; see
 * panic_report.c */
#ifndef UMEM_PANIC_REPORT_H
#define UMEM_PANIC_REPORT_H

/* Makes panic() write a report instead of one line. */
void panic_report_start(void);

#endif
