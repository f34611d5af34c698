/* SPDX-License-Identifier: GPL-2.0 */
/*
 * expr.c: expressions of alert rules, read into a tree of operations. Each function that reads a part returns the index
 * of a node, or ZN_NO_NODE after zn_lex_fail().
 */
#include <math.h>

#include "zernel.h"

#define NEST_MAX     16
#define WINDOW_MAX_S 3600.0

static int parse_binary(struct zn_parser *p, unsigned level);

static int add_node(struct zn_parser *p, const char *at, struct zn_rule_node n)
{
	struct zn_rule *r = p->rule;

	if (p->why[0])
		return ZN_NO_NODE;
	if (r->node_count == ZN_RULE_NODES)
		return zn_lex_fail(p, at, "a rule of more than %d operations and operands", ZN_RULE_NODES);
	p->node_at[r->node_count] = at;
	r->node[r->node_count] = n;
	return r->node_count++;
}

static int number_node(struct zn_parser *p, const char *at, double number, enum zn_unit unit)
{
	if (!isfinite(number))
		return zn_lex_fail(p, at, "this is no finite number");
	return add_node(p, at, (struct zn_rule_node){.op = ZN_OP_NUMBER, .by = (uint16_t)unit, .number = number});
}

static bool is_condition(const struct zn_rule_node *n)
{
	return n->op >= ZN_OP_GT;
}

/* The index of a new word, in *index; false: there is no room. */
static bool add_word(struct zn_parser *p, struct zn_str word, uint16_t *index)
{
	if (p->to->word_count == ZN_RULE_WORDS)
		return zn_lex_fail(p, word.at, "more than %d words in the matchers of all rules", ZN_RULE_WORDS) !=
			ZN_NO_NODE;
	*index = (uint16_t)p->to->word_count;
	p->to->word[p->to->word_count++] = word;
	return true;
}

/* "value", or ("value", "value") for any of them. */
static bool matcher_values(struct zn_parser *p, struct zn_matcher *m)
{
	bool list = zn_lex_sign_here(p, "(");
	struct zn_str value;
	uint16_t index = 0;

	if (list)
		zn_lex_open(p, "(", "");
	do {
		if (!zn_lex_quoted(p, &value) || !add_word(p, value, &index))
			return false;
		if (m->value_count == UINT8_MAX)
			return zn_lex_fail(p, value.at, "more than %d values", UINT8_MAX) != ZN_NO_NODE;
		if (m->value_count++ == 0)
			m->values = index;
	} while (list && zn_lex_sign(p, ","));
	return !list || zn_lex_close(p, ")", ", or )");
}

static bool parse_matcher(struct zn_parser *p, struct zn_selector *s)
{
	struct zn_matcher m = {0};
	struct zn_str name = zn_lex_word(p, "a label, or }");

	if (!name.len)
		return false;
	m.negated = zn_lex_sign(p, "!=");
	if (zn_lex_sign_here(p, "=~") || (!m.negated && !zn_lex_sign_here(p, "=")))
		return zn_lex_expected(p, "= or !=; for one of several: label=(\"a\", \"b\")") != ZN_NO_NODE;
	if (!m.negated)
		zn_lex_sign(p, "=");
	if (s->matcher_count == ZN_MATCHERS_MAX)
		return zn_lex_fail(p, name.at, "more than %d matchers", ZN_MATCHERS_MAX) != ZN_NO_NODE;
	if (!add_word(p, name, &m.name) || !matcher_values(p, &m))
		return false;
	s->matcher[s->matcher_count++] = m;
	return true;
}

static bool parse_matchers(struct zn_parser *p, struct zn_selector *s)
{
	if (!zn_lex_sign_here(p, "{"))
		return true;
	zn_lex_open(p, "{", "");
	while (!zn_lex_sign_here(p, "}")) {
		if (!parse_matcher(p, s))
			return false;
		if (!zn_lex_sign(p, ","))
			break;
	}
	return zn_lex_close(p, "}", ", or }");
}

static int metric_type(struct zn_parser *p, struct zn_str name, size_t cut_off)
{
	char text[sizeof(((struct zn_selector *)0)->metric)];

	if (name.len <= cut_off || name.len - cut_off >= sizeof(text))
		return -1;
	snprintf(text, sizeof(text), "%.*s", (int)(name.len - cut_off), name.at);
	return p->names->type(text);
}

