/*
 * flame.c - a flame graph of blocks by their stacks, in a page for a browser,
 * and as text for programs that draw one
 *
 * The page is one file that refers to no other file, and shows everything
 * without its script.  Names come from the inspected program, so every text is
 * escaped.
 *
 * Stacks that begin with the same functions share boxes: a box stands for a
 * function behind a sequence of callers, and its width is its share of all
 * bytes.  The boxes are elements with fixed places, so a browser shows them
 * without a script; the script of the page enlarges and marks them.
 *
 * In the sorted list of stacks, those of a box are neighbours.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/report/flame.h"

/* Boxes with a smaller share are left out. */
#define LEAST_SHARE 1e-4

/* The distance of two rows of boxes, in pixels. */
#define ROW_PIXELS 18

/* Colours of boxes, which depend on the name. */
#define COLOURS 8

/* Blocks with one stack. */
struct stack {
	const char **names; /* of the functions, outermost first */
	size_t n, capacity;
	double bytes, blocks;
};

/* A function behind a sequence of callers. */
struct box {
	const char *name;
	size_t row;           /* 0: the top box, of all stacks */
	size_t first, n;      /* its stacks */
	double bytes, blocks; /* that they stand for */
	double left;          /* bytes of the boxes before it in its row */
};

struct graph {
	struct stack *stacks; /* in the order of their names */
	size_t nstacks;
	struct box *boxes; /* row by row */
	size_t n, capacity;
	size_t nleft_out;
};

static const char style[] =
#include "tools/inspect/report/flame.css.h"
    ;

static const char script[] =
#include "tools/inspect/report/flame.js.h"
    ;

static const char text[] =
    "<p>Each box is a function. Its width is the share of the memory\n"
    "that it or the functions below it allocated; hold the pointer over it\n"
    "for the figures. Deep stacks lack their outermost functions.</p>\n"
    "<p id=\"zoom\" hidden>A click enlarges a box; a click on the top box\n"
    "shows all. <input type=\"search\" placeholder=\"part of a name\"></p>\n"
    "<p id=\"figures\"></p>\n";

/* Puts a text of the program into HTML. */
static void
put_html(const char *plain)
{
	for (; *plain != '\0'; plain++)
		if (strchr("<>&\"", *plain) != NULL)
			printf("&#%d;", *plain);
		else
			putchar(*plain);
}

/* Returns bytes as "9.5 MiB", an estimate as "~9.5 MiB". */
static const char *
page_bytes(double bytes, bool estimated)
{
	const char *plain = bytes_text(bytes, estimated);
	size_t n = strlen(plain);

	if (strchr("KMGTPE", plain[n - 1]) == NULL)
		return xprint("%s B", plain);
	return xprint("%.*s %ciB", (int)n - 1, plain, plain[n - 1]);
}

/* Divides the text of a stack into names. */
static struct stack
stack_of(const struct look_row *row)
{
	struct stack stack = {.bytes = row->bytes, .blocks = row->blocks};
	char *rest = xprint("%s", row->name);

	while (rest != NULL)
		ARRAY_ADD(
		    stack.names, stack.n, stack.capacity, strsep(&rest, ";"));
	return stack;
}

void
flame_write_folded(const struct look *look)
{
	for (size_t i = 0; i < look->nrows; i++) {
		if (!look->rows[i].of_stack)
			continue;
		for (const char *c = look->rows[i].name; *c != '\0'; c++)
			putchar(*c == ' ' ? '_' : *c);
		printf(" %.0f\n", look->rows[i].bytes);
	}
}

static int
order_by_names(const void *a, const void *b)
{
	const struct stack *x = a, *y = b;
	int order;

	for (size_t i = 0; i < x->n && i < y->n; i++)
		if ((order = strcmp(x->names[i], y->names[i])) != 0)
			return order;
	return order_numbers(x->n, y->n);
}

static int
order_by_bytes(const void *a, const void *b)
{
	const struct box *x = a, *y = b;

	return order_rows(
	    x->bytes, y->bytes, order_numbers(x->first, y->first));
}

/* Takes the next stacks before end that have the same function in this row. */
static struct box
box_next(const struct graph *graph, size_t first, size_t end, size_t row)
{
	struct box box = {.row = row, .first = first, .name = ""};

	for (size_t i = first; i < end; i++) {
		const struct stack *stack = &graph->stacks[i];
		const char *name = stack->n < row ? "" : stack->names[row - 1];

		if (i == first)
			box.name = name;
		else if (strcmp(name, box.name) != 0)
			break;
		box.n++;
		box.bytes += stack->bytes;
		box.blocks += stack->blocks;
	}
	return box;
}

/* Adds the boxes directly below a box, the largest first. */
static void
graph_add_below(struct graph *graph, struct box up)
{
	size_t first = graph->n, end = up.first + up.n;
	double left = up.left;
	struct box box;

	for (size_t i = up.first; i < end; i += box.n) {
		box = box_next(graph, i, end, up.row + 1);
		/* A stack that ends in the box above has no name here. */
		if (*box.name == '\0')
			continue;
		if (!(box.bytes > LEAST_SHARE * graph->boxes[0].bytes)) {
			graph->nleft_out++;
			continue;
		}
		ARRAY_ADD(graph->boxes, graph->n, graph->capacity, box);
	}
	qsort(&graph->boxes[first], graph->n - first, sizeof(box),
	    order_by_bytes);
	for (size_t i = first; i < graph->n; i++) {
		graph->boxes[i].left = left;
		left += graph->boxes[i].bytes;
	}
}

