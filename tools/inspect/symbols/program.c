/*
 * program.c - the name of the target's program
 *
 * The file of a program may have a name that its user does not know: on Debian,
 * redis-server is a link to redis-check-rdb.  Therefore the first word of the
 * command line names the program, if the kernel recorded the same name when the
 * program was started.  Otherwise the file names it: the program may have
 * changed its words, and those of a script begin with its interpreter.
 */
#include <string.h>
#include <sys/stat.h>

#include "tools/inspect/symbols/program.h"

/* Bytes of a name that the kernel records, as TASK_COMM_LEN. */
#define COMM_BYTES 15

struct program {
	const char *name; /* or NULL */
	const char *file; /* the name of its mapping; or NULL */
};

/* Returns the name in the first word if the kernel's record agrees, or NULL. */
static const char *
started_name(const char *words, const char *comm)
{
	const char *word = plain_text(words, strcspn(words, " "));
	const char *name = base_name(word);

	return *name != '\0' && strncmp(name, comm, COMM_BYTES) == 0 ? name
								     : NULL;
}

static void
find_live(struct target *target, struct program *program)
{
	char words[4096], comm[64];
	struct stat status;

	proc_read(target->pid, "cmdline", words, sizeof(words));
	proc_read(target->pid, "comm", comm, sizeof(comm));
	comm[strcspn(comm, "\n")] = '\0';
	program->name = started_name(words, comm);
	if (stat(proc_path(target->pid, "exe"), &status) != 0)
		return;
	for (size_t i = 0; i < target->nmaps; i++)
		if (target->maps[i].file &&
		    target->maps[i].inode == status.st_ino) {
			program->file = target->maps[i].name;
			return;
		}
}

static const struct program *
program_find(struct target *target)
{
	if (target->program != NULL)
		return target->program;
	target->program = xalloc(sizeof(*target->program));
	if (target->live) {
		find_live(target, target->program);
	} else {
		target->program->name =
		    started_name(target->command, target->comm);
		/* The program lies below the libraries. */
		if (target->nfiles != 0)
			target->program->file = target->files[0].name;
	}
	return target->program;
}

const char *
program_name(struct target *target)
{
	const struct program *program = program_find(target);

	if (program->name != NULL)
		return program->name;
	return program->file != NULL ? base_name(program->file) : NULL;
}

const char *
program_object(struct target *target, const struct mapping *m)
{
	const struct program *program = program_find(target);
	const char *base = base_name(m->name);

	/* The kernel adds "(deleted)" to the name of a file that is gone. */
	if (program->name == NULL || program->file == NULL ||
	    strcmp(program->file, m->name) != 0 || strchr(base, '(') != NULL)
		return base;
	return program->name;
}
