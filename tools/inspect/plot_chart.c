/*
 * plot_chart.c - the memory of a recording over time, by layer
 *
 * The areas are one SVG image that is stretched to the width of the page, so
 * the labels of its axes are texts beside it, which keep their size.  Each area
 * reaches from 0 to the top of its layer, and the areas of the layers below are
 * drawn over it.  A table below the axes names the layers, the uppermost first,
 * but for those that are always empty.
 *
 * Over the areas lie columns, one for each look, with the figures of the
 * moment; a browser shows those of the column below the pointer.  No script is
 * needed.
 *
 * Of many looks, the page has those with the largest resident set of equal
 * parts of the time, so that no peak is lost.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/inspect/html.h"
#include "tools/inspect/plot.h"
#include "tools/inspect/print.h"

/* Looks in the page. */
#define PARTS 400

/* Labels of an axis, at most. */
#define TICKS 8

/* The image is a square of so many units, before it is stretched. */
#define UNITS 1000

#define DAY 86400

/* Colours that differ in brightness, too, from the lowest layer on. */
static const char *const colours[] = {"#3b6ea8", "#c9600b", "#f0953f",
    "#f9c78c", "#4f9d69", "#d9b62c", "#9a62a8", "#c8475c", "#6b6f76",
    "#a3a9b0"};
static_assert(array_size(colours) == USAGE_LAYERS, "each layer has a colour");

const char plot_style[] =
    ".chart{display:grid;grid-template-columns:auto 1fr;\n"
    " margin:1.2em 1.5em 0 0}\n"
    ".chart span{position:absolute;white-space:nowrap;font-size:12px}\n"
    ".y{position:relative;width:4.6em}\n"
    ".y span{right:.5em;transform:translateY(50%)}\n"
    ".x{grid-column:2;position:relative;height:1.8em}\n"
    ".x span{transform:translateX(-50%);top:.3em}\n"
    ".plot{position:relative;height:22em;border:1px solid #8888}\n"
    ".plot svg{display:block;width:100%;height:100%}\n"
    ".plot line{stroke:#8886;vector-effect:non-scaling-stroke}\n"
    ".plot polyline{fill:none;stroke:CanvasText;stroke-width:2;\n"
    " vector-effect:non-scaling-stroke}\n"
    ".look{position:absolute;top:0;bottom:0}\n"
    ".look:hover{background:#8885}\n"
    ".look pre{display:none;position:absolute;top:.5em;left:100%;z-index:1;\n"
    " margin:0 .5em;padding:.3em .6em;font:12px/1.5 monospace;\n"
    " background:Canvas;border:1px solid #8888;pointer-events:none}\n"
    ".look.late pre{left:auto;right:100%}\n"
    ".look:hover pre{display:block}\n"
    ".layers i{display:inline-block;width:.9em;height:.9em;margin-right:.5em;\n"
    " vertical-align:-.1em}\n"
    ".layers i.line{height:0;border-top:2px solid;vertical-align:.25em}\n"
    ".layers td:first-child,.layers th:first-child{text-align:left}\n"
    ".layers td:last-child{font-family:sans-serif;padding-right:0}\n"
    "@media(max-width:700px){.more{display:none}\n"
    " .x span:nth-child(even){display:none}}\n";

/* What is drawn. */
struct chart {
	const struct plot *plot;
	const struct plot_look **looks;
	size_t n;
	double seconds;         /* shown; more than 0 */
	double most;            /* bytes, at the upper edge; more than 0 */
	double zero;            /* local time of the start, in s since 1970 */
	bool has[USAGE_LAYERS]; /* is the layer ever more than 0? */
	bool has_untouched;
};

/* Returns the bytes up to the top of a layer; USAGE_LAYERS - 1: of all. */
static double
bytes_up_to(const struct plot_look *look, size_t layer)
{
	double bytes = 0;

	for (size_t i = 0; i <= layer; i++)
		bytes += (double)look->layer[i];
	return bytes;
}

/* Chooses the looks that are drawn. */
static void
choose_looks(struct chart *chart)
{
	const struct plot *plot = chart->plot;
	const struct plot_look *last = &plot->looks[plot->nlooks - 1];
	size_t before = SIZE_MAX;

	chart->looks = xalloc((PARTS + 3) * sizeof(struct plot_look *));
	chart->looks[chart->n++] = &plot->looks[0];
	for (size_t i = 1; i + 1 < plot->nlooks; i++) {
		const struct plot_look *look = &plot->looks[i];
		size_t part = (size_t)(PARTS * look->time / last->time);

		if (plot->nlooks <= PARTS || part != before)
			chart->looks[chart->n++] = look;
		else if (look->rss > chart->looks[chart->n - 1]->rss)
			chart->looks[chart->n - 1] = look;
		before = part;
	}
	chart->looks[chart->n++] = last;
	assert(chart->n <= PARTS + 3);
}

