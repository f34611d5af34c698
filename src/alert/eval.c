/* SPDX-License-Identifier: GPL-2.0 */
/*
 * eval.c: runs the programs of parse.c over samples of metrics: vectors of instances on a stack of fixed size. No clock
 * and no allocation; the past of series, for rate() and the like, is a fixed table.
 */
#include <math.h>

#include "zernel.h"

static bool is_number(const struct zn_rule_node *n)
{
	return n->op == ZN_OP_NUMBER;
}

/* ---- Vectors: instances on the stack w->element, the operands of an operation one above the other. ---- */

struct vector {
	uint32_t first, count;
};

static uint64_t seed;

void zn_rule_seed(uint64_t s)
{
	seed = s;
}

static struct zn_element *push_element(struct zn_rule_work *w)
{
	if (w->element_count == ZN_ELEMENTS_MAX) {
		w->lost++;
		return NULL;
	}
	return &w->element[w->element_count++];
}

/* Takes what was pushed from `from` on down to where a vector shall begin. */
static struct vector settle_vector(struct zn_rule_work *w, uint32_t first, uint32_t from)
{
	struct vector v = {first, w->element_count - from};

	memmove(w->element + first, w->element + from, v.count * sizeof(*w->element));
	w->element_count = first + v.count;
	return v;
}

/* A copy, as the labels of a sample do not stay. */
static bool keep_text(struct zn_rule_work *w, struct zn_str *s)
{
	if (s->len > sizeof(w->text) - w->text_len)
		return false;
	memcpy(w->text + w->text_len, s->at, s->len);
	s->at = w->text + w->text_len;
	w->text_len += s->len;
	return true;
}

static bool keep_label(struct zn_rule_work *w, const struct zn_label *label)
{
	struct zn_element_label *l = &w->label[w->label_count];

	if (w->label_count == ZN_ELEMENT_LABELS)
		return false;
	l->label = *label;
	if (!keep_text(w, &l->label.name) || !keep_text(w, &l->label.value))
		return false;
	l->name_hash = zn_rule_hash(seed, label->name.at, label->name.len);
	l->hash = zn_rule_hash(l->name_hash, label->value.at, label->value.len);
	w->label_count++;
	return true;
}

/* An empty label counts as a missing label. */
static bool keep_labels(struct zn_rule_work *w, struct zn_element *e, const struct zn_sample *s)
{
	e->first = w->label_count;
	for (uint32_t i = 0; i < s->label_count; i++)
		if (s->label[i].value.len && !keep_label(w, &s->label[i]))
			return false;
	e->count = (uint16_t)(w->label_count - e->first);
	e->key = 0;
	for (uint32_t i = 0; i < e->count; i++)
		e->key += w->label[e->first + i].hash;
	return true;
}

uint32_t zn_rule_whose(const struct zn_rule_work *w, struct zn_str pid)
{
	uint32_t number = 0;

	for (size_t i = 0; i < pid.len; i++) {
		if (pid.at[i] < '0' || pid.at[i] > '9')
			return ZN_OWNER_ROOT;
		number = number * 10 + (uint32_t)(pid.at[i] - '0');
	}
	return pid.len && w->whose ? w->whose(w->source.from, number) : ZN_OWNER_ROOT;
}

/* ---- The past of a series: its points are window / 8 apart or more, so the oldest is as old as the window. ---- */

#define POINTS_OF_WINDOW (ZN_PAST_POINTS - 2)

static uint32_t past_at(const struct zn_rule_work *w, uint64_t key)
{
	uint32_t mask = ZN_LEN(w->past_slot) - 1, at = (uint32_t)(key >> 32) & mask;

	while (w->past_slot[at] && w->past[w->past_slot[at] - 1].key != key)
		at = (at + 1) & mask;
	return at;
}

static void point_add(struct zn_past *past, uint64_t ns, double total)
{
	past->newest = past->count ? (past->newest + 1) % ZN_PAST_POINTS : 0;
	past->point[past->newest].ns = ns;
	past->point[past->newest].total = total;
	if (past->count < ZN_PAST_POINTS)
		past->count++;
}

