/* arguments.c - options and arguments of the subcommands */
#include <getopt.h>
#include <limits.h>
#include <string.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "tools/inspect/symbols/frames.h"
#include "tools/inspect/target/target.h"

/* More words than a command has. */
#define WORDS_MAX 24

/* The options of all commands. */
static const struct option_word common[] = {{"force", .flag = &alloc_forced},
    {"frames", .read = frames_read}, {"json", .flag = &json_wanted},
    {"sysroot", .text = &target_sysroot}};

uint64_t
address_argument(const char *command, const char *text)
{
	uint64_t address;

	if (!parse_address(text, &address))
		fail_with(EXIT_ERROR, "%s: %s is no address", command, text);
	return address;
}

static void
word_take(const char *command, const struct option_word *word)
{
	if (word->flag != NULL)
		*word->flag = true;
	else if (word->choice != NULL)
		*word->choice = word->number;
	else if (word->text != NULL)
		*word->text = optarg;
	else if (word->address != NULL)
		*word->address = address_argument(command, optarg);
	else if (word->read != NULL)
		word->read(optarg);
	else if (!parse_size(optarg, word->size))
		fail_with(
		    EXIT_ERROR, "%s: %s is no %s", command, optarg, word->noun);
}

/* Ends the command if there are fewer or more arguments. */
static void
check_arguments(int argc, char **argv, int least, int most)
{
	int n = argc - optind;

	if (n == 0 && least > 0)
		fail_usage(argv[0], "no argument is given");
	if (n < least)
		fail_usage(argv[0], "an argument is missing");
	if (n > most)
		fail_usage(argv[0],
		    xprint("one argument too many: %s", argv[optind + most]));
}

/*
 * getopt_long() returns for each option a number behind all letters.  It begins
 * its messages with the first word.
 */
char **
options_take(int argc, char **argv, const struct option_word *words, size_t n,
    int least, int most)
{
	struct option longs[WORDS_MAX] = {{0}};
	const struct option_word *word[UCHAR_MAX + 1 + WORDS_MAX] = {0};
	char letters[2 * WORDS_MAX] = "", *end = letters, *name = argv[0];
	size_t nlongs = 0, all = n + array_size(common);
	int letter;

	assert(all < WORDS_MAX);
	for (size_t i = 0; i < all; i++) {
		const struct option_word *w =
		    i < n ? &words[i] : &common[i - n];
		int has_value = w->flag == NULL && w->choice == NULL;

		letter =
		    w->name[1] == '\0' ? w->name[0] : UCHAR_MAX + 1 + (int)i;
		word[letter] = w;
		if (letter <= UCHAR_MAX)
			end +=
			    sprintf(end, "%c%s", letter, has_value ? ":" : "");
		else
			longs[nlongs++] =
			    (struct option){w->name, has_value, NULL, letter};
	}
	argv[0] = xprint("umem: %s", name);
	while ((letter = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		if (letter == '?')
			fail_usage(name, NULL);
		for (size_t i = 0; i < n && word[letter]->choice != NULL; i++)
			if (words[i].choice == word[letter]->choice &&
			    words[i].number == *words[i].choice &&
			    &words[i] != word[letter])
				fail_usage(name,
				    xprint("--%s or --%s, not both",
					words[i].name, word[letter]->name));
		word_take(name, word[letter]);
	}
	argv[0] = name;
	check_arguments(argc, argv, least, most);
	return argv + optind;
}

const char *
target_argument(int argc, char **argv)
{
	return *options_take(argc, argv, NULL, 0, 1, 1);
}
