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
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/report/flame.h"
#include "tools/inspect/symbols/program.h"
#include "tools/inspect/symbols/symbols.h"

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
    "td:last-child,th:last-child{text-align:left}\n"
    "#graph{position:relative}\n"
    "#graph div{position:absolute;height:17px;font:12px/17px monospace;\n"
    " overflow:hidden;white-space:nowrap;text-indent:3px;cursor:default;\n"
    " color:#000;box-shadow:inset 1px 0 Canvas}\n"
    ".c0{background:#f2a65a}.c1{background:#f5b971}.c2{background:#eda04e}\n"
    ".c3{background:#f7c98b}.c4{background:#f0b862}.c5{background:#f3cf7a}\n"
    ".c6{background:#e9a56c}.c7{background:#f4d58d}\n"
    "#graph div.above{opacity:.6}\n"
    "#graph div.match{background:#b58cff}\n";

static const char text[] =
    "<p>Each box is a function. Its width is the share of the memory in use\n"
    "that it or the functions below it allocated; hold the pointer over it\n"
    "for the figures. Deep stacks lack their outermost functions.</p>\n"
    "<p id=\"zoom\" hidden>A click enlarges a box; a click on the top box\n"
    "shows all. <input type=\"search\" placeholder=\"part of a name\"></p>\n";

static const char script[] =
    "{const get=id=>document.getElementById(id),\n"
    " boxes=[...get('graph').children].map(d=>({d,\n"
    "  left:parseFloat(d.style.left),width:parseFloat(d.style.width),\n"
    "  row:parseFloat(d.style.top)})),\n"
    " holds=(x,y)=>{const middle=y.left+y.width/2;\n"
    "  return x.row<=y.row&&x.left<middle&&middle<x.left+x.width};\n"
    "function enlarge(z){for(const b of boxes){\n"
    " const above=b!==z&&holds(b,z);\n"
    " b.d.hidden=!above&&!holds(z,b);\n"
    " b.d.classList.toggle('above',above);\n"
    " b.d.style.left=above?'0%':100*(b.left-z.left)/z.width+'%';\n"
    " b.d.style.width=above?'100%':100*b.width/z.width+'%'}}\n"
    "for(const b of boxes)b.d.onclick=()=>enlarge(b);\n"
    "get('zoom').hidden=false;\n"
    "get('zoom').lastElementChild.oninput=e=>{const part=e.target.value;\n"
    " for(const b of boxes)b.d.classList.toggle('match',\n"
    "  part!==''&&b.d.textContent.includes(part))}}\n";

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

static void
stack_add(struct stack *stack, const char *name)
{
	ARRAY_GROW(stack->names, stack->n, stack->capacity);
	stack->names[stack->n++] = name;
}

/* Functions have one name for all lines from which they call. */
static struct stack
stack_of_tally(struct target *target, const struct site_tally *t)
{
	struct stack stack = {
	    .bytes = site_tally_total(t), .blocks = t->blocks};

	if (t->depth == 0)
		stack_add(&stack, "unknown");
	for (unsigned depth = t->depth; depth-- > 0;) {
		size_t k;
		const struct symbol_frame *frames =
		    symbol_frames(target, t->stack[depth], &k);

		while (k-- > 0)
			stack_add(&stack, frames[k].function != NULL
					      ? frames[k].function
					      : frames[k].name);
	}
	return stack;
}

/* Returns the stacks of all rows, and sets *n. */
static struct stack *
stacks_of(const struct sites *sites, size_t *n)
{
	struct stack *stacks = xalloc((sites->ntallies + 1) * sizeof(*stacks));

	*n = 0;
	for (size_t i = 0; i < sites->nrows; i++)
		for (size_t j = 0; j < sites->rows[i].ntallies; j++)
			stacks[(*n)++] = stack_of_tally(
			    sites->model->target, sites->rows[i].tallies[j]);
	return stacks;
}

void
flame_write_folded(const struct sites *sites)
{
	size_t n;
	struct stack *stacks = stacks_of(sites, &n);

	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < stacks[i].n; j++) {
			if (j != 0)
				putchar(';');
			for (const char *c = stacks[i].names[j]; *c; c++)
				putchar(*c == ';' || *c == ' ' ? '_' : *c);
		}
		printf(" %.0f\n", stacks[i].bytes);
	}
	free(stacks);
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

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return order_numbers(x->first, y->first);
}

