/* SPDX-License-Identifier: GPL-2.0 */
/* cut.h: cuts a text at a character. */
#ifndef CUT_H
#define CUT_H

#include <string.h>

#include "zernel.h"

/* What comes before the first separator, or all of it; both are taken off the text. */
static struct zn_str cut_before(struct zn_str *s, char separator)
{
	const char *mark = s->len ? memchr(s->at, separator, s->len) : NULL;
	struct zn_str part = {s->at, mark ? (size_t)(mark - s->at) : s->len};

	s->at += part.len + (mark != NULL);
	s->len -= part.len + (mark != NULL);
	return part;
}

#endif
