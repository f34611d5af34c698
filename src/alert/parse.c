/* SPDX-License-Identifier: GPL-2.0 */
/*
 * parse.c: the language of alert rules (docs/ALERTS.md), read once into a fixed program per rule, a tree of operations,
 * which eval.c runs. No allocation, and no file but in zn_rules_read().
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "zernel.h"

#define FOR_MAX_S (7 * 86400.0)

/* ---- Rules: alert NAME, and indented lines, each a field. ---- */

/* The comparison whose left side is the value of an alert. */
static uint8_t first_comparison(const struct zn_rule *r)
{
	uint8_t at = r->root;

	while (r->node[at].op >= ZN_OP_AND)
		at = r->node[at].left;
	return at;
}

static bool field_expr(struct zn_parser *p)
{
	const struct zn_rule_node *n;
	struct zn_rule *r = p->rule;
	const char *from;

	zn_lex_skip_here(p);
	from = p->at;
	if (!zn_expr_condition(p, &r->root))
		return false;
	r->expr = zn_str_between(from, p->at);
	while (r->expr.len && zn_str_is_one_of(r->expr.at[r->expr.len - 1], ZN_LEX_BLANKS "\n"))
		r->expr.len--;
	r->first = first_comparison(r);
	n = &r->node[r->first];
	r->below = n->op == ZN_OP_LT || n->op == ZN_OP_LE;
	if (zn_expr_is_number(&r->node[n->right])) {
		r->limit = r->node[n->right].number;
		r->unit = (uint8_t)r->node[n->right].by;
	}
	return true;
}

static bool clear_at(struct zn_parser *p)
{
	struct zn_rule *r = p->rule;
	const char *at;
	int n;

	zn_lex_skip_here(p);
	at = p->at;
	n = zn_expr_number(p);
	if (n == ZN_NO_NODE)
		return false;
	if (!zn_expr_is_number(&r->node[n]))
		return zn_lex_fail(p, at, "expected a number after clear at; for conditions: clear when") != ZN_NO_NODE;
	r->clear = ZN_CLEAR_AT;
	r->clear_at = r->node[n].number;
	return true;
}

static bool field_clear(struct zn_parser *p)
{
	struct zn_str word = zn_lex_word(p, "at and a value, or when and a condition");

	if (zn_str_is(word, "at"))
		return clear_at(p);
	if (!zn_str_is(word, "when")) {
		p->at = word.at;
		return zn_lex_expected(p, "at and a value, or when and a condition") != ZN_NO_NODE;
	}
	p->rule->clear = ZN_CLEAR_WHEN;
	return zn_expr_condition(p, &p->rule->clear_root);
}

static bool parse_milliseconds(struct zn_parser *p, uint64_t *to)
{
	double seconds;

	if (!zn_lex_duration(p, &seconds, FOR_MAX_S))
		return false;
	*to = (uint64_t)llround(seconds * 1000);
	return true;
}

static bool field_for(struct zn_parser *p)
{
	return parse_milliseconds(p, &p->rule->for_ms);
}

static bool field_keep(struct zn_parser *p)
{
	return parse_milliseconds(p, &p->rule->keep_ms);
}

static bool field_severity(struct zn_parser *p)
{
	struct zn_str word = zn_lex_word(p, "a word, as in warning or critical");

	if (!word.len)
		return false;
	if (word.len >= sizeof(p->rule->severity))
		return zn_lex_fail(p, word.at, "expected a word of at most %zu letters",
			       sizeof(p->rule->severity) - 1) != ZN_NO_NODE;
	snprintf(p->rule->severity, sizeof(p->rule->severity), "%.*s", (int)word.len, word.at);
	return true;
}

