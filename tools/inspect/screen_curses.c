/* screen_curses.c - a full screen on a terminal, by ncurses */
#include <curses.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/inspect/screen.h"

static SCREEN *the_screen;

void
screen_open(void)
{
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		fail_with(EXIT_ERROR,
		    "top: needs a terminal; umem top -b prints the screen");
	the_screen = newterm(NULL, stdout, stdin);
	if (the_screen == NULL)
		fail_with(EXIT_ERROR,
		    "top: the terminal type %s is not known; "
		    "umem top -b prints the screen",
		    getenv("TERM") ? getenv("TERM") : "(TERM is not set)");
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	curs_set(0);
	atexit(screen_close);
}

void
screen_close(void)
{
	if (the_screen == NULL)
		return;
	endwin();
	delscreen(the_screen);
	the_screen = NULL;
}

void
screen_size(size_t *rows, size_t *columns)
{
	*rows = (size_t)LINES;
	*columns = (size_t)COLS;
}

static void
draw_line(int row, const struct screen_line *line)
{
	attr_t attributes = line->style == SCREEN_TITLE  ? A_REVERSE
			    : line->style == SCREEN_BOLD ? A_BOLD
							 : A_NORMAL;

	move(row, 0);
	attrset((int)attributes);
	addnstr(line->text, -1);
	if (line->style == SCREEN_TITLE)
		for (int x = getcurx(stdscr);
		     x < COLS && getcury(stdscr) == row; x++)
			addch(' ');
	attrset(A_NORMAL);
}

void
screen_draw(const struct screen_line *lines, size_t n)
{
	erase();
	for (size_t i = 0; i + 1 < n && (int)i + 1 < LINES; i++)
		draw_line((int)i, &lines[i]);
	if (n != 0 && LINES > 0)
		draw_line(LINES - 1, &lines[n - 1]);
	refresh();
}

void
screen_redraw(void)
{
	clearok(curscr, TRUE);
}

int
screen_key(double seconds)
{
	int key;

	timeout(seconds > 0 ? (int)(seconds * 1000) : 0);
	key = getch();
	switch (key) {
	case ERR:
		return 0;
	case KEY_RESIZE:
		return SCREEN_RESIZED;
	case KEY_UP:
		return SCREEN_UP;
	case KEY_DOWN:
		return SCREEN_DOWN;
	default:
		return key < 256 ? key : 0;
	}
}
