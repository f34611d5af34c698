/* SPDX-License-Identifier: GPL-2.0 */
/*
 * parse.c: the language of alert rules (docs/ALERTS.md), read once into a fixed program per rule, a tree of operations,
 * which eval.c runs. No allocation, and no file but in zn_rules_read().
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "zernel.h"

#define NEST_MAX     16
#define BLANKS       " \t\r"
#define LETTERS      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
#define DIGITS       "0123456789"
#define FOR_MAX_S    (7 * 86400.0)
#define WINDOW_MAX_S 3600.0
#define NONE         (-1)

/* ---- Reading. ---- */

struct parser {
	struct zn_rules *to;
	struct zn_rule *rule;
	const struct zn_rule_names *names;
	const char *name; /* of the text */
	const char *start, *at, *end;
	const char *node_at[ZN_RULE_NODES];
	uint32_t mine; /* the first rule that this text may replace nothing of: its own rules begin there */
	int depth;     /* of brackets: in them an end of line is a blank */
	int nest;
	uint32_t fields; /* of the rule at hand, that were there: bit by index of the table */
	char *why;       /* not empty: it failed */
};

/* Only the first mistake is reported: later ones may follow from it. Always returns NONE. */
__attribute__((format(printf, 3, 4))) static int fail(struct parser *p, const char *at, const char *format, ...)
{
	unsigned line = 1, column = 1;
	va_list args;
	int len;

	if (p->why[0])
		return NONE;
	for (const char *c = p->start; c < at; c++) {
		column = *c == '\n' ? 1 : column + 1;
		line += *c == '\n';
	}
	len = snprintf(p->why, ZN_TEXT_MAX, "%.100s:%u:%u: ", p->name, line, column);
	va_start(args, format);
	vsnprintf(p->why + len, ZN_TEXT_MAX - (size_t)len, format, args);
	va_end(args);
	return NONE;
}

static struct zn_str str_between(const char *from, const char *to)
{
	return (struct zn_str){from, (size_t)(to - from)};
}

static bool is_text(struct zn_str a, const char *text)
{
	return a.len == strlen(text) && !memcmp(a.at, text, a.len);
}

static bool one_of(char c, const char *set)
{
	return c && strchr(set, c);
}

/* Blanks and comments; the ends of lines too if `lines`. */
static void skip_blanks(struct parser *p, bool lines)
{
	for (; p->at < p->end; p->at++) {
		if (*p->at == '#')
			while (p->at + 1 < p->end && p->at[1] != '\n')
				p->at++;
		else if (!one_of(*p->at, BLANKS) && !(lines && *p->at == '\n'))
			return;
	}
}

static void skip_here(struct parser *p)
{
	skip_blanks(p, p->depth > 0);
}

/* "expected X, not 'Y'", Y being what stands there. */
static int fail_expected(struct parser *p, const char *what)
{
	char shown[24];
	size_t len = 0;

	if (p->at >= p->end)
		return fail(p, p->at, "expected %s, not the end of the file", what);
	if (*p->at == '\n')
		return fail(p, p->at, "expected %s, not the end of the line", what);
	for (const char *c = p->at; c < p->end && len < sizeof(shown) - 1 && !one_of(*c, BLANKS "\n"); c++)
		shown[len++] = isprint((unsigned char)*c) ? *c : '?';
	return fail(p, p->at, "expected %s, not '%.*s'", what, (int)len, shown);
}

/* The word that stands here, without taking it. Empty: there is none. */
static struct zn_str word_here(struct parser *p)
{
	const char *c = p->at;

	if (c < p->end && one_of(*c, LETTERS))
		while (c < p->end && one_of(*c, LETTERS DIGITS ":"))
			c++;
	return str_between(p->at, c);
}

static struct zn_str take_word(struct parser *p, const char *what)
{
	struct zn_str word;

	skip_here(p);
	word = word_here(p);
	if (!word.len)
		fail_expected(p, what);
	p->at += word.len;
	return word;
}

static bool sign_here(struct parser *p, const char *sign)
{
	size_t len = strlen(sign);

	skip_here(p);
	return (size_t)(p->end - p->at) >= len && !memcmp(p->at, sign, len);
}

static bool take_sign(struct parser *p, const char *sign)
{
	if (!sign_here(p, sign))
		return false;
	p->at += strlen(sign);
	return true;
}

static bool need_sign(struct parser *p, const char *sign, const char *what)
{
	return take_sign(p, sign) || fail_expected(p, what) != NONE;
}

static bool open_bracket(struct parser *p, const char *sign, const char *what)
{
	if (!need_sign(p, sign, what))
		return false;
	p->depth++;
	return true;
}

static bool close_bracket(struct parser *p, const char *sign, const char *what)
{
	bool there = need_sign(p, sign, what);

	p->depth--; /* of a text that is given up, too */
	return there;
}

