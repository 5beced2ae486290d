/* html.h - pages for a browser, on standard output; see html.c */
#ifndef TOOLS_HTML_H
#define TOOLS_HTML_H

#include "tools/inspect/common.h"

/*
 * Begins a page, which html_end() ends.  Its title is "Memory of SUBJECT".  The
 * style is CSS beside that of all pages.
 */
void html_begin(const char *subject, const char *style);
void html_end(void);

/* Puts a text of the program into HTML. */
void html_text(const char *text);

/* Return bytes as "9.5 MiB", an estimate as "~9.5 MiB". */
char *html_bytes(double bytes, bool estimated);
char *html_size(double bytes);

#endif