/* The rest of the line, whatever it holds. */
static bool parse_rest(struct zn_parser *p, struct zn_str *to)
{
	struct zn_str inside, text;
	const char *from, *behind, *end;

	while (p->at < p->end && zn_str_is_one_of(*p->at, ZN_LEX_BLANKS))
		p->at++;
	end = memchr(p->at, '\n', (size_t)(p->end - p->at));
	text = zn_str_between(p->at, end ? end : p->end);
	while (text.len && zn_str_is_one_of(text.at[text.len - 1], ZN_LEX_BLANKS))
		text.len--;
	if (!text.len)
		return zn_lex_expected(p, "a text") != ZN_NO_NODE;
	p->at = text.at + text.len;
	for (*to = text; zn_fill_next(text, &inside, &from, &behind); text = zn_str_between(behind, to->at + to->len))
		if (!zn_fill_is_known(inside))
			return zn_lex_fail(p, from,
				       "expected {{label}}, {{value}}, {{value|percent}}, {{value|bytes}} or {{value|duration}}") !=
				ZN_NO_NODE;
	return inside.at || zn_lex_fail(p, from, "a {{ that is not closed on this line") != ZN_NO_NODE;
}

static bool field_summary(struct zn_parser *p)
{
	return parse_rest(p, &p->rule->summary);
}

static bool field_description(struct zn_parser *p)
{
	return parse_rest(p, &p->rule->description);
}

static bool field_runbook(struct zn_parser *p)
{
	return parse_rest(p, &p->rule->runbook);
}

static const struct {
	const char *name;
	bool (*read)(struct zn_parser *p);
} fields[] = {{"expr", field_expr}, {"clear", field_clear}, {"for", field_for}, {"keep_firing_for", field_keep},
	{"severity", field_severity}, {"summary", field_summary}, {"description", field_description},
	{"runbook_url", field_runbook}};
#define FIELDS "expr, clear, for, keep_firing_for, severity, summary, description or runbook_url"

static bool parse_field(struct zn_parser *p)
{
	struct zn_str word = zn_lex_word_here(p);

	for (size_t i = 0; i < ZN_LEN(fields); i++) {
		if (!zn_str_is(word, fields[i].name))
			continue;
		if (p->fields >> i & 1)
			return zn_lex_fail(p, p->at, "%s twice in one rule", fields[i].name) != ZN_NO_NODE;
		p->fields |= 1u << i;
		p->at += word.len;
		return fields[i].read(p);
	}
	return zn_lex_expected(p, FIELDS) != ZN_NO_NODE;
}

/* After something that ends with its line. */
static bool end_line(struct zn_parser *p)
{
	zn_lex_skip(p, false);
	if (p->at < p->end && *p->at != '\n')
		return zn_lex_expected(p, "the end of the line") != ZN_NO_NODE;
	return true;
}

/* Goes to the first word of the next line that has one. True: it is indented. */
static bool next_line(struct zn_parser *p)
{
	const char *line = p->at;

	zn_lex_skip(p, true);
	for (const char *c = line; c < p->at; c++)
		if (*c == '\n')
			line = c + 1;
	return p->at < p->end && p->at > line && (line > p->start || zn_str_is_one_of(*line, ZN_LEX_BLANKS));
}

static bool check_clear(struct zn_parser *p, const char *at)
{
	const struct zn_rule *r = p->rule;
	const struct zn_rule_node *n = &r->node[r->first];

	if (r->clear != ZN_CLEAR_AT)
		return true;
	for (const struct zn_rule_node *up = &r->node[r->root]; up != n; up = &r->node[up->left])
		if (up->op == ZN_OP_OR)
			return zn_lex_fail(p, at, "clear at says nothing about an expr with or; say clear when") !=
				ZN_NO_NODE;
	if (isnan(r->limit) || n->op == ZN_OP_EQ || n->op == ZN_OP_NE)
		return zn_lex_fail(p, at, "clear at needs an expr that begins with x > NUMBER or x < NUMBER") !=
			ZN_NO_NODE;
	if (r->below ? r->clear_at < r->limit : r->clear_at > r->limit)
		return zn_lex_fail(p, at, "clear at %g is on the wrong side of the limit, %g", r->clear_at, r->limit) !=
			ZN_NO_NODE;
	return true;
}