/* Text between quotes of either kind; what it holds is taken as it is. */
static bool take_quoted(struct parser *p, struct zn_str *to)
{
	const char *from, *close;

	skip_here(p);
	if (p->at >= p->end || !one_of(*p->at, "\"'"))
		return fail_expected(p, "a text in quotes") != NONE;
	from = p->at + 1;
	for (close = from; close < p->end && *close != *p->at && *close != '\n'; close++)
		;
	if (close == p->end || *close != *p->at)
		return fail(p, p->at, "a quote that is not closed on this line") != NONE;
	*to = str_between(from, close);
	p->at = close + 1;
	return true;
}

enum unit { UNIT_NONE, UNIT_TIME, UNIT_OTHER };
static const struct {
	const char *name;
	double times, over; /* two, so that 95% is the number nearest to 0.95 */
	enum unit unit;
} units[] = {{"%", 1, 100, UNIT_OTHER}, {"ns", 1, 1e9, UNIT_TIME}, {"us", 1, 1e6, UNIT_TIME}, {"ms", 1, 1e3, UNIT_TIME},
	{"s", 1, 1, UNIT_TIME}, {"m", 60, 1, UNIT_TIME}, {"h", 3600, 1, UNIT_TIME}, {"d", 86400, 1, UNIT_TIME},
	{"B", 1, 1, UNIT_OTHER}, {"kB", 1e3, 1, UNIT_OTHER}, {"MB", 1e6, 1, UNIT_OTHER}, {"GB", 1e9, 1, UNIT_OTHER},
	{"TB", 1e12, 1, UNIT_OTHER}, {"KiB", 1024, 1, UNIT_OTHER}, {"MiB", 1048576, 1, UNIT_OTHER},
	{"GiB", 1073741824, 1, UNIT_OTHER}, {"TiB", 1099511627776, 1, UNIT_OTHER}};

/* What stands right behind the digits of a number. */
static bool take_unit(struct parser *p, double *number, enum unit *unit)
{
	struct zn_str name = word_here(p);

	*unit = UNIT_NONE;
	if (p->at < p->end && *p->at == '%')
		name.len = 1;
	if (!name.len)
		return true;
	for (size_t i = 0; i < ZN_LEN(units); i++)
		if (is_text(name, units[i].name)) {
			*number = *number * units[i].times / units[i].over;
			*unit = units[i].unit;
			p->at += name.len;
			return true;
		}
	return fail_expected(p, "a unit (% ns us ms s m h d B kB MB GB TB KiB MiB GiB TiB)") != NONE;
}

static bool number_here(struct parser *p)
{
	skip_here(p);
	return p->at < p->end && one_of(*p->at, DIGITS ".");
}

static bool take_number(struct parser *p, double *number, enum unit *unit)
{
	char text[32];
	size_t len = 0;
	char *end;

	if (!number_here(p))
		return fail_expected(p, "a number") != NONE;
	for (const char *c = p->at; c < p->end && len < sizeof(text) - 1 && one_of(*c, DIGITS ".eE+-"); c++) {
		if (one_of(*c, "eE") ? !(c + 1 < p->end && one_of(c[1], DIGITS "+-"))
				     : one_of(*c, "+-") && !one_of(c[-1], "eE"))
			break;
		text[len++] = *c;
	}
	text[len] = '\0';
	*number = strtod(text, &end);
	if (end != text + len || len == sizeof(text) - 1 || !isfinite(*number))
		return fail_expected(p, "a number, as in 0.95 or 1e9") != NONE;
	p->at += len;
	return take_unit(p, number, unit);
}

/* In seconds, above 0 unless zero is allowed, up to max. */
static bool take_duration(struct parser *p, double *seconds, double max)
{
	const char *at;
	enum unit unit;

	skip_here(p);
	at = p->at;
	if (!take_number(p, seconds, &unit))
		return false;
	if (unit != UNIT_TIME)
		return fail(p, at, "expected a time with its unit, as in 30s or 5m") != NONE;
	if (*seconds > max)
		return fail(p, at, "expected a time of at most %g s", max) != NONE;
	return true;
}

/* ---- Expressions. Each function returns the index of a node, or NONE after fail(). ---- */

static int parse_binary(struct parser *p, unsigned level);

static int add_node(struct parser *p, const char *at, struct zn_rule_node n)
{
	struct zn_rule *r = p->rule;

	if (p->why[0])
		return NONE;
	if (r->node_count == ZN_RULE_NODES)
		return fail(p, at, "a rule of more than %d operations and operands", ZN_RULE_NODES);
	p->node_at[r->node_count] = at;
	r->node[r->node_count] = n;
	return r->node_count++;
}

static int number_node(struct parser *p, const char *at, double number)
{
	if (!isfinite(number))
		return fail(p, at, "this is no finite number");
	return add_node(p, at, (struct zn_rule_node){.op = ZN_OP_NUMBER, .number = number});
}

static bool is_condition(const struct zn_rule_node *n)
{
	return n->op >= ZN_OP_GT;
}

