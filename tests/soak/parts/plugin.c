/* plugin.c - a library that the soak opens and closes */
#include <stdlib.h>
#include <string.h>

void *plugin_copy(const char *text);

static char *held;

__attribute__((constructor)) static void
plugin_begin(void)
{
	held = strdup("held by the plugin");
}

__attribute__((destructor)) static void
plugin_end(void)
{
	free(held);
}

/* The block outlives the library. */
void *
plugin_copy(const char *text)
{
	return held == NULL ? NULL : strdup(text);
}
