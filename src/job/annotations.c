/* SPDX-License-Identifier: GPL-2.0 */
/*
 * annotations.c: what programs say of themselves by `zernel annotate`: labels of a job, such as step, epoch or phase,
 * and when they changed. Nothing depends on them.
 *
 * A job has room for a few labels and for a few of their changes. Of those that no longer fit, the owner and the
 * label with the most of them lose the one that stands nearest to another: what is kept of a label that changes at
 * each step is spread over the whole time, and one that changes twice keeps both.
 *
 * Limits: all this is kept in memory and ends with the daemon. Processes of no job have one place together, where the
 * labels of one that has ended go.
 */
#include "zernel.h"
#include <errno.h>
#include <string.h>

static struct zn_annotation_group *group_of(struct zn_annotations *a, struct zn_job_ref job)
{
	bool none = !job.serial || job.slot >= ZN_JOBS_MAX;
	struct zn_annotation_group *g = &a->group[none ? ZN_JOBS_MAX : job.slot];

	if (g->serial != (none ? 0 : job.serial))
		*g = (struct zn_annotation_group){.serial = job.serial};
	return g;
}

const struct zn_annotation_group *zn_annotations_of(const struct zn_annotations *a, struct zn_job_ref job)
{
	bool none = !job.serial || job.slot >= ZN_JOBS_MAX;
	const struct zn_annotation_group *g = a ? &a->group[none ? ZN_JOBS_MAX : job.slot] : NULL;

	return g && g->serial == (none ? 0 : job.serial) && (g->labels || g->changes) ? g : NULL;
}

/* ---- What is said: KEY=VALUE, with commas between them. ---- */

#define KEY_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

static int refuse_at(char why[ZN_TEXT_MAX], const char *what, struct zn_str at)
{
	snprintf(why, ZN_TEXT_MAX, "%s: \"%.*s\"", what, (int)(at.len < 64 ? at.len : 64), at.at);
	return -EINVAL;
}

static struct zn_str take_pair(const char **at)
{
	struct zn_str pair = {*at, strcspn(*at, ",")};

	*at += pair.len + ((*at)[pair.len] == ',');
	return pair;
}

static int read_pair(struct zn_annotation *to, struct zn_str pair, char why[ZN_TEXT_MAX])
{
	const char *sign = memchr(pair.at, '=', pair.len);
	size_t key = sign ? (size_t)(sign - pair.at) : 0, value = sign ? pair.len - key - 1 : 0;

	if (!sign)
		return refuse_at(why, "a label is KEY=VALUE, not", pair);
	if (!key || key >= ZN_ANNOTATION_KEY || strspn(pair.at, KEY_BYTES) < key)
		return refuse_at(
			why, "the key of a label is 1 to 31 of A-Z a-z 0-9 _ . -, not", (struct zn_str){pair.at, key});
	if (value >= ZN_ANNOTATION_VALUE)
		return refuse_at(why, "the value of a label is longer than 63 bytes", (struct zn_str){pair.at, key});
	memcpy(to->key, pair.at, key);
	memcpy(to->value, sign + 1, value);
	to->key[key] = to->value[value] = '\0';
	return 0;
}

/* How many there are, or -EINVAL. */
static int read_pairs(struct zn_annotation to[ZN_ANNOTATION_LABELS], const char *labels, char why[ZN_TEXT_MAX])
{
	int count = 0, err;

	while (*labels) {
		struct zn_str pair = take_pair(&labels);

		if (count == ZN_ANNOTATION_LABELS)
			return refuse_at(why, "more than 8 labels at a time, from here on", pair);
		err = read_pair(&to[count], pair, why);
		if (err)
			return err;
		for (int i = 0; i < count; i++)
			if (!strcmp(to[i].key, to[count].key))
				return refuse_at(why, "a label is there twice", pair);
		count++;
	}
	return count;
}

/* ---- Labels. ---- */

/* In the place of processes of no job each owner has labels of his own: nobody changes or takes away another one's. */
static uint32_t find_label(const struct zn_annotation_group *g, const struct zn_annotation *said)
{
	uint32_t i = 0;

	while (i < g->labels &&
		(strcmp(g->label[i].key, said->key) || (!g->serial && g->label[i].owner != said->owner)))
		i++;
	return i;
}

static void drop_label(struct zn_annotation_group *g, uint32_t at)
{
	g->labels--;
	memmove(&g->label[at], &g->label[at + 1], (g->labels - at) * sizeof(*g->label));
}

static uint32_t labels_of(const struct zn_annotation_group *g, uint32_t owner)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->labels; i++)
		n += g->label[i].owner == owner;
	return n;
}