static bool is_number(const struct zn_rule_node *n)
{
	return n->op == ZN_OP_NUMBER;
}

/* The index of a new word, in *index; false: there is no room. */
static bool add_word(struct parser *p, struct zn_str word, uint16_t *index)
{
	if (p->to->word_count == ZN_RULE_WORDS)
		return fail(p, word.at, "more than %d words in the matchers of all rules", ZN_RULE_WORDS) != NONE;
	*index = (uint16_t)p->to->word_count;
	p->to->word[p->to->word_count++] = word;
	return true;
}

/* "value", or ("value", "value") for any of them. */
static bool matcher_values(struct parser *p, struct zn_matcher *m)
{
	bool list = sign_here(p, "(");
	struct zn_str value;
	uint16_t index = 0;

	if (list)
		open_bracket(p, "(", "");
	do {
		if (!take_quoted(p, &value) || !add_word(p, value, &index))
			return false;
		if (m->value_count == UINT8_MAX)
			return fail(p, value.at, "more than %d values", UINT8_MAX) != NONE;
		if (m->value_count++ == 0)
			m->values = index;
	} while (list && take_sign(p, ","));
	return !list || close_bracket(p, ")", ", or )");
}

static bool parse_matcher(struct parser *p, struct zn_selector *s)
{
	struct zn_matcher m = {0};
	struct zn_str name = take_word(p, "a label, or }");

	if (!name.len)
		return false;
	m.negated = take_sign(p, "!=");
	if (sign_here(p, "=~") || (!m.negated && !sign_here(p, "=")))
		return fail_expected(p, "= or !=; for one of several: label=(\"a\", \"b\")") != NONE;
	if (!m.negated)
		take_sign(p, "=");
	if (s->matcher_count == ZN_MATCHERS_MAX)
		return fail(p, name.at, "more than %d matchers", ZN_MATCHERS_MAX) != NONE;
	if (!add_word(p, name, &m.name) || !matcher_values(p, &m))
		return false;
	s->matcher[s->matcher_count++] = m;
	return true;
}

static bool parse_matchers(struct parser *p, struct zn_selector *s)
{
	if (!sign_here(p, "{"))
		return true;
	open_bracket(p, "{", "");
	while (!sign_here(p, "}")) {
		if (!parse_matcher(p, s))
			return false;
		if (!take_sign(p, ","))
			break;
	}
	return close_bracket(p, "}", ", or }");
}

static int metric_type(struct parser *p, struct zn_str name, size_t cut_off)
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
static bool resolve_name(struct parser *p, struct zn_selector *s, struct zn_str name, enum zn_rule_op op)
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
		return fail(p, name.at, "no metric '%.*s'; zerneld --list-metrics lists them",
			       (int)(name.len < 63 ? name.len : 63), name.at) != NONE;
	snprintf(s->metric, sizeof(s->metric), "%.*s", (int)(name.len - off), name.at);
	s->counter = type == ZN_METRIC_COUNTER;
	if (op == ZN_OP_QUANTILE && type != ZN_METRIC_SUMMARY)
		return fail(p, name.at, "quantile() needs a summary, and this is none") != NONE;
	if (op != ZN_OP_QUANTILE && type == ZN_METRIC_SUMMARY)
		return fail(p, name.at, "a summary: say quantile(0.99, ...), or its name with _sum or _count") != NONE;
	if ((op == ZN_OP_RATE || op == ZN_OP_INCREASE) && !s->counter)
		return fail(p, name.at, "rate() and increase() need a counter; of a gauge, say slope()") != NONE;
	if ((op == ZN_OP_SLOPE || op == ZN_OP_TIME_TO) && s->counter)
		return fail(p, name.at, "slope() and time_to() need a gauge; of a counter, say rate()") != NONE;
	return true;
}

static struct zn_selector *new_selector(struct parser *p, const char *at)
{
	struct zn_selector *s = &p->to->selector[p->to->selector_count];

	if (p->to->selector_count == ZN_SELECTORS_MAX) {
		fail(p, at, "more than %d metrics named in all rules", ZN_SELECTORS_MAX);
		return NULL;
	}
	*s = (struct zn_selector){0};
	p->to->selector_count++;
	return s;
}

static int select_node(struct parser *p, const char *at, const struct zn_selector *s, struct zn_rule_node n)
{
	n.selector = (uint16_t)(s - p->to->selector);
	return add_node(p, at, n);
}

/* metric{matchers}; which operation it is for. */
static struct zn_selector *parse_selector(struct parser *p, enum zn_rule_op op)
{
	struct zn_str name = take_word(p, "a metric");
	struct zn_selector *s;

	if (!name.len)
		return NULL;
	s = new_selector(p, name.at);
	return s && resolve_name(p, s, name, op) && parse_matchers(p, s) ? s : NULL;
}

/* rate(m[30s]), increase(m[30s]), slope(m[30s]), time_to(m[30s], limit). Equal pasts are kept once: the text
 * between the brackets is what tells them. */
