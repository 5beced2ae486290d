/* json.h - is a text JSON?  Bytes of UTF-8 count as characters */
#ifndef TESTS_FUZZ_JSON_H
#define TESTS_FUZZ_JSON_H

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

/* Each function returns the rest behind its element, or NULL. */
static const char *json_value(const char *at, unsigned depth);

static const char *
json_blanks(const char *at)
{
	return at + strspn(at, " \n\t\r");
}

static const char *
json_string(const char *at)
{
	if (*at++ != '"')
		return NULL;
	for (; *at != '"'; at++) {
		if ((unsigned char)*at < 0x20)
			return NULL;
		if (*at == '\\' && strchr("\"\\/bfnrtu", *++at) == NULL)
			return NULL;
	}
	return at + 1;
}

/* The elements of an object or an array. */
static const char *
json_list(const char *at, char close, unsigned depth)
{
	at = json_blanks(at + 1);
	if (*at == close)
		return at + 1;
	for (;;) {
		if (close == '}') {
			at = json_string(json_blanks(at));
			if (at == NULL || *(at = json_blanks(at)) != ':')
				return NULL;
			at++;
		}
		at = json_value(json_blanks(at), depth + 1);
		if (at == NULL)
			return NULL;
		at = json_blanks(at);
		if (*at == close)
			return at + 1;
		if (*at++ != ',')
			return NULL;
	}
}

static const char *
json_number(const char *at)
{
	size_t n = strspn(at, "+-.eE0123456789");

	return n > 0 && (*at == '-' || isdigit(*at)) ? at + n : NULL;
}

static const char *
json_value(const char *at, unsigned depth)
{
	static const char *const words[] = {"true", "false", "null"};

	if (depth > 64)
		return NULL;
	if (*at == '{' || *at == '[')
		return json_list(at, *at == '{' ? '}' : ']', depth);
	if (*at == '"')
		return json_string(at);
	for (unsigned i = 0; i < 3; i++)
		if (strncmp(at, words[i], strlen(words[i])) == 0)
			return at + strlen(words[i]);
	return json_number(at);
}

static bool
json_is_valid(const char *text)
{
	const char *end = json_value(json_blanks(text), 0);

	return end != NULL && *json_blanks(end) == '\0';
}

#endif