static struct zn_rule *find_rule(struct zn_rules *r, struct zn_str name)
{
	for (uint32_t i = 0; i < r->rule_count; i++)
		if (zn_str_is(name, r->rule[i].name))
			return &r->rule[i];
	return NULL;
}

static void drop_rule(struct zn_rules *r, struct zn_rule *rule)
{
	memmove(rule, rule + 1, (size_t)(r->rule + --r->rule_count - rule) * sizeof(*rule));
}

/* A name of a rule; whether it is free is decided by what follows. */
static bool rule_name(struct zn_parser *p, struct zn_str *name)
{
	*name = zn_lex_word(p, "the name of a rule");
	if (name->len >= sizeof(p->rule->name) || memchr(name->at, ':', name->len))
		return zn_lex_fail(p, name->at, "expected a name of at most %zu letters, digits and _",
			       sizeof(p->rule->name) - 1) != ZN_NO_NODE;
	return name->len > 0;
}

/* The place of a new rule: that of the built-in one of its name, or behind the others. */
static struct zn_rule *place_rule(struct zn_parser *p, struct zn_str name)
{
	struct zn_rule *there = find_rule(p->to, name);

	if (there && (uint32_t)(there - p->to->rule) >= p->mine) {
		zn_lex_fail(p, name.at, "a second rule named %s", there->name);
		return NULL;
	}
	if (there) {
		drop_rule(p->to, there);
		p->mine--;
	}
	if (p->to->rule_count == ZN_RULES_MAX) {
		zn_lex_fail(p, name.at, "more than %d rules, the built-in ones included", ZN_RULES_MAX);
		return NULL;
	}
	return &p->to->rule[p->to->rule_count++];
}

static bool read_alert(struct zn_parser *p)
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
		return zn_lex_fail(p, name.at, "rule %s has no expr", p->rule->name) != ZN_NO_NODE;
	return check_clear(p, name.at);
}

static bool read_disable(struct zn_parser *p)
{
	struct zn_rule *there;
	struct zn_str name;

	if (!rule_name(p, &name) || !end_line(p))
		return false;
	if (zn_str_is(name, "all")) {
		memmove(p->to->rule, p->to->rule + p->mine, (p->to->rule_count - p->mine) * sizeof(*p->rule));
		p->to->rule_count -= p->mine;
		p->mine = 0;
		return true;
	}
	there = find_rule(p->to, name);
	if (!there || (uint32_t)(there - p->to->rule) >= p->mine)
		return zn_lex_fail(p, name.at, "there is no built-in rule %.*s", (int)name.len, name.at) != ZN_NO_NODE;
	drop_rule(p->to, there);
	p->mine--;
	return true;
}

static bool read_block(struct zn_parser *p)
{
	struct zn_str word = zn_lex_word_here(p);

	if (zn_str_is(word, "alert") || zn_str_is(word, "disable")) {
		p->at += word.len;
		return *word.at == 'a' ? read_alert(p) : read_disable(p);
	}
	return zn_lex_expected(p, "alert NAME or disable NAME at the start of a line") != ZN_NO_NODE;
}

int zn_rules_parse(struct zn_rules *r, const char *name, struct zn_str text, const struct zn_rule_names *names,
	char why[ZN_TEXT_MAX])
{
	struct zn_parser p = {.to = r, .names = names, .name = name, .start = text.at, .at = text.at, .why = why};
	const char *nul = memchr(text.at, '\0', text.len);

	why[0] = '\0';
	p.end = text.at + text.len;
	p.mine = r->rule_count;
	if (nul)
		zn_lex_fail(&p, nul, "a NUL byte; this is no text");
	while (!why[0]) {
		if (next_line(&p))
			zn_lex_expected(&p, "alert NAME or disable NAME at the start of a line");
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