static int past_call(struct parser *p, const char *at, enum zn_rule_op op)
{
	struct zn_rule_node n = {.op = op};
	const char *from;
	struct zn_selector *s;
	enum unit unit;
	double seconds;
	bool minus;

	skip_here(p);
	from = p->at;
	s = parse_selector(p, op);
	if (!s || !open_bracket(p, "[", "the time to look back on, as in [30s]") ||
		!take_duration(p, &seconds, WINDOW_MAX_S) || !close_bracket(p, "]", "]"))
		return NONE;
	if (seconds <= 0)
		return fail(p, from, "expected a time above 0 to look back on");
	s->window_ns = (uint64_t)(seconds * 1e9);
	s->id = zn_rule_hash(0, from, (size_t)(p->at - from));
	if (op == ZN_OP_TIME_TO) {
		if (!need_sign(p, ",", ", and the value to reach"))
			return NONE;
		minus = take_sign(p, "-");
		if (!take_number(p, &n.number, &unit))
			return NONE;
		n.number = minus ? -n.number : n.number;
	}
	return select_node(p, at, s, n);
}

static int quantile_call(struct parser *p, const char *at, enum zn_rule_op op)
{
	const char *from;
	struct zn_selector *s;
	enum unit unit;
	double q;

	skip_here(p);
	from = p->at;
	if (!take_number(p, &q, &unit))
		return NONE;
	if (q < 0.001 || q > 0.999)
		return fail(p, from, "expected a quantile from 0.001 to 0.999");
	if (!need_sign(p, ",", ", and a summary"))
		return NONE;
	s = parse_selector(p, op);
	if (!s)
		return NONE;
	s->q = (uint32_t)lround(q * 1000);
	return select_node(p, at, s, (struct zn_rule_node){.op = (uint8_t)op});
}

#define ANOMALY "zernel_anomaly_score"

static int anomaly_call(struct parser *p, const char *at, enum zn_rule_op op)
{
	static const char label[] = "signal";
	struct zn_selector *s = new_selector(p, at);
	struct zn_matcher m = {.value_count = 1};
	struct zn_str signal;

	(void)op;
	if (!s || !take_quoted(p, &signal) || !add_word(p, str_between(label, label + 6), &m.name) ||
		!add_word(p, signal, &m.values))
		return NONE;
	if (p->names->type(ANOMALY) < 0)
		return fail(p, at, "there is no metric " ANOMALY " for anomaly()");
	snprintf(s->metric, sizeof(s->metric), ANOMALY);
	s->matcher[s->matcher_count++] = m;
	return select_node(p, at, s, (struct zn_rule_node){.op = ZN_OP_SELECT});
}

/* by (label, label) */
static bool by_labels(struct parser *p, struct zn_rule_node *n)
{
	struct zn_str name;
	uint16_t index = 0;

	skip_here(p);
	if (!is_text(word_here(p), "by"))
		return true;
	if (n->by_count)
		return fail(p, p->at, "by (...) twice") != NONE;
	p->at += 2;
	if (!open_bracket(p, "(", "( and the labels to keep"))
		return false;
	do {
		name = take_word(p, "a label");
		if (!name.len || !add_word(p, name, &index))
			return false;
		if (n->by_count == ZN_LABELS_MAX)
			return fail(p, name.at, "more than %d labels", ZN_LABELS_MAX) != NONE;
		if (n->by_count++ == 0)
			n->by = index;
	} while (take_sign(p, ","));
	return close_bracket(p, ")", ", or )");
}

/* sum by (a, b) (vector), or with by behind it. */
static int parse_aggregate(struct parser *p, const char *at, enum zn_rule_op op)
{
	struct zn_rule_node n = {.op = op};
	int of;

	if (!by_labels(p, &n) || !open_bracket(p, "(", "( or by"))
		return NONE;
	of = parse_binary(p, 0);
	if (of == NONE || !close_bracket(p, ")", "an operator or )") || !by_labels(p, &n))
		return NONE;
	if (is_number(&p->rule->node[of]))
		return fail(p, p->node_at[of], "expected a metric in here, not a number alone");
	n.left = (uint8_t)of;
	return add_node(p, at, n);
}

static const struct {
	const char *name;
	int (*call)(struct parser *p, const char *at, enum zn_rule_op op);
	enum zn_rule_op op;
} functions[] = {{"rate", past_call, ZN_OP_RATE}, {"increase", past_call, ZN_OP_INCREASE},
	{"slope", past_call, ZN_OP_SLOPE}, {"time_to", past_call, ZN_OP_TIME_TO},
	{"quantile", quantile_call, ZN_OP_QUANTILE}, {"anomaly", anomaly_call, ZN_OP_SELECT},
	{"avg", parse_aggregate, ZN_OP_AVG}, {"max", parse_aggregate, ZN_OP_MAX}, {"min", parse_aggregate, ZN_OP_MIN},
	{"sum", parse_aggregate, ZN_OP_SUM}, {"count", parse_aggregate, ZN_OP_COUNT}};