/* When a series of this owner found no room last; 0: each has had some. */
static uint64_t *refused_ns_of(struct zn_rule_work *w, uint32_t whose)
{
	return &w->refused_ns[whose % ZN_LEN(w->refused_ns)];
}

/* For how long each series of an owner was seen that there was. The tick at which one found no room is none of them. */
static uint64_t looked_ns(struct zn_rule_work *w, uint32_t whose, const struct zn_selector *sel)
{
	uint64_t refused_ns = *refused_ns_of(w, whose), ran_ns = sel->began_ns ? w->now_ns - sel->began_ns : 0;
	uint64_t since_ns = refused_ns < w->last_ns ? w->last_ns - refused_ns : 0;

	return refused_ns && since_ns < ran_ns ? since_ns : ran_ns;
}

/* A counter that began within the window was 0 then; when a gauge began says nothing. One that hides its 0 was 0 for as
 * long as these rules looked and did not see it: not while there was no room for its past. */
static void past_begin(
	struct zn_rule_work *w, struct zn_past *past, const struct zn_selector *sel, const struct zn_sample *s)
{
	uint64_t ran_ns = looked_ns(w, past->whose, sel), age_ns, step_ns;

	if (!sel->counter || !s->since_ms)
		return;
	age_ns = step_ns = s->since_ms < w->wall_ms ? (w->wall_ms - s->since_ms) * ZN_NS_PER_MS : 1;
	if (age_ns > sel->window_ns && s->hides_0) {
		age_ns = ran_ns < sel->window_ns ? ran_ns : sel->window_ns;
		step_ns = sel->window_ns / POINTS_OF_WINDOW;
	}
	if (age_ns > sel->window_ns || age_ns >= w->now_ns)
		return;
	for (; step_ns && age_ns; age_ns -= step_ns < age_ns ? step_ns : age_ns)
		point_add(past, w->now_ns - age_ns, 0);
}

static uint32_t whose_sample(const struct zn_rule_work *w, const struct zn_sample *s)
{
	for (uint32_t i = 0; i < s->label_count; i++)
		if (zn_str_equal(s->label[i].name, (struct zn_str){"pid", 3}))
			return zn_rule_whose(w, s->label[i].value);
	return ZN_OWNER_ROOT;
}

static struct zn_past *past_of(
	struct zn_rule_work *w, const struct zn_selector *sel, uint64_t key, const struct zn_sample *s, double value)
{
	uint32_t at = past_at(w, key), whose;
	struct zn_past *past;

	if (w->past_slot[at])
		return &w->past[w->past_slot[at] - 1];
	w->past_quota.size = ZN_PASTS_MAX;
	w->past_quota.reserve = ZN_PASTS_MAX / 8;
	whose = whose_sample(w, s);
	if (!zn_quota_take(&w->past_quota, whose)) {
		w->lost++;
		*refused_ns_of(w, whose) = w->now_ns;
		return NULL;
	}
	past = &w->past[w->past_count++];
	w->past_slot[at] = (uint16_t)w->past_count;
	*past = (struct zn_past){.key = key, .total = value, .last = value, .whose = whose};
	past_begin(w, past, sel, s);
	return past;
}

/* The newest point that is as old as the window, or the oldest. */
static uint32_t base_point(const struct zn_past *past, uint64_t now_ns, uint64_t window_ns)
{
	uint32_t at = past->newest;

	for (uint32_t i = 1; i < past->count && past->point[at].ns + window_ns > now_ns; i++)
		at = (at + ZN_PAST_POINTS - 1) % ZN_PAST_POINTS;
	return at;
}

/* Takes the new value, and tells how much it rose since when. False: there is no earlier one. */
static bool past_rise(
	struct zn_rule_work *w, struct zn_past *past, const struct zn_selector *sel, double value, struct zn_element *e)
{
	uint32_t from;
	bool any = past->count > 0;