static void
measure(struct chart *chart)
{
	time_t start = (time_t)chart->plot->start;
	const struct plot *plot = chart->plot;
	double most = 1;
	struct tm tm;

	for (size_t i = 0; i < plot->nlooks; i++) {
		const struct plot_look *look = &plot->looks[i];

		most = fmax(most, bytes_up_to(look, USAGE_LAYERS - 1));
		most = fmax(most, (double)look->rss);
		chart->has_untouched |= look->untouched != 0;
		for (size_t j = 0; j < USAGE_LAYERS; j++)
			chart->has[j] |= look->layer[j] != 0;
	}
	chart->most = 1.04 * most;
	chart->seconds = fmax(plot->looks[plot->nlooks - 1].time, 0.001);
	if (localtime_r(&start, &tm) != NULL)
		chart->zero = plot->start + (double)tm.tm_gmtoff;
}

static double
chart_x(const struct chart *chart, const struct plot_look *look)
{
	return UNITS * look->time / chart->seconds;
}

static double
chart_y(const struct chart *chart, double bytes)
{
	return UNITS * (1 - bytes / chart->most);
}

static void
put_areas(const struct chart *chart)
{
	for (size_t i = USAGE_LAYERS; i-- > 0;) {
		if (!chart->has[i])
			continue;
		printf("<path fill=\"%s\" d=\"M0,%d", colours[i], UNITS);
		for (size_t j = 0; j < chart->n; j++)
			printf("L%.1f,%.1f", chart_x(chart, chart->looks[j]),
			    chart_y(chart, bytes_up_to(chart->looks[j], i)));
		/* A single look is as wide as the image. */
		if (chart->n == 2 && chart->looks[1]->time == 0)
			printf("H%d", UNITS);
		printf("V%dZ\"><title>%s</title></path>\n", UNITS,
		    usage_layers[i].name);
	}
}

static void
put_rss_line(const struct chart *chart)
{
	fputs("<polyline points=\"", stdout);
	for (size_t i = 0; i < chart->n; i++)
		printf("%.1f,%.1f ", chart_x(chart, chart->looks[i]),
		    chart_y(chart, (double)chart->looks[i]->rss));
	puts("\"/>");
}

/* Returns the bytes from one label to the next: a power of 2. */
static double
bytes_step(const struct chart *chart)
{
	double step = 1;

	while (chart->most / step > TICKS)
		step *= 2;
	return step;
}

/* Returns the seconds from one label to the next. */
static double
seconds_step(const struct chart *chart)
{
	static const double steps[] = {0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300,
	    600, 900, 1800, 3600, 7200, 10800, 21600, 43200, DAY};
	size_t i = 0;
	double step;

	while (i + 1 < array_size(steps) && chart->seconds / steps[i] > TICKS)
		i++;
	step = steps[i];
	while (chart->seconds / step > TICKS)
		step *= 2;
	return step;
}

static void
put_grid(const struct chart *chart)
{
	double step = bytes_step(chart);

	for (double bytes = step; bytes < chart->most; bytes += step)
		printf("<line x1=\"0\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>\n",
		    UNITS, chart_y(chart, bytes), chart_y(chart, bytes));
	step = seconds_step(chart);
	for (double at = step * ceil(chart->zero / step);
	     at < chart->zero + chart->seconds; at += step) {
		double x = UNITS * (at - chart->zero) / chart->seconds;

		printf("<line y1=\"0\" y2=\"%d\" x1=\"%.1f\" x2=\"%.1f\"/>\n",
		    UNITS, x, x);
	}
}

static void
put_labels_of_bytes(const struct chart *chart)
{
	double step = bytes_step(chart);

	puts("<div class=\"y\">");
	for (double bytes = 0; bytes < chart->most; bytes += step)
		printf("<span style=\"bottom:%.2f%%\">%s</span>\n",
		    100 * bytes / chart->most,
		    bytes == 0 ? "0" : html_size(bytes));
	puts("</div>");
}

static void
put_labels_of_time(const struct chart *chart)
{
	double step = seconds_step(chart);

	puts("<div class=\"x\">");
	for (double at = step * ceil(chart->zero / step);
	     at <= chart->zero + chart->seconds; at += step) {
		time_t local = (time_t)at;
		const char *form = step >= 60 ? "%H:%M" : "%H:%M:%S";
		char text[64];
		struct tm tm;

		/* A day begins with its date. */
		if (local % DAY == 0 && step >= 60)
			form = "%e %b";
		strftime(text, sizeof(text), form, gmtime_r(&local, &tm));
		printf("<span style=\"left:%.2f%%\">%s%s</span>\n",
		    100 * (at - chart->zero) / chart->seconds, text,
		    at > (double)local ? ".5" : "");
	}
	puts("</div>");
}

