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
#include "tools/inspect/symbols/program.h"

static void
add_target(struct processes *all, struct target *target)
{
	struct model model = {
	    .target = target, .layout = layout_find_ready(target)};
	const char *program = program_name(target);
	struct process process = {.name = target->name,
	    .program = program != NULL ? program : "process"};

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
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/maps", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES || errno == EPERM;
	close(fd);
	return false;
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
		const struct usage *u = &all->list[i].usage;

		json_open(NULL, '{');
		json_number("pid", strtoul(all->list[i].name, NULL, 10));
		json_text("program", all->list[i].program);
		json_number("rss_bytes", u->rss);
		json_number("live_bytes", u->in_use);
		json_number("cached_bytes", usage_cached(u));
		json_number("not_ours_bytes", u->others);
		json_close();
	}
	json_close();
	json_close();
}

int
command_ps(int argc, char **argv)
{
	struct processes all = {0};

	no_option(argc, argv);
	expect_arguments(argc, argv, 0, 0);
	processes_find(&all);
	if (json_wanted) {
		processes_json(&all);
		return EXIT_OK;
	}
	printf("%7s %8s %8s %8s %8s  %s\n", "PID", "RSS", "IN USE", "CACHED",
	    "NOT OURS", "PROGRAM");
	for (size_t i = 0; i < all.n; i++) {
		const struct usage *u = &all.list[i].usage;

		printf("%7s %8s %8s %8s %8s  %s\n", all.list[i].name,
		    size_text(u->rss), size_text(u->in_use),
		    size_text(usage_cached(u)), size_text(u->others),
		    all.list[i].program);
	}
	return EXIT_OK;
}
