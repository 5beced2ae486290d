/*
 * grep.c - umem grep: find the words that hold an address
 *
 * Searches all copied memory of the target (the heap, and all other memory in
 * which a program may keep pointers, dead or not) and the registers.
 */
#include <string.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "tools/inspect/commands/whatis.h"
#include "tools/inspect/model/model.h"
#include "tools/inspect/model/snapshot.h"

/* Memory is searched in parts of this size. */
#define PART_BYTES (256 * KIB)

struct search {
	uint64_t value;
	uint64_t distance;
	bool bare;
	uint64_t nfound;
};

static bool
matches(const struct search *search, uint64_t word)
{
	return word - search->value <= search->distance ||
	       search->value - word <= search->distance;
}

static void
say_hit(struct model *model, struct search *search, uint64_t at)
{
	search->nfound++;
	if (search->bare && !json_wanted)
		printf("%lx\n", at);
	else
		whatis_say(model, at);
}

static void
search_region(
    struct model *model, struct search *search, const struct region *r)
{
	uint64_t done = 0;

	while (r->bytes >= 8 && done <= r->bytes - 8) {
		uint64_t left = r->bytes - done, i = 0, word;
		uint64_t n = left < PART_BYTES ? left : PART_BYTES;
		const char *part = target_view(model->target, r->at + done, n);

		if (part == NULL)
			return;
		for (; i <= n - 8; i += 8) {
			memcpy(&word, part + i, 8);
			if (matches(search, word))
				say_hit(model, search, r->at + done + i);
		}
		if (i > r->bytes - done)
			return;
		done += i;
	}
}

static void
say_register(const struct thread *t, size_t i)
{
	plain_print("register %zu of thread %d\n", i, t->tid);
	json_open(NULL, '{');
	json_text("kind", "register");
	json_number("register", i);
	json_number("thread", (uint64_t)t->tid);
	json_close();
}

static void
search_registers(const struct target *target, struct search *search)
{
	for (size_t i = 0; i < target->nthreads; i++)
		for (size_t j = 0; j < target->threads[i].nwords; j++)
			if (matches(search, target->threads[i].words[j])) {
				search->nfound++;
				if (!search->bare || json_wanted)
					say_register(&target->threads[i], j);
			}
}

static void
search_kernel_references(const struct target *target, struct search *search)
{
	for (size_t i = 0; i < target->nkernel_references; i++) {
		if (!matches(search, target->kernel_references[i].word))
			continue;
		search->nfound++;
		json_open(NULL, '{');
		json_text("kind", "kernel");
		json_text("what", target->kernel_references[i].what);
		json_close();
		if (!search->bare)
			plain_print(
			    "in %s\n", target->kernel_references[i].what);
	}
}

int
command_grep(int argc, char **argv)
{
	struct search search = {0};
	struct model *model;
	const struct option_word words[] = {
	    {"d", .size = &search.distance, .noun = "size"},
	    {"q", .flag = &search.bare}};
	char **arguments =
	    options_take(argc, argv, words, array_size(words), 2, 2);

	search.value = address_argument(argv[0], arguments[1]);
	model = snapshot_open(arguments[0], MODEL_MEMORY | MODEL_MOVING);
	json_open(NULL, '[');
	for (size_t i = 0; i < model->target->nregions; i++)
		search_region(model, &search, &model->target->regions[i]);
	target_end_copy(model->target);
	search_registers(model->target, &search);
	search_kernel_references(model->target, &search);
	json_close();
	return search.nfound ? EXIT_OK : EXIT_FOUND;
}
