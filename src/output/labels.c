/* SPDX-License-Identifier: GPL-2.0 */
/* labels.c: what programs said of themselves, as JSON. */
#include "zernel.h"

static void put_annotation(struct zn_json *j, const struct zn_annotation *a)
{
	zn_json_open(j, '{');
	zn_json_key_text(j, "key", a->key);
	zn_json_key_text(j, "value", a->value);
	zn_json_key_u64(j, "pid", a->pid);
	zn_json_key_u64(j, "at_ms", a->at_wall_ms);
	zn_json_close(j, '}');
}

bool zn_labels_item(struct zn_json *j, const struct zn_annotation_group *g, uint32_t i)
{
	if (g && i < g->labels)
		put_annotation(j, &g->label[i]);
	return g && i < g->labels;
}

bool zn_labels_change(struct zn_json *j, const struct zn_annotation_group *g, uint32_t i)
{
	if (g && i < g->changes)
		put_annotation(j, &g->change[i]);
	return g && i < g->changes;
}

void zn_labels_json(struct zn_json *j, const struct zn_annotation_group *g, bool changes)
{
	zn_json_key_open(j, "labels", '[');
	for (uint32_t i = 0; zn_labels_item(j, g, i); i++)
		;
	zn_json_close(j, ']');
	if (!changes)
		return;
	zn_json_key_open(j, "label_changes", '[');
	for (uint32_t i = 0; zn_labels_change(j, g, i); i++)
		;
	zn_json_close(j, ']');
}