/* Takes the next stacks before end that have the same function in this row. */
static struct box
box_next(const struct graph *graph, size_t first, size_t end, size_t row)
{
	struct box box = {.row = row, .first = first};

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
		ARRAY_GROW(graph->boxes, graph->n, graph->capacity);
		graph->boxes[graph->n++] = box;
	}
	qsort(&graph->boxes[first], graph->n - first, sizeof(box),
	    order_by_bytes);
	for (size_t i = first; i < graph->n; i++) {
		graph->boxes[i].left = left;
		left += graph->boxes[i].bytes;
	}
}

static struct graph
graph_make(const struct sites *sites)
{
	struct graph graph = {0};
	struct box all = {.name = "all"};

	graph.stacks = stacks_of(sites, &graph.nstacks);
	all.n = graph.nstacks;
	for (size_t i = 0; i < graph.nstacks; i++) {
		all.bytes += graph.stacks[i].bytes;
		all.blocks += graph.stacks[i].blocks;
	}
	qsort(
	    graph.stacks, graph.nstacks, sizeof(*graph.stacks), order_by_names);
	ARRAY_GROW(graph.boxes, graph.n, graph.capacity);
	graph.boxes[graph.n++] = all;
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
	printf(": %s (%.1f%%) in %s block%s\">",
	    page_bytes(box->bytes, estimated),
	    all > 0 ? 100 * box->bytes / all : 100,
	    count_text(box->blocks, estimated),
	    box->blocks >= 0.5 && box->blocks < 1.5 ? "" : "s");
	put_html(box->name);
	puts("</div>");
}

static void
put_graph(const struct sites *sites)
{
	struct graph graph = graph_make(sites);

	fputs(text, stdout);
	printf("<div id=\"graph\" style=\"height:%zupx\">\n",
	    ROW_PIXELS * (graph.boxes[graph.n - 1].row + 1));
	for (size_t i = 0; i < graph.n; i++)
		put_box(&graph.boxes[i], graph.boxes[0].bytes,
		    sites_are_estimated(sites));
	puts("</div>");
	if (graph.nleft_out != 0)
		printf("<p>Boxes of at most %g%% of the memory are left out: "
		       "%zu.</p>\n",
		    100 * LEAST_SHARE, graph.nleft_out);
	printf("<script>\n%s</script>\n", script);
	free(graph.stacks);
	free(graph.boxes);
}

/* Returns "program (PID)", or the name of the core. */
static const char *
target_title(struct target *target)
{
	const char *name = target->live ? program_name(target) : NULL;

	return name != NULL ? xprint("%s (%s)", name, target->name)
			    : plain_text(target->name, SIZE_MAX);
}

static void
put_head(const struct sites *sites)
{
	const char *title = target_title(sites->model->target);

	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
	      "<meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width\">\n"
	      "<title>Memory of ",
	    stdout);
	put_html(title);
	printf("</title>\n<style>\n%s</style>\n</head>\n<body>\n"
	       "<h1>Memory of ",
	    style);
	put_html(title);
	puts("</h1>");
}

static void
put_summary(const struct sites *sites)
{
	bool estimated = sites_are_estimated(sites);
	time_t now = time(NULL);
	char date[32];

	strftime(date, sizeof(date), "%F %T", localtime(&now));
	printf("<p>%s %s%s; %s</p>\n", page_bytes(sites->bytes, estimated),
	    sites->are_leaks ? "leaked" : "in use",
	    estimated ? ", estimated from samples" : "", date);
}

static void
put_row(struct sites *sites, const struct site *row)
{
	printf("<tr><td>%s</td><td>%.0f%%</td><td>%s</td><td>",
	    page_bytes(site_total(row), row->estimated),
	    100 * site_total(row) / sites->bytes,
	    count_text(row->blocks, row->estimated));
	put_html(row->name);
	put_html(site_callers(sites, row, UINT_MAX));
	puts("</td></tr>");
}

void
flame_write(struct sites *sites)
{
	put_head(sites);
	put_summary(sites);
	put_graph(sites);
	puts("<h2>Call sites</h2>\n<div class=\"wide\"><table id=\"sites\">\n"
	     "<tr><th>bytes</th><th>share</th><th>blocks</th>"
	     "<th>call site</th></tr>");
	for (size_t i = 0; i < sites->nrows && i < SITES_ROWS; i++)
		put_row(sites, &sites->rows[i]);
	puts("</table></div>");
	if (sites->nrows > SITES_ROWS)
		printf("<p>%zu more</p>\n", sites->nrows - SITES_ROWS);
	puts("</body>\n</html>");
}
