/*
 * html.c - pages for a browser
 *
 * A page is one file that refers to no other file, and shows everything
 * without its scripts.  Names come from the inspected program, so every text is
 * escaped.
 */
#include <string.h>

#include "tools/inspect/html.h"
#include "tools/inspect/print.h"

static const char common_style[] =
    ":root{color-scheme:light dark}\n"
    "body{font:14px/1.4 sans-serif;margin:1em;max-width:1200px}\n"
    "h1{font-size:1.3em;margin:0 0 .4em}\n"
    "h2{font-size:1.1em;margin:1.6em 0 .4em}\n"
    "p{margin:.4em 0}\n"
    ".wide{overflow-x:auto}\n"
    "table{border-collapse:collapse;margin-top:.5em}\n"
    "td,th{padding:.1em .8em .1em 0;text-align:right;vertical-align:top;\n"
    " font:13px/1.5 monospace;white-space:nowrap}\n"
    "th{font-weight:bold;border-bottom:1px solid #8888}\n"
    "td:last-child,th:last-child{text-align:left}\n";

void
html_begin(const char *subject, const char *style)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
	      "<meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width\">\n"
	      "<title>Memory of ",
	    stdout);
	html_text(subject);
	printf("</title>\n<style>\n%s%s</style>\n</head>\n<body>\n"
	       "<h1>Memory of ",
	    common_style, style);
	html_text(subject);
	puts("</h1>");
}

void
html_end(void)
{
	puts("</body>\n</html>");
}

void
html_text(const char *text)
{
	for (; *text != '\0'; text++)
		if (strchr("<>&\"", *text) != NULL)
			printf("&#%d;", *text);
		else
			putchar(*text);
}

char *
html_bytes(double bytes, bool estimated)
{
	const char *text = bytes_text(bytes, estimated);
	size_t n = strlen(text);

	if (strchr("KMGTPE", text[n - 1]) == NULL)
		return xprint("%s B", text);
	return xprint("%.*s %ciB", (int)n - 1, text, text[n - 1]);
}

char *
html_size(double bytes)
{
	return html_bytes(bytes, /* estimated */ false);
}