/* Puts a row of the table of layers; values: of the looks in the page. */
static void
put_row(const struct chart *chart, const char *mark, const char *name,
    double (*value)(const struct plot_look *, size_t), size_t layer,
    const char *meaning)
{
	const struct plot *plot = chart->plot;
	double first = value(&plot->looks[0], layer), most = 0;
	double last = value(&plot->looks[plot->nlooks - 1], layer);

	for (size_t i = 0; i < plot->nlooks; i++)
		most = fmax(most, value(&plot->looks[i], layer));
	printf("<tr><td>%s%s</td><td class=\"more\">%s</td><td>%s</td>"
	       "<td>%s</td><td class=\"more\">%s</td>"
	       "<td class=\"more\">%s</td></tr>\n",
	    mark, name, html_size(first), html_size(last),
	    plot_growth_text(last - first, false), html_size(most), meaning);
}

static double
value_rss(const struct plot_look *look, size_t layer)
{
	(void)layer;
	return (double)look->rss;
}

static double
value_untouched(const struct plot_look *look, size_t layer)
{
	(void)layer;
	return (double)look->untouched;
}

static double
value_layer(const struct plot_look *look, size_t layer)
{
	return (double)look->layer[layer];
}

static void
put_table(const struct chart *chart)
{
	puts("<div class=\"wide\"><table class=\"layers\">\n"
	     "<tr><th>layer, as stacked</th><th class=\"more\">first</th>"
	     "<th>last</th><th>change</th><th class=\"more\">most</th>"
	     "<th class=\"more\"></th></tr>");
	put_row(chart, "<i class=\"line\"></i>", "RSS", value_rss, 0,
	    "resident memory of the process");
	for (size_t i = USAGE_LAYERS; i-- > 0;) {
		char mark[64];

		if (!chart->has[i])
			continue;
		snprintf(mark, sizeof(mark), "<i style=\"background:%s\"></i>",
		    colours[i]);
		put_row(chart, mark, usage_layers[i].name, value_layer, i,
		    usage_layers[i].meaning);
	}
	if (chart->has_untouched)
		put_row(chart, "<i></i>", "&minus; untouched", value_untouched,
		    0,
		    "parts of the layers that were never used, so have no "
		    "memory: the height above the line");
	puts("</table></div>");
}

static void
put_figure(const char *name, uint64_t bytes)
{
	printf("\n%-20s %10s", name, html_size((double)bytes));
}

/* Puts the figures of a look, in the order of the table. */
static void
put_figures(const struct chart *chart, const struct plot_look *look)
{
	time_t local = (time_t)(chart->zero + look->time);
	char text[64];
	struct tm tm;

	strftime(text, sizeof(text), "%F %T", gmtime_r(&local, &tm));
	fputs(text, stdout);
	put_figure("RSS", look->rss);
	for (size_t i = USAGE_LAYERS; i-- > 0;)
		if (chart->has[i])
			put_figure(usage_layers[i].name, look->layer[i]);
	if (chart->has_untouched)
		put_figure("- untouched", look->untouched);
}

/* Puts a column for each look, as wide as it is the nearest look. */
static void
put_columns(const struct chart *chart)
{
	double left = 0;

	for (size_t i = 0; i < chart->n; i++) {
		const struct plot_look *look = chart->looks[i];
		double x = chart_x(chart, look), right = UNITS;

		if (i + 1 < chart->n)
			right = (x + chart_x(chart, chart->looks[i + 1])) / 2;
		printf("<div class=\"look%s\" style=\"left:%.3f%%;"
		       "width:%.3f%%\"><pre>",
		    x > UNITS / 2 ? " late" : "", 100 * left / UNITS,
		    100 * (right - left) / UNITS);
		put_figures(chart, look);
		puts("</pre></div>");
		left = right;
	}
}

void
plot_write_chart(const struct plot *plot)
{
	struct chart chart = {.plot = plot};

	choose_looks(&chart);
	measure(&chart);
	puts("<div class=\"chart\">");
	put_labels_of_bytes(&chart);
	printf("<div class=\"plot\"><svg viewBox=\"0 0 %d %d\" role=\"img\" "
	       "preserveAspectRatio=\"none\">\n"
	       "<title>resident memory over time, by layer</title>\n",
	    UNITS, UNITS);
	put_areas(&chart);
	put_grid(&chart);
	put_rss_line(&chart);
	puts("</svg>");
	put_columns(&chart);
	puts("</div>");
	put_labels_of_time(&chart);
	puts("</div>");
	put_table(&chart);
	free(chart.looks);
}