static struct graph
graph_make(const struct look *look)
{
	struct graph graph = {
	    .stacks = xalloc((look->nrows + 1) * sizeof(*graph.stacks))};
	struct box all = {.name = "all"};

	for (size_t i = 0; i < look->nrows; i++) {
		if (!look->rows[i].of_stack)
			continue;
		graph.stacks[graph.nstacks++] = stack_of(&look->rows[i]);
		all.bytes += look->rows[i].bytes;
		all.blocks += look->rows[i].blocks;
	}
	all.n = graph.nstacks;
	ARRAY_SORT(graph.stacks, graph.nstacks, order_by_names);
	ARRAY_ADD(graph.boxes, graph.n, graph.capacity, all);
	for (size_t i = 0; i < graph.n; i++)
		graph_add_below(&graph, graph.boxes[i]);
	return graph;
}

static unsigned
colour_of(const char *name)
{
	unsigned hash = 0;

	for (; *name != '\0'; name++)
		hash = hash * 31 + (unsigned char)*name;
	return hash % 997 % COLOURS;
}

static void
put_box(const struct box *box, double all, bool estimated)
{
	printf("<div class=\"c%u\" style=\"left:%.4f%%;width:%.4f%%;"
	       "top:%zupx\" title=\"",
	    colour_of(box->name), all > 0 ? 100 * box->left / all : 0,
	    all > 0 ? 100 * box->bytes / all : 100, ROW_PIXELS * box->row);
	put_html(box->name);
	printf(": %s (%.1f%%) in %s\">", page_bytes(box->bytes, estimated),
	    all > 0 ? 100 * box->bytes / all : 100,
	    blocks_text(box->blocks, estimated));
	put_html(box->name);
	puts("</div>");
}

static void
put_graph(const struct look *look, bool estimated)
{
	struct graph graph = graph_make(look);

	fputs(text, stdout);
	printf("<div id=\"graph\" style=\"height:%zupx\">\n",
	    ROW_PIXELS * (graph.boxes[graph.n - 1].row + 1));
	for (size_t i = 0; i < graph.n; i++)
		put_box(&graph.boxes[i], graph.boxes[0].bytes, estimated);
	puts("</div>");
	if (graph.nleft_out != 0)
		printf("<p>Boxes of at most %g%% of the memory are left out: "
		       "%zu.</p>\n",
		    100 * LEAST_SHARE, graph.nleft_out);
	printf("<script>\n%s</script>\n", script);
	free(graph.stacks);
	free(graph.boxes);
}

/* Puts a row of the table of call sites. */
static void
put_row(const struct look_row *row, double all)
{
	printf("<tr><td>%s</td><td>%.0f%%</td><td>%s</td><td>",
	    page_bytes(row->bytes, row->estimated), 100 * row->bytes / all,
	    count_text(row->blocks, row->estimated));
	put_html(row->name);
	put_html(row->callers);
	puts("</td></tr>");
}

static void
put_table(const struct look *look, double all)
{
	size_t n = 0;

	puts("<h2>Call sites</h2>\n<div class=\"wide\"><table id=\"sites\">\n"
	     "<tr><th>bytes</th><th>share</th><th>blocks</th>"
	     "<th>call site</th></tr>");
	for (size_t i = 0; i < look->nrows; i++)
		if (!look->rows[i].of_stack && n++ < SITES_ROWS)
			put_row(&look->rows[i], all);
	puts("</table></div>");
	if (n > SITES_ROWS)
		printf("<p>%zu more</p>\n", n - SITES_ROWS);
}

void
flame_write(const struct look *look, const char *title, const char *verb)
{
	bool estimated = false;
	time_t now = time(NULL);
	double all = 0;
	char date[32];

	for (size_t i = 0; i < look->nrows; i++)
		if (!look->rows[i].of_stack) {
			all += look->rows[i].bytes;
			estimated |= look->rows[i].estimated;
		}
	strftime(date, sizeof(date), "%F %T", localtime(&now));
	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
	      "<meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width\">\n"
	      "<title>",
	    stdout);
	put_html(title);
	printf("</title>\n<style>\n%s</style>\n</head>\n<body>\n<h1>", style);
	put_html(title);
	fputs("</h1>\n<p>", stdout);
	put_html(look->nrows == 0 && look->kind == LOOK_GROWTH
		     ? xprint("nothing%s", verb)
		 : look->nrows == 0
		     ? sites_none_text(look->kind == LOOK_LEAKS, look->caller)
		     : xprint("%s%s%s", page_bytes(all, estimated), verb,
			   estimated ? ", estimated from samples" : ""));
	printf("; %s</p>\n", date);
	if (look->nrows != 0) {
		put_graph(look, estimated);
		put_table(look, all);
	}
	puts("</body>\n</html>");
}