	if (past->seen_ns != w->now_ns)
		past->total = !sel->counter ? value : past->total + value - (value < past->last ? 0 : past->last);
	past->last = value;
	from = base_point(past, w->now_ns, sel->window_ns);
	any &= past->point[from].ns < w->now_ns;
	if (any) {
		e->value = past->total - past->point[from].total;
		e->match = w->now_ns - past->point[from].ns;
	}
	if (past->seen_ns != w->now_ns &&
		(!past->count || w->now_ns - past->point[past->newest].ns >= sel->window_ns / POINTS_OF_WINDOW))
		point_add(past, w->now_ns, past->total);
	past->seen_ns = w->now_ns;
	return any;
}

/* From a rise within e->match ns. A slope is known once half of the window is. */
static bool from_rise(const struct zn_rule_node *n, const struct zn_selector *sel, double value, struct zn_element *e)
{
	double slope;

	if (n->op == ZN_OP_INCREASE)
		return true;
	if (e->match < sel->window_ns / 2)
		return false;
	slope = e->value * 1e9 / (double)e->match;
	e->value = slope;
	if (n->op != ZN_OP_TIME_TO)
		return true;
	e->value = value == n->number ? 0 : (n->number - value) / slope;
	if (e->value < 0 || isnan(e->value) || slope == 0)
		e->value = value == n->number ? 0 : INFINITY;
	return true;
}

/* A process may get a job and outlive it, by which no series begins. */
static uint64_t past_key(const struct zn_rule_work *w, const struct zn_element *e)
{
	bool is_process = false;
	uint64_t job = 0;

	for (uint32_t i = 0; i < e->count; i++) {
		const struct zn_element_label *l = &w->label[e->first + i];

		is_process |= zn_str_equal(l->label.name, (struct zn_str){"pid", 3});
		if (zn_str_equal(l->label.name, (struct zn_str){"job_id", 6}))
			job = l->hash;
	}
	return is_process ? e->key - job : e->key;
}

static bool with_past(struct zn_rule_work *w, const struct zn_rule_node *n, const struct zn_sample *s, double value,
	struct zn_element *e)
{
	const struct zn_selector *sel = &w->rules->selector[n->selector];
	uint64_t key = past_key(w, e);
	struct zn_past *past;

	if (!isfinite(value))
		return false;
	past = past_of(w, sel, zn_rule_hash(sel->id, &key, sizeof(key)), s, value);
	return past && past_rise(w, past, sel, value, e) && from_rise(n, sel, value, e);
}

static void past_index(struct zn_rule_work *w)
{
	memset(w->past_slot, 0, sizeof(w->past_slot));
	for (uint32_t i = 0; i < w->past_count; i++)
		w->past_slot[past_at(w, w->past[i].key)] = (uint16_t)(i + 1);
}

void zn_rule_sweep(struct zn_rule_work *w)
{
	uint32_t had = w->past_count;

	w->last_ns = w->now_ns;
	for (uint32_t i = 0; i < w->past_count;)
		if (w->past[i].seen_ns != w->now_ns) {
			zn_quota_give(&w->past_quota, w->past[i].whose);
			w->past[i] = w->past[--w->past_count];
		} else {
			i++;
		}
	if (w->past_count != had)
		past_index(w);
}

/* ---- Selecting. ---- */

static bool sample_matches(const struct zn_rules *r, const struct zn_matcher *m, const struct zn_sample *s)
{
	struct zn_str value = {0};

	for (uint32_t i = 0; i < s->label_count; i++)
		if (zn_str_equal(s->label[i].name, r->word[m->name]))
			value = s->label[i].value;
	for (uint32_t i = 0; i < m->value_count; i++)
		if (zn_str_equal(value, r->word[m->values + i]))
			return !m->negated;
	return m->negated;
}

static double bias_quantile(const struct zn_bias *b, uint32_t q)
{
	return (double)(q == 100 ? b->p10_ns : q == 500 ? b->p50_ns : q == 900 ? b->p90_ns : b->p99_ns) / 1e9;
}

