/* screen_none.c - without ncurses there is no full screen */
#include "tools/inspect/screen.h"

void
screen_open(void)
{
	fail_with(EXIT_ERROR,
	    "umem was built without ncurses; umem top -b prints the screen");
}

void
screen_close(void)
{
}

void
screen_size(size_t *rows, size_t *columns)
{
	*rows = *columns = 0;
}

void
screen_draw(const struct screen_line *lines, size_t n)
{
	(void)lines;
	(void)n;
}

void
screen_redraw(void)
{
}

int
screen_key(double seconds)
{
	(void)seconds;
	return 'q';
}
