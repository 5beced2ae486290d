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

#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "tools/inspect/commands/processes.h"
#include "tools/inspect/model/options.h"
#include "tools/inspect/sites/sites.h"
#include "tools/inspect/symbols/program.h"

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
	    .place = place_read(target)};

	usage_read(&model, &process.usage);
	ARRAY_GROW(all->list, all->n, all->capacity);
	all->list[all->n++] = process;
}

void
processes_add(struct processes *all, const char *name)
{
	add_target(all, target_open(name));
}

/* Adds a process, unless that fails. */
static void
try_process(struct processes *all, const char *pid)
{
	jmp_buf failed;

	fail_target = &failed;
	fail_is_kept = true;
	if (setjmp(failed) == 0)
		add_target(all, target_open_process(xprint("%s", pid)));
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

	return order_numbers(y->usage.rss, x->usage.rss);
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
			try_process(all, entry->d_name);
	}
	closedir(dir);
	if (all->n != 0)
		qsort(all->list, all->n, sizeof(*all->list), order_by_rss);
	if (nforbidden != 0)
		print_warning(
		    "no permission to look at %zu other processes", nforbidden);
}

static void
processes_json(const struct processes *all)
{
	json_open(NULL, '{');
	json_open("processes", '[');
	for (size_t i = 0; i < all->n; i++) {
		json_open(NULL, '{');
		json_number("pid", strtoul(all->list[i].name, NULL, 10));
		json_text("program", all->list[i].program);
		json_text("unit", all->list[i].place.unit);
		json_text("container", all->list[i].place.container);
		json_text("options", all->list[i].options);
		json_number("age_ns", all->list[i].place.age);
		usage_json(&all->list[i].usage);
		json_close();
	}
	json_close();
	json_close();
}

/* Prints a row; the last columns are those that vary most in width. */
static void
print_row(const char *name, const struct usage *u, const char *age,
    const char *program, const char *rest)
{
	printf("%7s %8s %8s %8s %8s %6s  %-15s %s\n", name, size_text(u->rss),
	    size_text(u->in_use), size_text(usage_cached(u)),
	    size_text(u->others), age, program, rest);
}

static void
print_process(const struct process *p)
{
	const struct place *place = &p->place;
	const char *where = *place->unit ? place->unit : "-";

	if (*place->container != '\0')
		where = place->container;
	if (strcmp(p->options, "none") != 0)
		where = xprint("%s  %s", where, p->options);
	print_row(
	    p->name, &p->usage, site_age_text(place->age), p->program, where);
}

int
command_ps(int argc, char **argv)
{
	struct processes all = {0};
	struct usage sum = {0};

	no_option(argc, argv);
	expect_arguments(argc, argv, 0, 0);
	processes_find(&all);
	if (json_wanted) {
		processes_json(&all);
		return EXIT_OK;
	}
	printf("%7s %8s %8s %8s %8s %6s  %-15s %s\n", "PID", "RSS", "IN USE",
	    "CACHED", "NOT OURS", "AGE", "PROGRAM", "WHERE  OPTIONS");
	for (size_t i = 0; i < all.n; i++) {
		const struct usage *u = &all.list[i].usage;

		print_process(&all.list[i]);
		sum.rss += u->rss;
		sum.in_use += u->in_use;
		sum.cpus += usage_cached(u);
		sum.others += u->others;
	}
	print_row("all", &sum, "", xprint("%zu processes", all.n), "");
	return EXIT_OK;
}
