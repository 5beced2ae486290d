/* screen.h - a full screen on a terminal; screen_curses.c or screen_none.c */
#ifndef TOOLS_SCREEN_H
#define TOOLS_SCREEN_H

#include "tools/inspect/common.h"

enum screen_style {
	SCREEN_PLAIN,
	SCREEN_BOLD,
	SCREEN_TITLE /* reversed, over the whole width */
};

struct screen_line {
	enum screen_style style;
	char *text;
};

/* Results of screen_key() besides characters; 0: the time is over. */
enum screen_key {
	SCREEN_RESIZED = 1000,
	SCREEN_UP,
	SCREEN_DOWN
};

/* Ends the command with a message if there is no usable terminal. */
void screen_open(void);
void screen_close(void);
void screen_size(size_t *rows, size_t *columns);

/*
 * Draws lines from the top, the last one in the last row.  Lines for which
 * there is no row, and the ends of long lines, are left out.
 */
void screen_draw(const struct screen_line *lines, size_t n);

/* Has the next screen_draw() draw every character. */
void screen_redraw(void);

/* Waits for a key, for at most so many seconds. */
int screen_key(double seconds);

#endif