/* Takes the oldest label of who has the most, unless who wants room has as many. */
static bool displace_label(struct zn_annotation_group *g, uint32_t owner)
{
	uint32_t most = labels_of(g, owner), at = g->labels;

	for (uint32_t i = 0; i < g->labels; i++)
		if (labels_of(g, g->label[i].owner) > most) {
			most = labels_of(g, g->label[i].owner);
			at = i;
		}
	if (at == g->labels)
		return false;
	drop_label(g, at);
	return true;
}

/* How many labels there are once all is said. */
static uint32_t labels_then(const struct zn_annotation_group *g, const struct zn_annotation *said, int count)
{
	uint32_t n = g->labels;

	for (int i = 0; i < count; i++) {
		bool there = find_label(g, &said[i]) < g->labels;

		n += said[i].value[0] && !there;
		n -= !said[i].value[0] && there;
	}
	return n;
}

static bool make_label_room(struct zn_annotation_group *g, const struct zn_annotation *said, int count)
{
	while (labels_then(g, said, count) > ZN_ANNOTATION_LABELS)
		if (!displace_label(g, said[0].owner))
			return false;
	return true;
}

/* ---- Changes. ---- */

static bool is_like(const struct zn_annotation *a, const struct zn_annotation *b)
{
	return a->owner == b->owner && !strcmp(a->key, b->key);
}

/* A change of the owner with the most changes, and of those of the label with the most. */
static const struct zn_annotation *most_frequent(const struct zn_annotation_group *g)
{
	const struct zn_annotation *best = g->change;
	uint32_t most = 0;

	for (uint32_t i = 0; i < g->changes; i++) {
		uint32_t of_owner = 0, alike = 0;

		for (uint32_t k = 0; k < g->changes; k++) {
			of_owner += g->change[k].owner == g->change[i].owner;
			alike += is_like(&g->change[k], &g->change[i]);
		}
		if (of_owner * (ZN_ANNOTATION_CHANGES + 1) + alike > most) {
			most = of_owner * (ZN_ANNOTATION_CHANGES + 1) + alike;
			best = &g->change[i];
		}
	}
	return best;
}

static void drop_nearest(struct zn_annotation_group *g)
{
	const struct zn_annotation *like = most_frequent(g), *before = NULL;
	uint64_t nearest_ns = UINT64_MAX;
	uint32_t at = (uint32_t)(like - g->change);

	for (uint32_t i = 0; i < g->changes; i++) {
		const struct zn_annotation *c = &g->change[i];

		if (!is_like(c, like))
			continue;
		if (before && c->at_ns - before->at_ns < nearest_ns) {
			nearest_ns = c->at_ns - before->at_ns;
			at = i;
		}
		before = c;
	}
	g->changes--;
	g->left_out++;
	memmove(&g->change[at], &g->change[at + 1], (g->changes - at) * sizeof(*g->change));
}

/* An empty value takes a label away. The same value again is no change. */
static void say_annotation(struct zn_annotation_group *g, const struct zn_annotation *said)
{
	uint32_t at = find_label(g, said);
	bool there = at < g->labels, changed = strcmp(there ? g->label[at].value : "", said->value);

	if (!said->value[0] && there)
		drop_label(g, at);
	else if (said->value[0])
		g->label[at] = *said;
	g->labels += !there && said->value[0];
	if (!changed)
		return;
	if (g->changes == ZN_ANNOTATION_CHANGES)
		drop_nearest(g);
	g->change[g->changes++] = *said;
}

int zn_annotations_say(struct zn_annotations *a, struct zn_job_ref job, const struct zn_annotation *by,
	const char *labels, char why[ZN_TEXT_MAX])
{
	struct zn_annotation said[ZN_ANNOTATION_LABELS];
	struct zn_annotation_group *g = group_of(a, job);
	int count;

	for (size_t i = 0; i < ZN_LEN(said); i++)
		said[i] = *by;
	count = read_pairs(said, labels, why);
	if (count < 0)
		return count;
	if (!make_label_room(g, said, count)) {
		snprintf(why, ZN_TEXT_MAX, "%u labels at most, and there are %u; KEY= takes one away",
			ZN_ANNOTATION_LABELS, g->labels);
		return -ENOSPC;
	}
	for (int i = 0; i < count; i++) /* what goes makes room for what comes */
		if (!said[i].value[0])
			say_annotation(g, &said[i]);
	for (int i = 0; i < count; i++)
		if (said[i].value[0])
			say_annotation(g, &said[i]);
	return 0;
}

void zn_annotations_tick(struct zn_annotations *a)
{
	struct zn_annotation_group *g = &a->group[ZN_JOBS_MAX];
	struct zn_procfs_stat stat;

	for (uint32_t i = g->labels; i--;)
		if (!zn_procfs_stat("/proc", g->label[i].pid, &stat) || stat.start_ticks != g->label[i].start_ticks)
			drop_label(g, i);
}