/* The number that a selector means; NaN: there is none. */
static double number_of(const struct zn_selector *sel, enum zn_rule_op op, const struct zn_sample *s)
{
	bool known = sel->q == 100 || sel->q == 500 || sel->q == 900 || sel->q == 990;

	if (s->hist && op == ZN_OP_QUANTILE)
		return (double)zn_hist_quantile(s->hist, sel->q) / 1e9;
	if (s->hist)
		return sel->part == ZN_PART_SUM ? (double)s->hist->sum_ns / 1e9 : (double)zn_hist_count(s->hist);
	if (s->bias && op == ZN_OP_QUANTILE)
		return known ? bias_quantile(s->bias, sel->q) : NAN;
	if (s->bias)
		return sel->part == ZN_PART_SUM ? (double)s->bias->sum_ns / 1e9 : s->bias->samples;
	return s->value;
}

struct selecting {
	struct zn_rule_work *w;
	const struct zn_rule_node *node;
	const struct zn_selector *selector;
};

/* From a saved page, a summary comes as lines: its quantiles, each with that label, its sum and its count. */
static void take_sample(void *to, const struct zn_sample *s)
{
	const struct selecting *t = to;
	struct zn_rule_work *w = t->w;
	double value = number_of(t->selector, t->node->op, s);
	uint32_t labels = w->label_count;
	size_t text = w->text_len;
	struct zn_element *e;
	bool kept;

	for (uint32_t i = 0; i < t->selector->matcher_count; i++)
		if (!sample_matches(w->rules, &t->selector->matcher[i], s))
			return;
	e = push_element(w);
	if (e)
		*e = (struct zn_element){.value = value, .truth = ZN_YES, .loose = ZN_YES};
	kept = e && keep_labels(w, e, s);
	w->lost += e && !kept;
	if (!kept)
		*refused_ns_of(w, whose_sample(w, s)) = w->now_ns;
	if (!e)
		return;
	if (kept && (t->node->op < ZN_OP_RATE || t->node->op > ZN_OP_TIME_TO || with_past(w, t->node, s, value, e)))
		return;
	w->element_count--;
	w->label_count = labels;
	w->text_len = text;
}

static struct vector run_select(struct zn_rule_work *w, const struct zn_rule_node *n)
{
	struct selecting t = {w, n, &w->rules->selector[n->selector]};
	uint32_t first = w->element_count;
	struct zn_rule_wanted wanted = {
		t.selector->metric, t.selector->part, n->op == ZN_OP_QUANTILE ? t.selector->q : 0};

	w->source.walk(w->source.from, &wanted, take_sample, &t);
	return (struct vector){first, w->element_count - first};
}

/* ---- Matching instances of two vectors on the labels that both have. ---- */

#define NAMES_MAX 32
struct names {
	uint64_t hash[NAMES_MAX];
	uint32_t count;
};

static bool has_name(const struct names *n, uint64_t name)
{
	for (uint32_t i = 0; i < n->count; i++)
		if (n->hash[i] == name)
			return true;
	return false;
}

static void add_name(struct names *n, uint64_t name)
{
	if (n->count < NAMES_MAX && !has_name(n, name))
		n->hash[n->count++] = name;
}

static struct names names_of(const struct zn_rule_work *w, struct vector v)
{
	struct names n = {.count = 0};

	for (uint32_t i = v.first; i < v.first + v.count; i++)
		for (uint32_t l = 0; l < w->element[i].count; l++)
			add_name(&n, w->label[w->element[i].first + l].name_hash);
	return n;
}

static void match_by(struct zn_rule_work *w, struct vector v, const struct names *by)
{
	for (uint32_t i = v.first; i < v.first + v.count; i++) {
		struct zn_element *e = &w->element[i];

		e->match = 0;
		for (uint32_t l = 0; l < e->count; l++)
			if (has_name(by, w->label[e->first + l].name_hash))
				e->match += w->label[e->first + l].hash;
	}
}

