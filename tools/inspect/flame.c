/*
 * flame.c - a flame graph of the live samples in a page
 *
 * The page has the stacks as data: a list of functions, and for each stack its
 * bytes, its blocks and the numbers of its functions, outermost first.  The
 * script of the page merges equal beginnings of stacks and draws a box for each
 * function; the width of a box is its share of the bytes.
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/inspect/flame.h"
#include "tools/inspect/html.h"
#include "tools/inspect/program.h"
#include "tools/inspect/sites.h"
#include "tools/inspect/symbols.h"

const char flame_style[] =
    "#graph{position:relative}\n"
    "#graph div{position:absolute;height:17px;font:12px/17px monospace;\n"
    " overflow:hidden;white-space:nowrap;box-sizing:border-box;\n"
    " border-left:1px solid Canvas;padding-left:2px;cursor:pointer;\n"
    " color:#000}\n"
    "#graph div.above{opacity:.6}\n"
    "#graph div.match{background:#b58cff!important}\n"
    "#about{min-height:2.8em;margin:.5em 0;font-family:monospace;\n"
    " overflow-wrap:anywhere}\n";

static const char body[] =
    "<p>Each box is a function; its width is the share of the memory in use\n"
    "that it or the functions below it allocated. Click a box to enlarge it,\n"
    "the top box to see all. Deep stacks lack their outermost functions.\n"
    "<input id=\"search\" type=\"search\" placeholder=\"part of a name\"></p>\n"
    "<noscript><p>The flame graph needs JavaScript.</p></noscript>\n"
    "<div id=\"about\"></div>\n"
    "<div id=\"graph\"></div>\n";

static const char script[] =
    "const get=id=>document.getElementById(id);\n"
    "function size(n){let u=0;while(n>=1024&&u<5){n/=1024;u++}\n"
    " return (u?Math.floor(10*n)/10:Math.round(n))+' '+\n"
    " ['B','KiB','MiB','GiB','TiB','PiB'][u]}\n"
    "function node(name,up){return{name,up,bytes:0,blocks:0,below:new Map()}}\n"
    "const all=node('all',null);\n"
    "for(const [bytes,blocks,stack] of stacks){\n"
    " let at=all;\n"
    " const add=n=>{n.bytes+=bytes;n.blocks+=blocks};\n"
    " add(all);\n"
    " for(const f of stack){\n"
    "  if(!at.below.has(f))at.below.set(f,node(names[f],at));\n"
    "  add(at=at.below.get(f))}}\n"
    "const share=n=>all.bytes?(100*n.bytes/all.bytes).toFixed(1)+'%':'';\n"
    "function text(n){return n.name+': about '+size(n.bytes)+' ('+share(n)+\n"
    " ') in '+Math.round(n.blocks)+' blocks'}\n"
    "function colour(name){let h=0;\n"
    " for(const c of name)h=(h*31+c.charCodeAt(0))%997;\n"
    " return 'hsl('+(15+h%40)+' 80% '+(62+h%13)+'%)'}\n"
    "let shown=all;\n"
    "function draw(){\n"
    " const graph=get('graph'),wanted=get('search').value;\n"
    " let rows=0;\n"
    " graph.textContent='';\n"
    " function box(n,left,width,row,kind){\n"
    "  const d=document.createElement('div');\n"
    "  d.textContent=n.name;d.title=text(n);d.className=kind;\n"
    "  if(wanted&&n.name.includes(wanted))d.className+=' match';\n"
    "  d.style.left=100*left+'%';d.style.width=100*width+'%';\n"
    "  d.style.top=18*row+'px';d.style.background=colour(n.name);\n"
    "  d.onclick=()=>{shown=n;draw()};\n"
    "  d.onmouseover=()=>{get('about').textContent=text(n)};\n"
    "  graph.append(d);rows=Math.max(rows,row+1)}\n"
    " function tree(n,left,width,row){\n"
    "  if(width<0.0005)return;\n"
    "  box(n,left,width,row,'');\n"
    "  for(const b of [...n.below.values()].sort((x,y)=>y.bytes-x.bytes)){\n"
    "   const part=width*b.bytes/n.bytes;\n"
    "   tree(b,left,part,row+1);left+=part}}\n"
    " const above=[];\n"
    " for(let n=shown.up;n;n=n.up)above.unshift(n);\n"
    " above.forEach((n,row)=>box(n,0,1,row,'above'));\n"
    " tree(shown,0,1,above.length);\n"
    " graph.style.height=18*rows+'px';\n"
    " get('about').textContent=text(shown)}\n"
    "get('search').oninput=draw;\n"
    "draw();\n";

/* A function, and its number in the list of the page. */
struct numbered_name {
	const char *name;
	size_t number;
};