static int parse_call(struct parser *p, const char *at, size_t f)
{
	int n;

	if (functions[f].call == parse_aggregate)
		return parse_aggregate(p, at, functions[f].op);
	if (!open_bracket(p, "(", "("))
		return NONE;
	n = functions[f].call(p, at, functions[f].op);
	return n != NONE && close_bracket(p, ")", ")") ? n : NONE;
}

static int parse_name(struct parser *p)
{
	const char *at = p->at;
	struct zn_str word = word_here(p);
	struct zn_selector *s;

	for (size_t i = 0; i < ZN_LEN(functions); i++)
		if (is_text(word, functions[i].name)) {
			p->at += word.len;
			return parse_call(p, at, i);
		}
	if (is_text(word, "overhead_budget")) {
		p->at += word.len;
		return number_node(p, at, p->names->overhead_budget);
	}
	s = parse_selector(p, ZN_OP_SELECT);
	if (s && sign_here(p, "["))
		return fail(p, p->at, "[...] is for rate(), increase(), slope() and time_to() alone");
	return s ? select_node(p, at, s, (struct zn_rule_node){.op = ZN_OP_SELECT}) : NONE;
}

/* 0 - x, so that there is no operation of its own for it. */
static int negate_node(struct parser *p, const char *at, int of)
{
	int zero;

	if (of == NONE)
		return NONE;
	if (is_number(&p->rule->node[of])) {
		p->rule->node[of].number = -p->rule->node[of].number;
		return of;
	}
	if (is_condition(&p->rule->node[of]))
		return fail(p, at, "a comparison is no number");
	zero = number_node(p, at, 0);
	return zero == NONE
		? NONE
		: add_node(p, at, (struct zn_rule_node){.op = ZN_OP_SUB, .left = (uint8_t)zero, .right = (uint8_t)of});
}