static bool ends_in(struct zn_str name, const char *end)
{
	size_t len = strlen(end);

	return name.len > len && !memcmp(name.at + name.len - len, end, len);
}

/* Finds out what a name means, and whether that can stand where it does. */
static bool resolve_name(struct zn_parser *p, struct zn_selector *s, struct zn_str name, enum zn_rule_op op)
{
	static const char *const suffixes[] = {[ZN_PART_SUM] = "_sum", [ZN_PART_COUNT] = "_count"};
	int type = metric_type(p, name, 0);
	size_t off = 0;

	for (enum zn_rule_part part = ZN_PART_SUM; type < 0 && part <= ZN_PART_COUNT; part++)
		if (ends_in(name, suffixes[part]) &&
			metric_type(p, name, strlen(suffixes[part])) == ZN_METRIC_SUMMARY) {
			s->part = part;
			off = strlen(suffixes[part]);
			type = ZN_METRIC_COUNTER;
		}
	if (type < 0)
		return zn_lex_fail(p, name.at, "no metric '%.*s'; zerneld --list-metrics lists them",
			       (int)(name.len < 63 ? name.len : 63), name.at) != ZN_NO_NODE;
	snprintf(s->metric, sizeof(s->metric), "%.*s", (int)(name.len - off), name.at);
	s->counter = type == ZN_METRIC_COUNTER;
	if (op == ZN_OP_QUANTILE && type != ZN_METRIC_SUMMARY)
		return zn_lex_fail(p, name.at, "quantile() needs a summary, and this is none") != ZN_NO_NODE;
	if (op != ZN_OP_QUANTILE && type == ZN_METRIC_SUMMARY)
		return zn_lex_fail(p, name.at, "a summary: say quantile(0.99, ...), or its name with _sum or _count") !=
			ZN_NO_NODE;
	if ((op == ZN_OP_RATE || op == ZN_OP_INCREASE) && !s->counter)
		return zn_lex_fail(p, name.at, "rate() and increase() need a counter; of a gauge, say slope()") !=
			ZN_NO_NODE;
	if ((op == ZN_OP_SLOPE || op == ZN_OP_TIME_TO) && s->counter)
		return zn_lex_fail(p, name.at, "slope() and time_to() need a gauge; of a counter, say rate()") !=
			ZN_NO_NODE;
	return true;
}

static struct zn_selector *new_selector(struct zn_parser *p, const char *at)
{
	struct zn_selector *s = &p->to->selector[p->to->selector_count];

	if (p->to->selector_count == ZN_SELECTORS_MAX) {
		zn_lex_fail(p, at, "more than %d metrics named in all rules", ZN_SELECTORS_MAX);
		return NULL;
	}
	*s = (struct zn_selector){0};
	p->to->selector_count++;
	return s;
}

static int select_node(struct zn_parser *p, const char *at, const struct zn_selector *s, struct zn_rule_node n)
{
	n.selector = (uint16_t)(s - p->to->selector);
	return add_node(p, at, n);
}

/* metric{matchers}; which operation it is for. */
static struct zn_selector *parse_selector(struct zn_parser *p, enum zn_rule_op op)
{
	struct zn_str name = zn_lex_word(p, "a metric");
	struct zn_selector *s;

	if (!name.len)
		return NULL;
	s = new_selector(p, name.at);
	return s && resolve_name(p, s, name, op) && parse_matchers(p, s) ? s : NULL;
}

/* rate(m[30s]), increase(m[30s]), slope(m[30s]), time_to(m[30s], limit). Equal pasts are kept once: the text
 * between the brackets is what tells them. */
static int past_call(struct zn_parser *p, const char *at, enum zn_rule_op op)
{
	struct zn_rule_node n = {.op = op};
	const char *from;
	struct zn_selector *s;
	enum zn_unit unit;
	double seconds;
	bool minus;

	zn_lex_skip_here(p);
	from = p->at;
	s = parse_selector(p, op);
	if (!s || !zn_lex_open(p, "[", "the time to look back on, as in [30s]") ||
		!zn_lex_duration(p, &seconds, WINDOW_MAX_S) || !zn_lex_close(p, "]", "]"))
		return ZN_NO_NODE;
	if (seconds <= 0)
		return zn_lex_fail(p, from, "expected a time above 0 to look back on");
	s->window_ns = (uint64_t)(seconds * 1e9);
	s->id = zn_rule_hash(0, from, (size_t)(p->at - from));
	if (op == ZN_OP_TIME_TO) {
		if (!zn_lex_need_sign(p, ",", ", and the value to reach"))
			return ZN_NO_NODE;
		minus = zn_lex_sign(p, "-");
		if (!zn_lex_number(p, &n.number, &unit))
			return ZN_NO_NODE;
		n.number = minus ? -n.number : n.number;
	}
	return select_node(p, at, s, n);
}