static int
order_by_name(const void *a, const void *b)
{
	const struct numbered_name *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* Prints the name if it is new; returns its number. */
static size_t
name_number(void **tree, size_t *n, const char *name)
{
	struct numbered_name *wanted = xalloc(sizeof(*wanted));
	struct numbered_name **found;

	wanted->name = name;
	wanted->number = *n;
	found = tsearch(wanted, tree, order_by_name);
	if (found == NULL)
		fail_with(EXIT_ERROR, "out of memory");
	if (*found != wanted) {
		free(wanted);
		return (*found)->number;
	}
	if (*n != 0)
		puts(",");
	html_literal(name);
	return (*n)++;
}

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

/*
 * Prints the list of functions, and returns the text of the numbers of each
 * stack, outermost first.
 */
static char **
put_names(const struct flame_stack *stacks, size_t n)
{
	char **numbers = xalloc((n + 1) * sizeof(*numbers));
	void *tree = NULL;
	size_t nnames = 0;

	for (size_t i = 0; i < n; i++) {
		size_t bytes;
		FILE *text = open_memstream(&numbers[i], &bytes);

		if (text == NULL)
			fail_with(EXIT_ERROR, "out of memory");
		for (size_t j = 0; j < stacks[i].n; j++)
			fprintf(text, "%s%zu", j == 0 ? "" : ",",
			    name_number(&tree, &nnames, stacks[i].names[j]));
		if (fclose(text) != 0)
			fail_with(EXIT_ERROR, "out of memory");
	}
	return numbers;
}

void
flame_write_graph(const struct flame_stack *stacks, size_t n)
{
	char **numbers;

	fputs(body, stdout);
	puts("<script>\nconst names=[");
	numbers = put_names(stacks, n);
	puts("];\nconst stacks=[");
	for (size_t i = 0; i < n; i++) {
		printf("%s[%.0f,%.2f,[%s]]", i == 0 ? "" : ",\n",
		    stacks[i].bytes, stacks[i].blocks, numbers[i]);
		free(numbers[i]);
	}
	puts("];");
	free(numbers);
	fputs(script, stdout);
	puts("</script>");
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
put_summary(struct model *model, const struct sample_stack *stacks, size_t n)
{
	uint64_t mean = model_sampling_interval(model);
	time_t now = time(NULL);
	size_t nsamples = 0;
	double bytes = 0;
	char date[32];

	for (size_t i = 0; i < n; i++) {
		nsamples += stacks[i].n;
		bytes += stacks[i].bytes;
	}
	strftime(date, sizeof(date), "%F %T", localtime(&now));
	printf("<p>%s in use, estimated from %zu samples; %s%s; %s</p>\n",
	    html_size(bytes), nsamples,
	    mean == 0 ? "sampling is off" : "one sample in about ",
	    mean == 0 ? "" : html_size((double)mean), date);
}

/* Writes the table of the call sites, one row for each stack. */
static void
put_sites(struct model *model, const struct sample_stack *stacks, size_t n)
{
	double all = 0;

	for (size_t i = 0; i < n; i++)
		all += stacks[i].bytes;
	puts("<h2>Call sites</h2>\n<div class=\"wide\"><table id=\"sites\">\n"
	     "<tr><th>bytes</th><th>share</th><th>blocks</th>"
	     "<th>call site</th></tr>");
	for (size_t i = 0; i < n && i < SITES_ROWS; i++) {
		const struct sample *s = stacks[i].newest;

		printf("<tr><td>%s</td><td>%.0f%%</td><td>%.0f</td><td>",
		    html_size(stacks[i].bytes), 100 * stacks[i].bytes / all,
		    stacks[i].nblocks);
		html_text(site_stack_text(model, s->depth, s->stack));
		puts("</td></tr>");
	}
	puts("</table></div>");
	if (n > SITES_ROWS)
		printf("<p>%zu more</p>\n", n - SITES_ROWS);
}

void
flame_write(struct model *model, const struct sample_stack *stacks, size_t n)
{
	struct flame_stack *named = xalloc((n + 1) * sizeof(*named));

	for (size_t i = 0; i < n; i++) {
		const struct sample *s = stacks[i].newest;

		named[i].bytes = stacks[i].bytes;
		named[i].blocks = stacks[i].nblocks;
		named[i].names =
		    flame_names(model->target, s->stack, s->depth, &named[i].n);
	}
	html_begin(target_title(model->target), flame_style);
	put_summary(model, stacks, n);
	flame_write_graph(named, n);
	put_sites(model, stacks, n);
	html_end();
}
