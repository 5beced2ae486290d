/*
 * flame.c - a flame graph of the live samples in a page
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

#include "tools/inspect/flame.h"
#include "tools/inspect/html.h"
#include "tools/inspect/print.h"
#include "tools/inspect/program.h"
#include "tools/inspect/sites.h"
#include "tools/inspect/symbols.h"

/* Boxes with a smaller share are left out. */
#define LEAST_SHARE 1e-4

/* The distance of two rows of boxes, in pixels. */
#define ROW_PIXELS 18

/* Colours of boxes, which depend on the name. */
#define COLOURS 8

/* A function behind a sequence of callers. */
struct box {
	const char *name;
	size_t row;           /* 0: the top box, of all stacks */
	size_t first, n;      /* its stacks */
	double bytes, blocks; /* that they stand for */
	double left;          /* bytes of the boxes before it in its row */
};

struct graph {
	struct flame_stack *stacks; /* in the order of their names */
	struct box *boxes;          /* row by row */
	size_t n, capacity;
	size_t nleft_out;
};

const char flame_style[] =
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

/* Functions have one box for all lines from which they call. */
static const char *
frame_name(const struct symbol_frame *frame)
{
	return frame->function != NULL ? frame->function : frame->name;
}

const char **
flame_names(
    struct target *target, const uint64_t *stack, unsigned depth, size_t *n)
{
	const char **names = NULL;
	size_t capacity = 0;

	*n = 0;
	while (depth-- > 0) {
		size_t k;
		const struct symbol_frame *frames =
		    symbol_frames(target, stack[depth], &k);

		while (k-- > 0) {
			ARRAY_GROW(names, *n, capacity);
			names[(*n)++] = frame_name(&frames[k]);
		}
	}
	return names;
}

static int
order_by_names(const void *a, const void *b)
{
	const struct flame_stack *x = a, *y = b;
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
		const struct flame_stack *stack = &graph->stacks[i];
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
graph_make(const struct flame_stack *stacks, size_t n)
{
	struct graph graph = {.stacks = xalloc((n + 1) * sizeof(*stacks))};
	struct box all = {.name = "all", .n = n};

	for (size_t i = 0; i < n; i++) {
		graph.stacks[i] = stacks[i];
		all.bytes += stacks[i].bytes;
		all.blocks += stacks[i].blocks;
	}
	qsort(graph.stacks, n, sizeof(*stacks), order_by_names);
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
put_box(const struct box *box, double all)
{
	printf("<div class=\"c%u\" style=\"left:%.4f%%;width:%.4f%%;"
	       "top:%zupx\" title=\"",
	    colour_of(box->name), all > 0 ? 100 * box->left / all : 0,
	    all > 0 ? 100 * box->bytes / all : 100, ROW_PIXELS * box->row);
	html_text(box->name);
	printf(": %s (%.1f%%) in %s block%s\">",
	    html_bytes(box->bytes, /* estimated */ true),
	    all > 0 ? 100 * box->bytes / all : 100,
	    count_text(box->blocks, /* estimated */ true),
	    box->blocks >= 0.5 && box->blocks < 1.5 ? "" : "s");
	html_text(box->name);
	puts("</div>");
}

void
flame_write_graph(const struct flame_stack *stacks, size_t n)
{
	struct graph graph = graph_make(stacks, n);

	fputs(text, stdout);
	printf("<div id=\"graph\" style=\"height:%zupx\">\n",
	    ROW_PIXELS * (graph.boxes[graph.n - 1].row + 1));
	for (size_t i = 0; i < graph.n; i++)
		put_box(&graph.boxes[i], graph.boxes[0].bytes);
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
put_summary(struct model *model, const struct sample_stack *all, bool estimated)
{
	uint64_t mean = model->sampling_mean;
	time_t now = time(NULL);
	char date[32];

	strftime(date, sizeof(date), "%F %T", localtime(&now));
	printf("<p>%s in use, estimated from %zu samples; %s%s; %s</p>\n",
	    html_bytes(all->bytes, estimated), all->n,
	    mean == 0 ? "sampling is off" : "one sample in about ",
	    mean == 0 ? "" : html_size((double)mean), date);
}

/* A row of the table: the stacks with one call site. */
struct row {
	const char *name, *callers; /* callers in the largest stack */
	size_t nstacks, n;
	double bytes, blocks;
};

static int
order_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return strcmp(x->name, y->name);
}

static struct row *
row_named(struct row *rows, size_t *nrows, const char *name)
{
	for (size_t i = 0; i < *nrows; i++)
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	rows[*nrows] = (struct row){.name = name};
	return &rows[(*nrows)++];
}

/* Returns the rows of stacks, of which the largest is the first. */
static struct row *
rows_make(struct model *model, const struct sample_stack *stacks, size_t n,
    size_t *nrows)
{
	struct row *rows = xalloc((n + 1) * sizeof(*rows));

	*nrows = 0;
	for (size_t i = 0; i < n; i++) {
		const struct sample *s = stacks[i].newest;
		const char *callers;
		struct row *row = row_named(rows, nrows,
		    site_stack_text(
			model, s->depth, s->stack, UINT_MAX, &callers));

		if (row->nstacks++ == 0)
			row->callers = callers;
		row->n += stacks[i].n;
		row->bytes += stacks[i].bytes;
		row->blocks += stacks[i].nblocks;
	}
	qsort(rows, *nrows, sizeof(*rows), order_rows);
	return rows;
}

static void
put_row(const struct row *row, double all)
{
	bool estimated = samples_are_estimates(row->n, row->blocks);

	printf("<tr><td>%s</td><td>%.0f%%</td><td>%s</td><td>",
	    html_bytes(row->bytes, estimated), 100 * row->bytes / all,
	    count_text(row->blocks, estimated));
	html_text(row->name);
	html_text(row->callers);
	if (row->nstacks > 1)
		printf("; %zu more stack%s", row->nstacks - 1,
		    row->nstacks == 2 ? "" : "s");
	puts("</td></tr>");
}

/* Writes the table of the call sites. */
static void
put_sites(struct model *model, const struct sample_stack *stacks, size_t n,
    double all)
{
	size_t nrows;
	struct row *rows = rows_make(model, stacks, n, &nrows);

	puts("<h2>Call sites</h2>\n<div class=\"wide\"><table id=\"sites\">\n"
	     "<tr><th>bytes</th><th>share</th><th>blocks</th>"
	     "<th>call site</th></tr>");
	for (size_t i = 0; i < nrows && i < SITES_ROWS; i++)
		put_row(&rows[i], all);
	puts("</table></div>");
	if (nrows > SITES_ROWS)
		printf("<p>%zu more</p>\n", nrows - SITES_ROWS);
	free(rows);
}

void
flame_write(struct model *model, const struct sample_stack *stacks, size_t n)
{
	struct flame_stack *named = xalloc((n + 1) * sizeof(*named));
	struct sample_stack all = sample_stacks_sum(stacks, n);

	for (size_t i = 0; i < n; i++) {
		const struct sample *s = stacks[i].newest;

		named[i].bytes = stacks[i].bytes;
		named[i].blocks = stacks[i].nblocks;
		named[i].names =
		    flame_names(model->target, s->stack, s->depth, &named[i].n);
	}
	html_begin(target_title(model->target), flame_style);
	put_summary(model, &all, sample_stack_is_estimated(&all));
	flame_write_graph(named, n);
	put_sites(model, stacks, n, all.bytes);
	html_end();
}