static int quantile_call(struct zn_parser *p, const char *at, enum zn_rule_op op)
{
	const char *from;
	struct zn_selector *s;
	enum zn_unit unit;
	double q;

	zn_lex_skip_here(p);
	from = p->at;
	if (!zn_lex_number(p, &q, &unit))
		return ZN_NO_NODE;
	if (q < 0.001 || q > 0.999)
		return zn_lex_fail(p, from, "expected a quantile from 0.001 to 0.999");
	if (!zn_lex_need_sign(p, ",", ", and a summary"))
		return ZN_NO_NODE;
	s = parse_selector(p, op);
	if (!s)
		return ZN_NO_NODE;
	s->q = (uint32_t)lround(q * 1000);
	return select_node(p, at, s, (struct zn_rule_node){.op = (uint8_t)op});
}

#define ANOMALY "zernel_anomaly_score"

static int anomaly_call(struct zn_parser *p, const char *at, enum zn_rule_op op)
{
	static const char label[] = "signal";
	struct zn_selector *s = new_selector(p, at);
	struct zn_matcher m = {.value_count = 1};
	struct zn_str signal;

	(void)op;
	if (!s || !zn_lex_quoted(p, &signal) || !add_word(p, zn_str_between(label, label + 6), &m.name) ||
		!add_word(p, signal, &m.values))
		return ZN_NO_NODE;
	if (p->names->type(ANOMALY) < 0)
		return zn_lex_fail(p, at, "there is no metric " ANOMALY " for anomaly()");
	snprintf(s->metric, sizeof(s->metric), ANOMALY);
	s->matcher[s->matcher_count++] = m;
	return select_node(p, at, s, (struct zn_rule_node){.op = ZN_OP_SELECT});
}

/* by (label, label) */
static bool by_labels(struct zn_parser *p, struct zn_rule_node *n)
{
	struct zn_str name;
	uint16_t index = 0;

	zn_lex_skip_here(p);
	if (!zn_str_is(zn_lex_word_here(p), "by"))
		return true;
	if (n->by_count)
		return zn_lex_fail(p, p->at, "by (...) twice") != ZN_NO_NODE;
	p->at += 2;
	if (!zn_lex_open(p, "(", "( and the labels to keep"))
		return false;
	do {
		name = zn_lex_word(p, "a label");
		if (!name.len || !add_word(p, name, &index))
			return false;
		if (n->by_count == ZN_LABELS_MAX)
			return zn_lex_fail(p, name.at, "more than %d labels", ZN_LABELS_MAX) != ZN_NO_NODE;
		if (n->by_count++ == 0)
			n->by = index;
	} while (zn_lex_sign(p, ","));
	return zn_lex_close(p, ")", ", or )");
}

/* sum by (a, b) (vector), or with by behind it. */
static int parse_aggregate(struct zn_parser *p, const char *at, enum zn_rule_op op)
{
	struct zn_rule_node n = {.op = op};
	int of;

	if (!by_labels(p, &n) || !zn_lex_open(p, "(", "( or by"))
		return ZN_NO_NODE;
	of = parse_binary(p, 0);
	if (of == ZN_NO_NODE || !zn_lex_close(p, ")", "an operator or )") || !by_labels(p, &n))
		return ZN_NO_NODE;
	if (zn_expr_is_number(&p->rule->node[of]))
		return zn_lex_fail(p, p->node_at[of], "expected a metric in here, not a number alone");
	n.left = (uint8_t)of;
	return add_node(p, at, n);
}

static const struct {
	const char *name;
	int (*call)(struct zn_parser *p, const char *at, enum zn_rule_op op);
	enum zn_rule_op op;
} functions[] = {{"rate", past_call, ZN_OP_RATE}, {"increase", past_call, ZN_OP_INCREASE},
	{"slope", past_call, ZN_OP_SLOPE}, {"time_to", past_call, ZN_OP_TIME_TO},
	{"quantile", quantile_call, ZN_OP_QUANTILE}, {"anomaly", anomaly_call, ZN_OP_SELECT},
	{"avg", parse_aggregate, ZN_OP_AVG}, {"max", parse_aggregate, ZN_OP_MAX}, {"min", parse_aggregate, ZN_OP_MIN},
	{"sum", parse_aggregate, ZN_OP_SUM}, {"count", parse_aggregate, ZN_OP_COUNT}};