/* The slot of the element with this match, or the one where it belongs. size is a power of two above what it holds. */
static uint32_t *slot_of(struct zn_rule_work *w, uint32_t size, uint64_t match)
{
	uint32_t at = (uint32_t)(match >> 32) & (size - 1);

	while (w->slot[at] && w->element[w->slot[at] - 1].match != match)
		at = (at + 1) & (size - 1);
	return &w->slot[at];
}

static uint32_t slots_clear(struct zn_rule_work *w, uint32_t count)
{
	uint32_t size = 16;

	while (size < 2 * count)
		size *= 2;
	memset(w->slot, 0, size * sizeof(*w->slot));
	return size;
}

/* Makes the elements of a vector findable. Of several elements with the same labels, an element that holds comes
 * first. */
static uint32_t index_by(struct zn_rule_work *w, struct vector v, const struct names *by)
{
	uint32_t size = slots_clear(w, v.count);

	match_by(w, v, by);
	for (uint32_t i = v.first; i < v.first + v.count; i++) {
		uint32_t *slot = slot_of(w, size, w->element[i].match);

		w->element[i].many = false;
		if (!*slot) {
			*slot = i + 1;
			continue;
		}
		if (w->element[i].truth > w->element[*slot - 1].truth)
			*slot = i + 1;
		w->element[*slot - 1].many = true;
	}
	return size;
}

struct pair {
	struct vector left, right;
	struct names common;
	bool by_right; /* the right side has labels that the left one lacks, and not the other way round */
};

static struct pair pair_labels(const struct zn_rule_work *w, struct vector left, struct vector right)
{
	struct names l = names_of(w, left), r = names_of(w, right);
	struct pair p = {.left = left, .right = right};

	for (uint32_t i = 0; i < l.count; i++)
		if (has_name(&r, l.hash[i]))
			p.common.hash[p.common.count++] = l.hash[i];
	p.by_right = p.common.count == l.count && p.common.count < r.count;
	return p;
}

static enum zn_truth compare_values(enum zn_rule_op op, double a, double b)
{
	bool holds;

	if (isnan(a) || isnan(b))
		return ZN_UNKNOWN_TRUTH;
	switch (op) {
	case ZN_OP_GT: holds = a > b; break;
	case ZN_OP_GE: holds = a >= b; break;
	case ZN_OP_LT: holds = a < b; break;
	case ZN_OP_LE: holds = a <= b; break;
	case ZN_OP_EQ: holds = a == b; break;
	default: holds = a != b;
	}
	return holds ? ZN_YES : ZN_NO;
}

/* A value or a comparison of two numbers, into e, whose labels are there. False: a division by zero, no instance. */
static bool calculate_element(enum zn_rule_op op, double a, double b, struct zn_element *e)
{
	if (op == ZN_OP_DIV && b == 0)
		return false;
	e->truth = e->loose = op >= ZN_OP_GT ? (uint8_t)compare_values(op, a, b) : (uint8_t)ZN_YES;
	e->value = op >= ZN_OP_GT ? a : zn_expr_compute(op, a, b);
	return true;
}

/* With a number on one side. */
static struct vector run_scalar(
	struct zn_rule_work *w, const struct zn_rule_node *n, struct vector v, double number, bool left)
{
	uint32_t kept = v.first;

	for (uint32_t i = v.first; i < v.first + v.count; i++) {
		struct zn_element e = w->element[i];
		double a = left ? number : e.value, b = left ? e.value : number;

		if (!calculate_element(n->op, a, b, &e))
			continue;
		if (n == w->first)
			e.loose = (uint8_t)compare_values(n->op, a, w->clear_at);
		w->element[kept++] = e;
	}
	w->element_count = kept;
	return (struct vector){v.first, kept - v.first};
}

/* With instances on both sides. An instance that matches several on the other side is left out. */
static struct vector run_pairs(struct zn_rule_work *w, const struct zn_rule_node *n, const struct pair *p)
{
	struct vector each = p->by_right ? p->right : p->left, other = p->by_right ? p->left : p->right;
	uint32_t from = w->element_count, size = index_by(w, other, &p->common);

