/*
 * plot_page.c - the page of a recording
 *
 * The page has the memory over time, then the call sites that grew, the leaks,
 * and the flame graph of the samples.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/inspect/html.h"
#include "tools/inspect/plot.h"
#include "tools/inspect/print.h"

const char *
plot_growth_text(double growth, bool estimated)
{
	const char *bytes = html_bytes(fabs(growth), estimated);
	bool about = *bytes == '~';

	return xprint("%s%s%s", about ? "~" : "",
	    growth >= 0.5    ? "+"
	    : growth <= -0.5 ? "&minus;"
			     : "",
	    bytes + about);
}

static void
put_note(const char *text)
{
	fputs("<p><b>", stdout);
	html_text(text);
	puts("</b></p>");
}

static void
put_time(double time, const char *form)
{
	time_t seconds = (time_t)time;
	char text[64];
	struct tm tm;

	if (localtime_r(&seconds, &tm) != NULL &&
	    strftime(text, sizeof(text), form, &tm) != 0)
		fputs(text, stdout);
}

/* Says how much the memory grew, and in which layer most. */
static void
put_summary(const struct plot *plot)
{
	const struct plot_look *first = &plot->looks[0];
	const struct plot_look *last = &plot->looks[plot->nlooks - 1];
	double growth = (double)last->rss - (double)first->rss, most = 0;
	size_t layer = 0;

	for (size_t i = 0; i < USAGE_LAYERS; i++) {
		double change =
		    (double)last->layer[i] - (double)first->layer[i];

		if ((change >= 0) == (growth >= 0) &&
		    fabs(change) > fabs(most)) {
			most = change;
			layer = i;
		}
	}
	fputs("<p>", stdout);
	put_time(plot->start, "%F %T");
	fputs(" to ", stdout);
	put_time(plot->start + last->time, "%F %T %Z");
	printf(", %zu looks. RSS %s, ", plot->nlooks,
	    html_size((double)last->rss));
	if (growth == 0)
		fputs("as at first.", stdout);
	else
		printf("%s in %s.", plot_growth_text(growth, false),
		    site_age_text((uint64_t)(last->time * 1e9)));
	if (most != 0)
		printf(" Most of the change: %s %s.", usage_layers[layer].name,
		    plot_growth_text(most, false));
	puts("</p>");
	if (plot->ended != NULL)
		put_note(plot->ended);
	if (!plot->is_whole)
		put_note("The recording was cut short: it has no call sites, "
			 "no leaks and no flame graph.");
}

static int
order_by_growth(const void *a, const void *b)
{
	const struct plot_site *x = a, *y = b;

	if (x->growth != y->growth)
		return x->growth > y->growth ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* Takes out call sites that have no bytes at the end and had none at first. */
static size_t
sites_drop_empty(struct plot_site *sites, size_t nsites)
{
	size_t n = 0;

	for (size_t i = 0; i < nsites; i++)
		if (sites[i].bytes >= 0.5 || fabs(sites[i].growth) >= 0.5)
			sites[n++] = sites[i];
	return n;
}

static void
put_more(size_t n)
{
	if (n > SITES_ROWS)
		printf("<p>%zu more</p>\n", n - SITES_ROWS);
}

static void
put_sites(const struct plot *plot)
{
	/* With an interval of 1, every block is a sample. */
	bool estimated = plot->mean != 1;
	size_t n;

	puts("<h2>Call sites by growth during the recording</h2>");
	if (plot->nsites == 0) {
		if (plot->mean == 0) {
			fputs(
			    "<p>Sampling was off. <code>umem sample ", stdout);
			html_text(plot->pid);
			puts(" default</code> turns it on, and then a "
			     "recording has the call sites.</p>");
		} else {
			puts("<p>No sample was in use.</p>");
		}
		return;
	}
	printf("<p>Estimates from samples, %s.</p>\n",
	    plot->mean == 0 ? "which are now off"
			    : xprint("one in about %s of allocations",
				  html_size(plot->mean)));
	puts("<div class=\"wide\"><table>\n<tr><th>growth</th><th>bytes</th>"
	     "<th>blocks</th><th>call site</th></tr>");
	qsort(plot->sites, plot->nsites, sizeof(*plot->sites), order_by_growth);
	n = sites_drop_empty(plot->sites, plot->nsites);
	for (size_t i = 0; i < n && i < SITES_ROWS; i++) {
		const struct plot_site *site = &plot->sites[i];

		printf("<tr><td>%s</td><td>%s</td><td>%s</td><td>",
		    plot_growth_text(site->growth, estimated),
		    html_bytes(site->bytes, estimated),
		    count_text(site->blocks, estimated));
		html_text(site->name);
		puts("</td></tr>");
	}
	puts("</table></div>");
	put_more(n);
}

static void
put_leak(const struct look_row *row, double all)
{
	printf("<tr><td>%s</td><td>%.0f%%</td><td>%s</td><td>",
	    html_bytes(row->bytes, row->estimated), 100 * row->bytes / all,
	    count_text(row->blocks, row->estimated));
	html_text(row->name);
	html_text(row->callers);
	puts("</td></tr>");
}

static void
put_leaks(const struct plot *plot)
{
	const struct look *look = &plot->leaks;
	double all = 0;
	bool estimated = false;

	puts("<h2>Leaks</h2>");
	if (plot->no_leaks != NULL) {
		fputs("<p>", stdout);
		html_text(plot->no_leaks);
		puts("</p>");
		return;
	}
	if (look->nrows == 0) {
		puts("<p>No leaks were found at the end.</p>");
		return;
	}
	for (size_t i = 0; i < look->nrows; i++) {
		all += look->rows[i].bytes;
		estimated |= look->rows[i].estimated;
	}
	printf("<p>%s to which nothing in the program pointed any more at the "
	       "end, by call site.%s</p>\n",
	    html_bytes(all, estimated),
	    estimated ? " ~ is an estimate from samples." : "");
	puts("<div class=\"wide\"><table>\n<tr><th>bytes</th><th>share</th>"
	     "<th>blocks</th><th>call site</th></tr>");
	for (size_t i = 0; i < look->nrows && i < SITES_ROWS; i++)
		put_leak(&look->rows[i], all);
	puts("</table></div>");
	put_more(look->nrows);
}

void
plot_write_page(const struct plot *plot)
{
	const char *subject = xprint("%s (%s)", plot->program, plot->pid);

	html_begin(subject, xprint("%s%s", plot_style, flame_style));
	put_summary(plot);
	plot_write_chart(plot);
	if (plot->is_whole) {
		put_sites(plot);
		put_leaks(plot);
	}
	if (plot->nstacks != 0) {
		puts("<h2>Memory in use by stack</h2>");
		flame_write_graph(plot->stacks, plot->nstacks);
	}
	html_end();
}