static int parse_call(struct zn_parser *p, const char *at, size_t f)
{
	int n;

	if (functions[f].call == parse_aggregate)
		return parse_aggregate(p, at, functions[f].op);
	if (!zn_lex_open(p, "(", "("))
		return ZN_NO_NODE;
	n = functions[f].call(p, at, functions[f].op);
	return n != ZN_NO_NODE && zn_lex_close(p, ")", ")") ? n : ZN_NO_NODE;
}

static int parse_name(struct zn_parser *p)
{
	const char *at = p->at;
	struct zn_str word = zn_lex_word_here(p);
	struct zn_selector *s;

	for (size_t i = 0; i < ZN_LEN(functions); i++)
		if (zn_str_is(word, functions[i].name)) {
			p->at += word.len;
			return parse_call(p, at, i);
		}
	if (zn_str_is(word, "overhead_budget")) {
		p->at += word.len;
		return number_node(p, at, p->names->overhead_budget, ZN_UNIT_RATIO);
	}
	s = parse_selector(p, ZN_OP_SELECT);
	if (s && zn_lex_sign_here(p, "["))
		return zn_lex_fail(p, p->at, "[...] is for rate(), increase(), slope() and time_to() alone");
	return s ? select_node(p, at, s, (struct zn_rule_node){.op = ZN_OP_SELECT}) : ZN_NO_NODE;
}

/* 0 - x, so that there is no operation of its own for it. */
static int negate_node(struct zn_parser *p, const char *at, int of)
{
	int zero;

	if (of == ZN_NO_NODE)
		return ZN_NO_NODE;
	if (zn_expr_is_number(&p->rule->node[of])) {
		p->rule->node[of].number = -p->rule->node[of].number;
		return of;
	}
	if (is_condition(&p->rule->node[of]))
		return zn_lex_fail(p, at, "a comparison is no number");
	zero = number_node(p, at, 0, ZN_UNIT_NONE);
	return zero == ZN_NO_NODE
		? ZN_NO_NODE
		: add_node(p, at, (struct zn_rule_node){.op = ZN_OP_SUB, .left = (uint8_t)zero, .right = (uint8_t)of});
}

static int parse_primary(struct zn_parser *p)
{
	const char *at = p->at;
	enum zn_unit unit;
	double number;
	int n;

	if (zn_lex_sign(p, "-"))
		return negate_node(p, at, parse_binary(p, 5));
	if (zn_lex_number_here(p))
		return zn_lex_number(p, &number, &unit) ? number_node(p, at, number, unit) : ZN_NO_NODE;
	if (zn_lex_sign_here(p, "(")) {
		zn_lex_open(p, "(", "");
		n = parse_binary(p, 0);
		return n != ZN_NO_NODE && zn_lex_close(p, ")", "an operator or )") ? n : ZN_NO_NODE;
	}
	if (!zn_lex_word_here(p).len)
		return zn_lex_expected(p, "a metric, a function, a number or (");
	return parse_name(p);
}

/* Longer signs before those that they begin with. */
static const struct {
	const char *text;
	uint8_t op;
	uint8_t level;
} operators[] = {{"or", ZN_OP_OR, 0}, {"and", ZN_OP_AND, 1}, {"unless", ZN_OP_UNLESS, 1}, {">=", ZN_OP_GE, 2},
	{"<=", ZN_OP_LE, 2}, {"==", ZN_OP_EQ, 2}, {"!=", ZN_OP_NE, 2}, {">", ZN_OP_GT, 2}, {"<", ZN_OP_LT, 2},
	{"+", ZN_OP_ADD, 3}, {"-", ZN_OP_SUB, 3}, {"*", ZN_OP_MUL, 4}, {"/", ZN_OP_DIV, 4}};
#define LEVELS       5
#define LEVEL_LOGIC  1
#define LEVEL_EQUALS 2
#define LEVEL_SUM    3

/* An operator at the start of the next line goes on with the expression. Index into operators, or ZN_NO_NODE; not
 * taken. */