	match_by(w, each, &p->common);
	for (uint32_t i = each.first; i < each.first + each.count; i++) {
		uint32_t found = *slot_of(w, size, w->element[i].match);
		const struct zn_element *o = found ? &w->element[found - 1] : NULL;
		struct zn_element e = w->element[i], *to;

		if (!o || o->many ||
			!calculate_element(
				n->op, p->by_right ? o->value : e.value, p->by_right ? e.value : o->value, &e))
			continue;
		to = push_element(w);
		if (to)
			*to = e;
	}
	return settle_vector(w, p->left.first, from);
}

static uint8_t least_truth(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

/* and, unless: the instances of the left side. */
static struct vector run_both(struct zn_rule_work *w, const struct zn_rule_node *n, const struct pair *p)
{
	uint32_t size = index_by(w, p->right, &p->common);

	match_by(w, p->left, &p->common);
	for (uint32_t i = p->left.first; i < p->left.first + p->left.count; i++) {
		struct zn_element *e = &w->element[i];
		uint32_t found = *slot_of(w, size, e->match);
		uint8_t other = found ? w->element[found - 1].truth : (uint8_t)ZN_NO;

		other = n->op == ZN_OP_AND ? other : (uint8_t)(ZN_YES - other);
		e->truth = least_truth(e->truth, other);
		e->loose = least_truth(e->loose, other);
	}
	w->element_count = p->left.first + p->left.count;
	return p->left;
}

/* or: the instances of the left side, which hold as well where one of the right side does; then those of the right side
 * that none of the left side is like. */
static struct vector run_or(struct zn_rule_work *w, const struct pair *p)
{
	uint32_t end = p->left.first + p->left.count, size = index_by(w, p->right, &p->common);

	match_by(w, p->left, &p->common);
	for (uint32_t i = p->left.first; i < end; i++) {
		struct zn_element *e = &w->element[i];
		uint32_t found = *slot_of(w, size, e->match);

		if (!found || w->element[found - 1].truth <= e->truth)
			continue;
		e->truth = e->loose = w->element[found - 1].truth;
		e->value = w->element[found - 1].value;
	}
	size = index_by(w, p->left, &p->common);
	w->element_count = end;
	for (uint32_t i = p->right.first; i < p->right.first + p->right.count; i++)
		if (!*slot_of(w, size, w->element[i].match))
			w->element[w->element_count++] = w->element[i]; /* never above i */
	return (struct vector){p->left.first, w->element_count - p->left.first};
}

/* ---- Aggregating. ---- */

static bool group_labels(
	struct zn_rule_work *w, const struct zn_element *from, const struct names *by, struct zn_element *to)
{
	to->first = w->label_count;
	to->count = 0;
	to->key = from->match;
	for (uint32_t i = 0; i < from->count; i++) {
		if (!has_name(by, w->label[from->first + i].name_hash))
			continue;
		if (w->label_count == ZN_ELEMENT_LABELS)
			return false;
		w->label[w->label_count++] = w->label[from->first + i];
		to->count++;
	}
	return true;
}

static void group_add(enum zn_rule_op op, struct zn_element *to, double value, uint32_t *tally)
{
	bool first = (*tally)++ == 0;

	if (op == ZN_OP_COUNT)
		to->value++;
	else if (op == ZN_OP_SUM || op == ZN_OP_AVG || first)
		to->value += value;
	else if (op == ZN_OP_MAX ? value > to->value : value < to->value)
		to->value = value;
}

static struct zn_element *group_of(
	struct zn_rule_work *w, uint32_t size, const struct zn_element *e, const struct names *by)
{
	uint32_t *slot = slot_of(w, size, e->match);
	struct zn_element *to;

	if (*slot)
		return &w->element[*slot - 1];
	to = push_element(w);
	if (!to)
		return NULL;
	*to = (struct zn_element){.match = e->match, .truth = ZN_YES, .loose = ZN_YES};
	w->tally[to - w->element] = 0;
	if (!group_labels(w, e, by, to)) {
		w->element_count--;
		w->lost++;
		return NULL;
	}
	*slot = (uint32_t)(to - w->element) + 1;
	return to;
}

/* An element that does not hold, or is no number, is not counted. The sum and the count of no elements are 0;
 * other aggregates of none have no value. */
static struct vector run_aggregate(struct zn_rule_work *w, const struct zn_rule_node *n, struct vector v)
{
	struct names by = {.count = 0};
	uint32_t from = w->element_count, kept = from, size = slots_clear(w, v.count);

	for (uint32_t i = 0; i < n->by_count; i++)
		add_name(&by, zn_rule_hash(seed, w->rules->word[n->by + i].at, w->rules->word[n->by + i].len));
	match_by(w, v, &by);
	for (uint32_t i = v.first; i < v.first + v.count; i++) {
		const struct zn_element *e = &w->element[i];
		struct zn_element *to = group_of(w, size, e, &by);

		if (to && e->truth == ZN_YES && !isnan(e->value))
			group_add(n->op, to, e->value, &w->tally[to - w->element]);
	}
	for (uint32_t i = from; i < w->element_count; i++) {
		if (!w->tally[i] && n->op != ZN_OP_SUM && n->op != ZN_OP_COUNT)
			continue;
		w->element[kept] = w->element[i];
		if (n->op == ZN_OP_AVG)
			w->element[kept].value /= w->tally[i];
		kept++;
	}
	w->element_count = kept;
	return settle_vector(w, v.first, from);
}

static struct vector run_node(struct zn_rule_work *w, const struct zn_rule *r, uint32_t at)
{
	const struct zn_rule_node *n = &r->node[at], *left = &r->node[n->left], *right = &r->node[n->right];
	struct vector v;
	struct pair p;

	if (n->op <= ZN_OP_TIME_TO)
		return run_select(w, n);
	if (n->op <= ZN_OP_COUNT)
		return run_aggregate(w, n, run_node(w, r, n->left));
	if (is_number(left))
		return run_scalar(w, n, run_node(w, r, n->right), left->number, true);
	v = run_node(w, r, n->left);
	if (is_number(right))
		return run_scalar(w, n, v, right->number, false);
	p = pair_labels(w, v, run_node(w, r, n->right));
	if (n->op < ZN_OP_AND)
		return run_pairs(w, n, &p);
	return n->op == ZN_OP_OR ? run_or(w, &p) : run_both(w, n, &p);
}

/* Marks the instances that are clear, in many. */
static void run_clear(struct zn_rule_work *w, const struct zn_rule *r, struct vector v)
{
	struct pair p = {.left = v};
	uint32_t size = 0;

	if (r->clear == ZN_CLEAR_WHEN) {
		p = pair_labels(w, v, run_node(w, r, r->clear_root));
		size = index_by(w, p.right, &p.common);
		match_by(w, v, &p.common);
	}
	for (uint32_t i = v.first; i < v.first + v.count; i++) {
		struct zn_element *e = &w->element[i];
		uint32_t found = size ? *slot_of(w, size, e->match) : 0;

		e->many = r->clear == ZN_CLEAR_WHEN
			? found && w->element[found - 1].truth == ZN_YES && e->truth != ZN_YES
			: e->loose == ZN_NO;
	}
}

void zn_rule_run(struct zn_rule_work *w, const struct zn_rule *rule,
	void (*instance)(void *to, const struct zn_instance *i), void *to)
{
	struct vector v;

	w->element_count = w->label_count = 0;
	w->text_len = 0;
	w->first = rule->clear == ZN_CLEAR_AT ? &rule->node[rule->first] : NULL;
	w->clear_at = rule->clear_at;
	v = run_node(w, rule, rule->root);
	run_clear(w, rule, v);
	for (uint32_t i = v.first; i < v.first + v.count; i++) {
		const struct zn_element *e = &w->element[i];
		struct zn_instance one = {.value = e->value,
			.truth = e->truth,
			.clear = e->many,
			.key = e->key,
			.label = &w->label[e->first],
			.label_count = e->count};

		instance(to, &one);
	}
}
