/* SPDX-License-Identifier: GPL-2.0 */
/* text.c: slices of text that somebody else's bytes are cut into. */
#include "zernel.h"

bool zn_str_cut(struct zn_str *text, char until, struct zn_str *before)
{
	const char *at = text->len ? memchr(text->at, until, text->len) : NULL;

	if (!at)
		return false;
	*before = (struct zn_str){text->at, (size_t)(at - text->at)};
	text->len -= before->len + 1;
	text->at = at + 1;
	return true;
}
