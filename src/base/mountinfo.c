/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mountinfo.c: one line of /proc/PID/mountinfo (proc(5)): id parent major:minor root point options [optional...] - type
 * source super-options. Whoever mounts chooses the words of most fields; blanks in them are escaped.
 */
#include <stdlib.h>
#include <string.h>

#include "zernel.h"

/* The next field, with its NUL in place of the space; NULL at the end. */
static char *next_field(char **at)
{
	char *begin = *at, *end;

	if (!begin)
		return NULL;
	end = strchr(begin, ' ');
	if (end)
		*end++ = 0;
	*at = end;
	return begin;
}

static bool read_device(const char *text, uint32_t *dev)
{
	char *colon, *end;
	unsigned long major = strtoul(text, &colon, 10), minor;

	if (colon == text || *colon != ':' || major >= 1 << 12)
		return false;
	minor = strtoul(colon + 1, &end, 10);
	*dev = (uint32_t)(major << 20 | minor);
	return end > colon + 1 && !*end && minor < 1 << 20;
}

bool zn_mountinfo_read(char *text, struct zn_mount_line *l)
{
	char *at = text, *word;

	next_field(&at); /* its id */
	next_field(&at); /* its parent's */
	word = next_field(&at);
	l->root = next_field(&at);
	l->point = next_field(&at);
	if (!word || !l->root || !l->point || l->root[0] != '/' || l->point[0] != '/' || !read_device(word, &l->dev))
		return false;
	while ((word = next_field(&at)) && strcmp(word, "-"))
		;
	l->type = word ? next_field(&at) : NULL;
	word = next_field(&at); /* the source */
	l->options = word ? next_field(&at) : NULL;
	if (!l->options)
		l->options = "";
	return l->type && l->type[0];
}
