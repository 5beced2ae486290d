/*
 * processes.c - several processes that run on umem, and umem ps
 *
 * No process is stopped: usage.c reads them while they run.  In a search, a
 * process that ends meanwhile, or that does not run on umem, is passed over.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/inspect/base/clock.h"
#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "tools/inspect/commands/processes.h"
#include "tools/inspect/model/options.h"
#include "tools/inspect/sites/sites.h"
#include "tools/inspect/symbols/program.h"
#include "tools/inspect/symbols/symbols.h"

/* The time in which a process that samples allocates, in us. */
#define RATE_US 400000

static void
add_target(struct processes *all, struct target *target)
{
	struct model model = {
	    .target = target, .layout = layout_find_ready(target)};
	const char *program = program_name(target);
	struct target_options options = options_read(target, model.layout);
	struct process process = {.name = target->name,
	    .program = program != NULL ? program : "process",
	    .options = options_changed(&options),
	    .place = place_read(target),
	    .target = target,
	    .layout = model.layout,
	    .rate = -1};

	usage_read(&model, &process.usage);
	if (all->of_sites) {
		top_sites_read(&process.sites, &model);
		top_sites_count(&process.sites, &model);
		top_sites_forget(&process.sites, &model);
		symbols_close(target);
	}
	ARRAY_ADD(all->list, all->n, all->capacity, process);
}

void
processes_add(struct processes *all, const char *name)
{
	add_target(all, target_open(name));
}

static void
add_process(struct processes *all, const char *pid)
{
	add_target(all, target_open_process(xprint("%s", pid)));
}

/* Calls f, unless the process has ended or does not run on umem. */
static void
try_process(struct processes *all,
    void (*f)(struct processes *all, const char *pid), const char *pid)
{
	jmp_buf failed;

	fail_target = &failed;
	fail_is_kept = true;
	if (setjmp(failed) == 0)
		f(all, pid);
	fail_is_kept = false;
	fail_target = NULL;
}

/* Does the kernel forbid this user to look at the process? */
static bool
is_forbidden(const char *pid)
{
	int fd = open(xprint("/proc/%s/maps", pid), O_RDONLY | O_CLOEXEC);
	bool is = fd < 0 && (errno == EACCES || errno == EPERM);

	if (fd >= 0)
		close(fd);
	return is;
}

static int
order_by_rss(const void *a, const void *b)
{
	const struct process *x = a, *y = b;

	return order_rows((double)x->usage.rss, (double)y->usage.rss,
	    x->target->pid - y->target->pid);
}

void
processes_find(struct processes *all)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	size_t nforbidden = 0;

	if (dir == NULL)
		fail_with(EXIT_ERROR, "cannot read /proc");
	while ((entry = readdir(dir)) != NULL) {
		long pid = strtol(entry->d_name, NULL, 10);

		if (pid <= 0 || pid == getpid())
			continue;
		if (is_forbidden(entry->d_name))
			nforbidden++;
		else
			try_process(all, add_process, entry->d_name);
	}
	closedir(dir);
	ARRAY_SORT(all->list, all->n, order_by_rss);
	if (nforbidden != 0)
		print_warning("no permission to look at %s",
		    counted(nforbidden, "other process"));
}

/* Reads how much a process has allocated since it was read. */
static void
read_rate(struct processes *all, const char *pid)
{
	struct process *p = all->list;
	uint64_t now;

	while (p->name != pid)
		p++;
	if (layout_peek(p->layout, p->target,
		layout_value(p->layout, L_ACCOUNT), L_ACCOUNT_ALLOCATED, &now))
		p->rate = (double)usage_less(now, p->usage.s.allocated_bytes) /
			  (seconds_now() - p->usage.time);
}

/* Reads the rates of the processes that sample. */
static void
read_rates(struct processes *all)
{
	bool waited = false;

	for (size_t i = 0; i < all->n; i++) {
		if (all->list[i].usage.s.allocated_bytes == 0)
			continue;
		if (!waited)
			usleep(RATE_US);
		waited = true;
		try_process(all, read_rate, all->list[i].name);
	}
}

/* A row; the last columns vary most in width, and a terminal may cut them. */
#define ROW "%7s %7s %7s %7s %8s %7s %6s  "

static void
print_row(const char *name, const struct usage *u, const char *rate,
    const char *age, const char *program, const char *rest)
{
	if (!json_wanted)
		print_call_site(
		    (size_t)printf(ROW, name, size_text(u->rss),
			size_text(u->s.live_bytes + u->s.sampled_bytes),
			size_text(usage_cached(u)), size_text(u->others), rate,
			age),
		    xprint("%-15s ", program), rest);
}

static void
print_process(const struct process *p)
{
	const struct place *place = &p->place;
	const char *where = *place->unit ? place->unit : "-";

	json_open(NULL, '{');
	json_number("pid", strtoul(p->name, NULL, 10));
	json_text("program", p->program);
	json_text("unit", place->unit);
	json_text("container", place->container);
	json_text("options", p->options);
	json_number("age_ns", place->age);
	if (p->rate >= 0)
		json_rounded("allocated_bytes_per_second", p->rate);
	usage_json(&p->usage);
	json_close();
	if (*place->container != '\0')
		where = place->container;
	if (strcmp(p->options, "none") != 0)
		where = xprint("%s  %s", where, p->options);
	print_row(p->name, &p->usage,
	    p->rate < 0 ? "-" : bytes_text(p->rate, true),
	    site_age_text(place->age), p->program, where);
}

void
processes_print(struct processes *all, size_t rows)
{
	struct usage sum = {0};

	read_rates(all);
	json_open(NULL, '{');
	json_open("processes", '[');
	if (!json_wanted)
		print_call_site((size_t)printf(ROW, "PID", "RSS", "IN USE",
				    "CACHED", "NOT OURS", "ALLOC/S", "AGE"),
		    "PROGRAM         ", "WHERE  OPTIONS");
	for (size_t i = 0; i < all->n; i++) {
		const struct usage *u = &all->list[i].usage;

		if (i < rows)
			print_process(&all->list[i]);
		sum.rss += u->rss;
		sum.s.live_bytes += u->s.live_bytes + u->s.sampled_bytes;
		sum.s.cpu_bytes += usage_cached(u);
		sum.others += u->others;
	}
	json_close();
	json_close();
	print_row("all", &sum, "", "", counted(all->n, "process"), "");
}

int
command_ps(int argc, char **argv)
{
	struct processes all = {0};

	options_take(argc, argv, NULL, 0, 0, 0);
	processes_find(&all);
	processes_print(&all, SIZE_MAX);
	return EXIT_OK;
}