static int operator_here(struct zn_parser *p)
{
	const char *at = p->at;
	struct zn_str word;

	zn_lex_skip(p, true);
	word = zn_lex_word_here(p);
	for (size_t i = 0; i < ZN_LEN(operators); i++)
		if (word.len ? zn_str_is(word, operators[i].text) : zn_lex_sign_here(p, operators[i].text))
			return (int)i;
	p->at = at;
	return ZN_NO_NODE;
}

double zn_expr_compute(enum zn_rule_op op, double a, double b)
{
	switch (op) {
	case ZN_OP_ADD: return a + b;
	case ZN_OP_SUB: return a - b;
	case ZN_OP_MUL: return a * b;
	default: return b == 0 ? NAN : a / b;
	}
}

/* 5 < x is x > 5: the value of a comparison is its left side's. */
static uint8_t mirrored_op(uint8_t op)
{
	switch (op) {
	case ZN_OP_GT: return ZN_OP_LT;
	case ZN_OP_GE: return ZN_OP_LE;
	case ZN_OP_LT: return ZN_OP_GT;
	case ZN_OP_LE: return ZN_OP_GE;
	default: return op;
	}
}

static int join_nodes(struct zn_parser *p, int operator, int left, int right)
{
	const struct zn_rule_node *l = &p->rule->node[left], *r = &p->rule->node[right];
	bool logic = operators[operator].level <= LEVEL_LOGIC;
	const char *text = operators[operator].text;

	if (logic != is_condition(l) || logic != is_condition(r))
		return zn_lex_fail(p, p->node_at[logic == is_condition(l) ? right : left],
			logic ? "expected a comparison, as in x > 5, on both sides of %s"
			      : "expected a number or a metric on both sides of %s, not a comparison",
			text);
	if (zn_expr_is_number(l) && zn_expr_is_number(r) && operators[operator].level > LEVEL_EQUALS) {
		p->rule->node[left].number = zn_expr_compute(operators[operator].op, l->number, r->number);
		p->rule->node[left].by = l->by ? l->by : r->by;
		if (!isfinite(l->number))
			return zn_lex_fail(p, p->node_at[left], "this is no finite number");
		return left;
	}
	if (zn_expr_is_number(l) && zn_expr_is_number(r))
		return zn_lex_fail(p, p->node_at[left], "expected a metric on one side of %s", text);
	if (operators[operator].op == ZN_OP_DIV && zn_expr_is_number(r) && r->number == 0)
		return zn_lex_fail(p, p->node_at[right], "a division by zero");
	if (zn_expr_is_number(l) && operators[operator].level == LEVEL_EQUALS)
		return add_node(p, p->node_at[left],
			(struct zn_rule_node){
				.op = mirrored_op(operators[operator].op), .left = (uint8_t)right, .right = (uint8_t)left});
	return add_node(p, p->node_at[left],
		(struct zn_rule_node){
			.op = operators[operator].op, .left = (uint8_t)left, .right = (uint8_t)right});
}

/* Operators of a level and of those that bind more tightly. */
static int parse_binary(struct zn_parser *p, unsigned level)
{
	int left, right, operator;

	zn_lex_skip_here(p);
	if (level == LEVELS) {
		if (++p->nest > NEST_MAX)
			return zn_lex_fail(p, p->at, "nested more than %d deep", NEST_MAX);
		left = parse_primary(p);
		p->nest--;
		return left;
	}
	left = parse_binary(p, level + 1);
	while (left != ZN_NO_NODE && (operator = operator_here(p)) != ZN_NO_NODE && operators[operator].level == level) {
		p->at += strlen(operators[operator].text);
		zn_lex_skip(p, true);
		right = parse_binary(p, level + 1);
		left = right == ZN_NO_NODE ? ZN_NO_NODE : join_nodes(p, operator, left, right);
	}
	return left;
}

int zn_expr_number(struct zn_parser *p)
{
	return parse_binary(p, LEVEL_SUM);
}

bool zn_expr_is_number(const struct zn_rule_node *n)
{
	return n->op == ZN_OP_NUMBER;
}

bool zn_expr_condition(struct zn_parser *p, uint8_t *root)
{
	int n = parse_binary(p, 0);

	if (n == ZN_NO_NODE)
		return false;
	if (!is_condition(&p->rule->node[n]))
		return zn_lex_fail(p, p->node_at[n], "expected a comparison, as in x > 5: this is a number") !=
			ZN_NO_NODE;
	*root = (uint8_t)n;
	return true;
}