static int parse_primary(struct parser *p)
{
	const char *at = p->at;
	enum unit unit;
	double number;
	int n;

	if (take_sign(p, "-"))
		return negate_node(p, at, parse_binary(p, 5));
	if (number_here(p))
		return take_number(p, &number, &unit) ? number_node(p, at, number) : NONE;
	if (sign_here(p, "(")) {
		open_bracket(p, "(", "");
		n = parse_binary(p, 0);
		return n != NONE && close_bracket(p, ")", "an operator or )") ? n : NONE;
	}
	if (!word_here(p).len)
		return fail_expected(p, "a metric, a function, a number or (");
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

/* An operator at the start of the next line goes on with the expression. Index into operators, or NONE; not taken. */
static int operator_here(struct parser *p)
{
	const char *at = p->at;
	struct zn_str word;

	skip_blanks(p, true);
	word = word_here(p);
	for (size_t i = 0; i < ZN_LEN(operators); i++)
		if (word.len ? is_text(word, operators[i].text) : sign_here(p, operators[i].text))
			return (int)i;
	p->at = at;
	return NONE;
}

double zn_rules_compute(enum zn_rule_op op, double a, double b)
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

static int join_nodes(struct parser *p, int operator, int left, int right)
{
	const struct zn_rule_node *l = &p->rule->node[left], *r = &p->rule->node[right];
	bool logic = operators[operator].level <= LEVEL_LOGIC;
	const char *text = operators[operator].text;

	if (logic != is_condition(l) || logic != is_condition(r))
		return fail(p, p->node_at[logic == is_condition(l) ? right : left],
			logic ? "expected a comparison, as in x > 5, on both sides of %s"
			      : "expected a number or a metric on both sides of %s, not a comparison",
			text);
	if (is_number(l) && is_number(r) && operators[operator].level > LEVEL_EQUALS) {
		p->rule->node[left].number = zn_rules_compute(operators[operator].op, l->number, r->number);
		if (!isfinite(l->number))
			return fail(p, p->node_at[left], "this is no finite number");
		return left;
	}
	if (is_number(l) && is_number(r))
		return fail(p, p->node_at[left], "expected a metric on one side of %s", text);
	if (operators[operator].op == ZN_OP_DIV && is_number(r) && r->number == 0)
		return fail(p, p->node_at[right], "a division by zero");
	if (is_number(l) && operators[operator].level == LEVEL_EQUALS)
		return add_node(p, p->node_at[left],
			(struct zn_rule_node){
				.op = mirrored_op(operators[operator].op), .left = (uint8_t)right, .right = (uint8_t)left});
	return add_node(p, p->node_at[left],
		(struct zn_rule_node){
			.op = operators[operator].op, .left = (uint8_t)left, .right = (uint8_t)right});
}

/* Operators of a level and of those that bind more tightly. */
static int parse_binary(struct parser *p, unsigned level)
{
	int left, right, operator;

	skip_here(p);
	if (level == LEVELS) {
		if (++p->nest > NEST_MAX)
			return fail(p, p->at, "nested more than %d deep", NEST_MAX);
		left = parse_primary(p);
		p->nest--;
		return left;
	}
	left = parse_binary(p, level + 1);
	while (left != NONE && (operator = operator_here(p)) != NONE && operators[operator].level == level) {
		p->at += strlen(operators[operator].text);
		skip_blanks(p, true);
		right = parse_binary(p, level + 1);
		left = right == NONE ? NONE : join_nodes(p, operator, left, right);
	}
	return left;
}

/* A whole expression that must be a condition. */
static bool parse_condition(struct parser *p, uint8_t *root)
{
	int n = parse_binary(p, 0);

	if (n == NONE)
		return false;
	if (!is_condition(&p->rule->node[n]))
		return fail(p, p->node_at[n], "expected a comparison, as in x > 5: this is a number") != NONE;
	*root = (uint8_t)n;
	return true;
}

/* ---- Rules: alert NAME, and indented lines, each a field. ---- */

/* The comparison whose left side is the value of an alert. */
static uint8_t first_comparison(const struct zn_rule *r)
{
	uint8_t at = r->root;

	while (r->node[at].op >= ZN_OP_AND)
		at = r->node[at].left;
	return at;
}

static bool field_expr(struct parser *p)
{
	const struct zn_rule_node *n;
	struct zn_rule *r = p->rule;
	const char *from;

	skip_here(p);
	from = p->at;
	if (!parse_condition(p, &r->root))
		return false;
	r->expr = str_between(from, p->at);
	while (r->expr.len && one_of(r->expr.at[r->expr.len - 1], BLANKS "\n"))
		r->expr.len--;
	r->first = first_comparison(r);
	n = &r->node[r->first];
	r->below = n->op == ZN_OP_LT || n->op == ZN_OP_LE;
	if (is_number(&r->node[n->right]))
		r->limit = r->node[n->right].number;
	return true;
}

static bool clear_at(struct parser *p)
{
	struct zn_rule *r = p->rule;
	const char *at;
	int n;

	skip_here(p);
	at = p->at;
	n = parse_binary(p, 3);
	if (n == NONE)
		return false;
	if (!is_number(&r->node[n]))
		return fail(p, at, "expected a number after clear at; for conditions: clear when") != NONE;
	r->clear = ZN_CLEAR_AT;
	r->clear_at = r->node[n].number;
	return true;
}

static bool field_clear(struct parser *p)
{
	struct zn_str word = take_word(p, "at and a value, or when and a condition");

	if (is_text(word, "at"))
		return clear_at(p);
	if (!is_text(word, "when")) {
		p->at = word.at;
		return fail_expected(p, "at and a value, or when and a condition") != NONE;
	}
	p->rule->clear = ZN_CLEAR_WHEN;
	return parse_condition(p, &p->rule->clear_root);
}

static bool parse_milliseconds(struct parser *p, uint64_t *to)
{
	double seconds;

	if (!take_duration(p, &seconds, FOR_MAX_S))
		return false;
	*to = (uint64_t)llround(seconds * 1000);
	return true;
}

static bool field_for(struct parser *p)
{
	return parse_milliseconds(p, &p->rule->for_ms);
}

static bool field_keep(struct parser *p)
{
	return parse_milliseconds(p, &p->rule->keep_ms);
}

static bool field_severity(struct parser *p)
{
	struct zn_str word = take_word(p, "a word, as in warning or critical");

	if (!word.len)
		return false;
	if (word.len >= sizeof(p->rule->severity))
		return fail(p, word.at, "expected a word of at most %zu letters", sizeof(p->rule->severity) - 1) !=
			NONE;
	snprintf(p->rule->severity, sizeof(p->rule->severity), "%.*s", (int)word.len, word.at);
	return true;
}

/* What stands between {{ and }}: a label or value, and maybe a form of it. */
static bool check_placeholder(struct zn_str inside)
{
	static const char *const forms[] = {"value", "value|percent", "value|bytes", "value|duration"};

	for (size_t i = 0; i < ZN_LEN(forms); i++)
		if (is_text(inside, forms[i]))
			return true;
	for (size_t i = 0; i < inside.len; i++)
		if (!one_of(inside.at[i], i ? LETTERS DIGITS : LETTERS))
			return false;
	return inside.len > 0;
}

/* The next {{...}} in a text: its inside, and where it begins and ends. False: no more, or (inside->at NULL) not
 * closed. */
static bool next_placeholder(struct zn_str text, struct zn_str *inside, const char **from, const char **to)
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
	*inside = str_between(*from + 2, *to);
	while (inside->len && *inside->at == ' ')
		*inside = str_between(inside->at + 1, *to);
	while (inside->len && inside->at[inside->len - 1] == ' ')
		inside->len--;
	*to += 2;
	return true;
}

