/* SPDX-License-Identifier: GPL-2.0 */
/* no_libraries.h: in place of probe/find.c and libraries.c: a daemon that has hooked no library, or one that it
 * shows. */
#ifndef NO_LIBRARIES_H
#define NO_LIBRARIES_H

#include "zernel.h"

static const struct zn_lib *shown_library; /* NULL: none */

struct zn_libraries *zn_find_libraries(struct zn_find *f)
{
	(void)f;
	return NULL;
}

bool zn_libraries_hang(struct zn_libraries *l, struct zn_hang *to)
{
	(void)l, (void)to;
	return false;
}

void zn_libraries_visit(struct zn_libraries *l, void (*visit)(void *to, const struct zn_lib *lib), void *to)
{
	(void)l;
	if (shown_library)
		visit(to, shown_library);
}

#endif
