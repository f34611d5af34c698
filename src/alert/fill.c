/* SPDX-License-Identifier: GPL-2.0 */
/* fill.c: the places {{...}} in the texts of alert rules: finds them, and fills them in. */
#include <math.h>

#include "zernel.h"

/* What stands between {{ and }}: a label or value, and maybe a form of it. */
bool zn_fill_is_known(struct zn_str inside)
{
	static const char *const forms[] = {"value", "value|percent", "value|bytes", "value|duration"};

	for (size_t i = 0; i < ZN_LEN(forms); i++)
		if (zn_str_is(inside, forms[i]))
			return true;
	for (size_t i = 0; i < inside.len; i++)
		if (!zn_str_is_one_of(inside.at[i], i ? ZN_LEX_LETTERS ZN_LEX_DIGITS : ZN_LEX_LETTERS))
			return false;
	return inside.len > 0;
}

/* The next {{...}} in a text: its inside, and where it begins and ends. False: no more, or (inside->at NULL) not
 * closed. */
bool zn_fill_next(struct zn_str text, struct zn_str *inside, const char **from, const char **to)
{
	const char *end = text.at + text.len;

	*inside = (struct zn_str){text.at, 0};
	*from = memmem(text.at, text.len, "{{", 2);
	if (!*from)
		return false;
	*to = memmem(*from, (size_t)(end - *from), "}}", 2);
	if (!*to) {
		inside->at = NULL;
		return false;
	}
	*inside = zn_str_between(*from + 2, *to);
	while (inside->len && *inside->at == ' ')
		*inside = zn_str_between(inside->at + 1, *to);
	while (inside->len && inside->at[inside->len - 1] == ' ')
		inside->len--;
	*to += 2;
	return true;
}

static void fill_bytes(struct zn_out *o, double v)
{
	static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	char text[48];
	size_t i = 0;

	for (; fabs(v) >= 1024 && i + 1 < ZN_LEN(names); i++)
		v /= 1024;
	snprintf(text, sizeof(text), "%.4g %s", v, names[i]);
	zn_out_text(o, text);
}

static void fill_duration(struct zn_out *o, double s)
{
	char text[64];

	s = fabs(s) >= 60 ? round(s) : s;
	if (s >= 3600 && s < 1e12)
		snprintf(text, sizeof(text), "%.0f h %.0f min", floor(s / 3600), floor(fmod(s, 3600) / 60));
	else if (s >= 60 && s < 3600)
		snprintf(text, sizeof(text), "%.0f min %.0f s", floor(s / 60), floor(fmod(s, 60)));
	else if (fabs(s) >= 1 || s == 0 || !isfinite(s))
		snprintf(text, sizeof(text), "%.3g s", s);
	else
		snprintf(text, sizeof(text), fabs(s) >= 1e-3 ? "%.3g ms" : "%.3g us",
			fabs(s) >= 1e-3 ? s * 1e3 : s * 1e6);
	zn_out_text(o, text);
}

static void fill_value(struct zn_out *o, struct zn_str form, double value)
{
	char text[48];

	if (zn_str_is(form, "value|bytes")) {
		fill_bytes(o, value);
	} else if (zn_str_is(form, "value|duration")) {
		fill_duration(o, value);
	} else {
		bool percent = zn_str_is(form, "value|percent");

		snprintf(text, sizeof(text), percent ? "%.4g %%" : "%.4g", percent ? value * 100 : value);
		zn_out_text(o, text);
	}
}

/* As much of it as there is room for, in whole characters. */
static void fill_part(struct zn_out *o, struct zn_str part)
{
	size_t room = o->full ? 0 : o->cap - o->len, len = part.len < room ? part.len : room;

	while (len && len < part.len && (part.at[len] & 0xc0) == 0x80)
		len--;
	zn_out_bytes(o, part.at, len);
	o->full |= len < part.len;
}

void zn_fill_text(struct zn_out *o, struct zn_str text, double value,
	struct zn_str (*label)(const void *of, struct zn_str), const void *of)
{
	const char *from, *behind, *end;
	struct zn_str inside;

	if (!text.len) /* what is not there is NULL, and nothing may be added to that */
		return;
	end = text.at + text.len;
	for (; zn_fill_next(text, &inside, &from, &behind); text = zn_str_between(behind, end)) {
		fill_part(o, zn_str_between(text.at, from));
		if (inside.len >= 5 && !memcmp(inside.at, "value", 5) && (inside.len == 5 || inside.at[5] == '|'))
			fill_value(o, inside, value);
		else
			fill_part(o, label(of, inside));
	}
	fill_part(o, text);
}
