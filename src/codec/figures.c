/* SPDX-License-Identifier: GPL-2.0 */
/* figures.c: the names of figures of a GPU, as JSON and zernel-gpu have them, and their decimals. */
#include <string.h>

#include "zernel.h"

static const struct {
	const char *name;
	int decimals;
} figures[] = {
#define X(e, name, decimals) {name, decimals},
	ZN_FIGURES(X)
#undef X
};

const char *zn_figure_name(enum zn_figure f)
{
	return figures[f].name;
}

int zn_figure_decimals(enum zn_figure f)
{
	return figures[f].decimals;
}

enum zn_figure zn_figure_find(struct zn_str name)
{
	enum zn_figure f = 0;

	while (f < ZN_FIGURE_COUNT &&
		(strlen(figures[f].name) != name.len || memcmp(figures[f].name, name.at, name.len)))
		f++;
	return f;
}