/* The rest of the line, whatever it holds. */
static bool parse_rest(struct parser *p, struct zn_str *to)
{
	struct zn_str inside, text;
	const char *from, *behind, *end;

	while (p->at < p->end && one_of(*p->at, BLANKS))
		p->at++;
	end = memchr(p->at, '\n', (size_t)(p->end - p->at));
	text = str_between(p->at, end ? end : p->end);
	while (text.len && one_of(text.at[text.len - 1], BLANKS))
		text.len--;
	if (!text.len)
		return fail_expected(p, "a text") != NONE;
	p->at = text.at + text.len;
	for (*to = text; next_placeholder(text, &inside, &from, &behind); text = str_between(behind, to->at + to->len))
		if (!check_placeholder(inside))
			return fail(p, from,
				       "expected {{label}}, {{value}}, {{value|percent}}, {{value|bytes}} or {{value|duration}}") !=
				NONE;
	return inside.at || fail(p, from, "a {{ that is not closed on this line") != NONE;
}

static bool field_summary(struct parser *p)
{
	return parse_rest(p, &p->rule->summary);
}

static bool field_description(struct parser *p)
{
	return parse_rest(p, &p->rule->description);
}

static bool field_runbook(struct parser *p)
{
	return parse_rest(p, &p->rule->runbook);
}

static const struct {
	const char *name;
	bool (*read)(struct parser *p);
} fields[] = {{"expr", field_expr}, {"clear", field_clear}, {"for", field_for}, {"keep_firing_for", field_keep},
	{"severity", field_severity}, {"summary", field_summary}, {"description", field_description},
	{"runbook_url", field_runbook}};
#define FIELDS "expr, clear, for, keep_firing_for, severity, summary, description or runbook_url"

static bool parse_field(struct parser *p)
{
	struct zn_str word = word_here(p);

	for (size_t i = 0; i < ZN_LEN(fields); i++) {
		if (!is_text(word, fields[i].name))
			continue;
		if (p->fields >> i & 1)
			return fail(p, p->at, "%s twice in one rule", fields[i].name) != NONE;
		p->fields |= 1u << i;
		p->at += word.len;
		return fields[i].read(p);
	}
	return fail_expected(p, FIELDS) != NONE;
}

/* After something that ends with its line. */
static bool end_line(struct parser *p)
{
	skip_blanks(p, false);
	if (p->at < p->end && *p->at != '\n')
		return fail_expected(p, "the end of the line") != NONE;
	return true;
}

/* Goes to the first word of the next line that has one. True: it is indented. */
static bool next_line(struct parser *p)
{
	const char *line = p->at;

	skip_blanks(p, true);
	for (const char *c = line; c < p->at; c++)
		if (*c == '\n')
			line = c + 1;
	return p->at < p->end && p->at > line && (line > p->start || one_of(*line, BLANKS));
}

static bool check_clear(struct parser *p, const char *at)
{
	const struct zn_rule *r = p->rule;
	const struct zn_rule_node *n = &r->node[r->first];

	if (r->clear != ZN_CLEAR_AT)
		return true;
	for (const struct zn_rule_node *up = &r->node[r->root]; up != n; up = &r->node[up->left])
		if (up->op == ZN_OP_OR)
			return fail(p, at, "clear at says nothing about an expr with or; say clear when") != NONE;
	if (isnan(r->limit) || n->op == ZN_OP_EQ || n->op == ZN_OP_NE)
		return fail(p, at, "clear at needs an expr that begins with x > NUMBER or x < NUMBER") != NONE;
	if (r->below ? r->clear_at < r->limit : r->clear_at > r->limit)
		return fail(p, at, "clear at %g is on the wrong side of the limit, %g", r->clear_at, r->limit) != NONE;
	return true;
}

static struct zn_rule *find_rule(struct zn_rules *r, struct zn_str name)
{
	for (uint32_t i = 0; i < r->rule_count; i++)
		if (is_text(name, r->rule[i].name))
			return &r->rule[i];
	return NULL;
}

static void drop_rule(struct zn_rules *r, struct zn_rule *rule)
{
	memmove(rule, rule + 1, (size_t)(r->rule + --r->rule_count - rule) * sizeof(*rule));
}

/* A name of a rule; whether it is free is decided by what follows. */
static bool rule_name(struct parser *p, struct zn_str *name)
{
	*name = take_word(p, "the name of a rule");
	if (name->len >= sizeof(p->rule->name) || memchr(name->at, ':', name->len))
		return fail(p, name->at, "expected a name of at most %zu letters, digits and _",
			       sizeof(p->rule->name) - 1) != NONE;
	return name->len > 0;
}

/* The place of a new rule: that of the built-in one of its name, or behind the others. */
static struct zn_rule *place_rule(struct parser *p, struct zn_str name)
{
	struct zn_rule *there = find_rule(p->to, name);

	if (there && (uint32_t)(there - p->to->rule) >= p->mine) {
		fail(p, name.at, "a second rule named %s", there->name);
		return NULL;
	}
	if (there) {
		drop_rule(p->to, there);
		p->mine--;
	}
	if (p->to->rule_count == ZN_RULES_MAX) {
		fail(p, name.at, "more than %d rules, the built-in ones included", ZN_RULES_MAX);
		return NULL;
	}
	return &p->to->rule[p->to->rule_count++];
}

static bool read_alert(struct parser *p)
{
	struct zn_str name;

	if (!rule_name(p, &name) || !end_line(p) || !(p->rule = place_rule(p, name)))
		return false;
	*p->rule = (struct zn_rule){.limit = NAN, .severity = "warning"};
	snprintf(p->rule->name, sizeof(p->rule->name), "%.*s", (int)name.len, name.at);
	p->fields = 0;
	while (next_line(p))
		if (!parse_field(p) || !end_line(p))
			return false;
	if (!(p->fields & 1))
		return fail(p, name.at, "rule %s has no expr", p->rule->name) != NONE;
	return check_clear(p, name.at);
}

static bool read_disable(struct parser *p)
{
	struct zn_rule *there;
	struct zn_str name;

	if (!rule_name(p, &name) || !end_line(p))
		return false;
	if (is_text(name, "all")) {
		memmove(p->to->rule, p->to->rule + p->mine, (p->to->rule_count - p->mine) * sizeof(*p->rule));
		p->to->rule_count -= p->mine;
		p->mine = 0;
		return true;
	}
	there = find_rule(p->to, name);
	if (!there || (uint32_t)(there - p->to->rule) >= p->mine)
		return fail(p, name.at, "there is no built-in rule %.*s", (int)name.len, name.at) != NONE;
	drop_rule(p->to, there);
	p->mine--;
	return true;
}

static bool read_block(struct parser *p)
{
	struct zn_str word = word_here(p);

	if (is_text(word, "alert") || is_text(word, "disable")) {
		p->at += word.len;
		return *word.at == 'a' ? read_alert(p) : read_disable(p);
	}
	return fail_expected(p, "alert NAME or disable NAME at the start of a line") != NONE;
}

int zn_rules_parse(struct zn_rules *r, const char *name, struct zn_str text, const struct zn_rule_names *names,
	char why[ZN_TEXT_MAX])
{
	struct parser p = {.to = r, .names = names, .name = name, .start = text.at, .at = text.at, .why = why};
	const char *nul = memchr(text.at, '\0', text.len);

	why[0] = '\0';
	p.end = text.at + text.len;
	p.mine = r->rule_count;
	if (nul)
		fail(&p, nul, "a NUL byte; this is no text");
	while (!why[0]) {
		if (next_line(&p))
			fail_expected(&p, "alert NAME or disable NAME at the start of a line");
		else if (p.at == p.end || !read_block(&p))
			break;
	}
	return why[0] ? -EINVAL : 0;
}

int zn_rules_read(struct zn_rules *r, const char *path, const struct zn_rule_names *names, char why[ZN_TEXT_MAX])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	size_t len = 0;
	ssize_t got = fd < 0 ? -1 : 1;

	while (got > 0 && len < sizeof(r->text)) {
		got = read(fd, r->text + len, sizeof(r->text) - len);
		len += got > 0 ? (size_t)got : 0;
	}
	if (got < 0)
		snprintf(why, ZN_TEXT_MAX, "%.100s: cannot read the rules: %s", path, strerror(errno));
	else if (len == sizeof(r->text))
		snprintf(why, ZN_TEXT_MAX, "%.100s: rules of %d bytes or more", path, ZN_RULE_BYTES);
	if (fd >= 0)
		close(fd);
	if (got < 0 || len == sizeof(r->text))
		return -EINVAL;
	return zn_rules_parse(r, path, (struct zn_str){r->text, len}, names, why);
}

/* ---- Filling in. ---- */

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

	if (is_text(form, "value|bytes")) {
		fill_bytes(o, value);
	} else if (is_text(form, "value|duration")) {
		fill_duration(o, value);
	} else {
		bool percent = is_text(form, "value|percent");

		snprintf(text, sizeof(text), percent ? "%.4g %%" : "%.4g", percent ? value * 100 : value);
		zn_out_text(o, text);
	}
}

void zn_rules_fill(struct zn_out *o, struct zn_str text, double value,
	struct zn_str (*label)(const void *of, struct zn_str), const void *of)
{
	const char *from, *behind, *end;
	struct zn_str inside;

	if (!text.len) /* what is not there is NULL, and nothing may be added to that */
		return;
	end = text.at + text.len;
	for (; next_placeholder(text, &inside, &from, &behind); text = str_between(behind, end)) {
		zn_out_bytes(o, text.at, (size_t)(from - text.at));
		if (inside.len >= 5 && !memcmp(inside.at, "value", 5) && (inside.len == 5 || inside.at[5] == '|')) {
			fill_value(o, inside, value);
		} else {
			struct zn_str filled = label(of, inside);

			zn_out_bytes(o, filled.at, filled.len);
		}
	}
	zn_out_bytes(o, text.at, text.len);
}
