/* SPDX-License-Identifier: GPL-2.0 */
/*
 * notify.c: messages on alerts, for Alertmanagers and the webhook. A message holds all that is: what fires, and what
 * was resolved and not everybody has taken yet. So one that was not taken is made up for by the next, and of several
 * that wait only the newest counts. What a receiver knows of a node that falls silent ends by itself: an Alertmanager
 * is told that an alert ends after three repeats, and a later message puts that off. The webhook's receiver is told
 * once, some minutes after the start, that what fires is all there is: an earlier daemon may have told it of more.
 */
#include "zernel.h"

#define REPEATS   3                   /* that an Alertmanager may miss */
#define KEEP_NS   (900 * ZN_NS_PER_S) /* what was resolved and nobody takes: longer than anybody remembers it */
#define SETTLE_NS (300 * ZN_NS_PER_S) /* after a start: the longest that built-in rules look back */
#define FOR_MS    (900 * 1000)        /* of a rule: no longer is waited for it to fire */
#define FORM      1                   /* of the webhook's messages; counts up when a reader would have to change */
#define ENDING    "],\"complete\":false}"
#define DAYS_ERA  146097 /* of 400 years */
#define TO_YEAR_0 719468 /* days from 0000-03-01 to 1970-01-01 */
#define DAY_MS    86400000

/* RFC 3339 in UTC. By hand: gmtime_r() of glibc reads files and allocates. The calendar is that of years that begin in
 * March, so that a leap day is the last one. */
static const char *put_date(char to[32], uint64_t ms)
{
	uint64_t days = ms / DAY_MS + TO_YEAR_0, s = ms / 1000 % 86400;
	unsigned day = (unsigned)(days % DAYS_ERA);
	unsigned year = (day - day / 1460 + day / 36524 - day / (DAYS_ERA - 1)) / 365;
	unsigned in_year = day - (365 * year + year / 4 - year / 100), month = (5 * in_year + 2) / 153;
	unsigned long long full = days / DAYS_ERA * 400 + year + (month >= 10);

	snprintf(to, 32, "%04llu-%02u-%02uT%02u:%02u:%02u.%03uZ", full % 10000, month < 10 ? month + 3 : month - 9,
		in_year - (153 * month + 2) / 5 + 1, (unsigned)(s / 3600), (unsigned)(s / 60 % 60), (unsigned)(s % 60),
		(unsigned)(ms % 1000));
	return to;
}

/* ---- alerts that were notified ---- */

/* Names and values in turn, each with its NUL. A pair that does not fit is left out. */
static void put_pair(struct zn_pairs *p, struct zn_str name, struct zn_str value)
{
	if (!value.len || name.len + value.len + 2 > sizeof(p->text) - p->len)
		return;
	memcpy(p->text + p->len, name.at, name.len);
	p->text[p->len + name.len] = '\0';
	p->len += name.len + 1;
	memcpy(p->text + p->len, value.at, value.len);
	p->text[p->len + value.len] = '\0';
	p->len += value.len + 1;
}

/* The value; NULL: there is no such name. */
static const char *get_value(const struct zn_pairs *p, const char *wanted)
{
	for (size_t at = 0; at < p->len;) {
		const char *name = p->text + at, *value = name + strlen(name) + 1;

		if (!strcmp(name, wanted))
			return value;
		at = (size_t)(value - p->text) + strlen(value) + 1;
	}
	return NULL;
}

/* A label of an instance with the name of one of the alert's own is called label_<name>, as in the snapshot. */
static void put_label(struct zn_pairs *to, const struct zn_label *l)
{
	char name[80];

	snprintf(name, sizeof(name), "%s%.64s", get_value(to, l->name.at) ? "label_" : "", l->name.at);
	put_pair(to, zn_str_of(name), l->value);
}

static void fill_labels(struct zn_pairs *to, const struct zn_alert *a)
{
	struct zn_label label[ZN_LABELS_MAX];
	size_t count = zn_alert_labels(a, label);

	to->len = 0;
	for (size_t i = 0; i < count; i++)
		put_label(to, &label[i]);
}

#define TEXT_LEAST 16 /* what is shorter would say nothing */

/* What it is cut off for lack of room ends in "...". */
static void put_annotation(struct zn_pairs *to, const struct zn_alert *a, const char *name)
{
	char text[ZN_PAIRS_BYTES];
	size_t taken = to->len + strlen(name) + 2;
	struct zn_out o = {.at = text, .cap = sizeof(text) - taken};

	if (taken + TEXT_LEAST > sizeof(text))
		return;
	zn_alert_annotation(&o, a, name);
	put_pair(to, zn_str_of(name), (struct zn_str){text, o.len});
}

/* The longest is the last one. */
static void fill_notified(struct zn_notified *t, const struct zn_alert *a)
{
	static const char *const names[] = {"summary", "runbook_url", "description"};

	fill_labels(&t->labels, a);
	t->annotations.len = 0;
	for (size_t i = 0; i < ZN_LEN(names); i++)
		put_annotation(&t->annotations, a, names[i]);
	t->value = a->value;
}

static void take_out(struct zn_notify *n, uint32_t i)
{
	n->notified[i] = n->notified[--n->count];
}

/* The alert that was resolved longest ago makes room. */
static bool make_room(struct zn_notify *n)
{
	uint32_t oldest = n->count;

	for (uint32_t i = 0; i < n->count; i++)
		if (n->notified[i].ends_ns &&
			(oldest == n->count || n->notified[i].ends_ns < n->notified[oldest].ends_ns))
			oldest = i;
	n->lost++;
	if (oldest == n->count)
		return false;
	take_out(n, oldest);
	return true;
}

static void mark_dirty(struct zn_notify *n)
{
	for (enum zn_outbound to = 0; to < ZN_TO_COUNT; to++)
		n->due[to] = true;
}

static bool has_labels(const struct zn_notified *t, const struct zn_alert *a)
{
	struct zn_pairs now;

	fill_labels(&now, a);
	return now.len == t->labels.len && !memcmp(now.text, t->labels.text, now.len);
}

/* Receivers know an alert by its labels. One that has others now, as its rule has another severity, has ended for
 * them, and another one fires. */
static void note_alert(struct zn_notify *n, const struct zn_alert *a)
{
	struct zn_notified *t;

	for (uint32_t i = 0; i < n->count; i++)
		if (!n->notified[i].ends_ns && n->notified[i].id == a->id && has_labels(&n->notified[i], a)) {
			n->notified[i].seen = true;
			fill_notified(&n->notified[i], a);
			return;
		}
	if (n->count == ZN_NOTIFIED_MAX && !make_room(n))
		return;
	t = &n->notified[n->count++];
	t->id = a->id;
	t->starts_ns = a->since_ns;
	t->since_ms = zn_state_wall_ms(n->state, a->since_ns);
	t->ends_ns = 0;
	memset(t->number, 0, sizeof(t->number));
	t->seen = true;
	fill_notified(t, a);
	mark_dirty(n);
}

/* What fires now, and what does no longer. */
static void compare_alerts(struct zn_notify *n, uint64_t now_ns)
{
	const struct zn_alerts *alerts = n->state->alerts;

	for (uint32_t i = 0; i < n->count; i++)
		n->notified[i].seen = false;
	for (uint32_t i = 0; i < alerts->count; i++)
		if (alerts->alert[i].state == ZN_FIRING)
			note_alert(n, &alerts->alert[i]);
	for (uint32_t i = 0; i < n->count; i++)
		if (!n->notified[i].seen && !n->notified[i].ends_ns) {
			n->notified[i].ends_ns = now_ns;
			mark_dirty(n);
		}
}

/* Whether all destinations know that it was resolved. */
static bool is_known(const struct zn_notify *n, const struct zn_notified *t)
{
	for (enum zn_outbound to = 0; to < ZN_TO_OTLP; to++)
		if (n->sender->destinations[to] && (!t->number[to] || n->sender->sum[to].settled < t->number[to]))
			return false;
	return true;
}

static void forget_resolved(struct zn_notify *n, uint64_t now_ns)
{
	for (uint32_t i = n->count; i-- > 0;) {
		const struct zn_notified *t = &n->notified[i];
		bool known = is_known(n, t), old = now_ns > t->ends_ns + KEEP_NS;

		if (!t->ends_ns || !(known || old))
			continue;
		n->lost += !known;
		take_out(n, i);
		n->changed = true; /* there is room for one that found none */
	}
}

/* ---- messages ---- */

static void put_members(struct zn_json *j, const struct zn_pairs *p)
{
	for (size_t at = 0; at < p->len;) {
		const char *name = p->text + at, *value = name + strlen(name) + 1;

		zn_json_key_text(j, name, value);
		at = (size_t)(value - p->text) + strlen(value) + 1;
	}
}

static void put_own(struct zn_json *j, const struct zn_notified *t, const char *name, const char *value)
{
	if (!get_value(&t->labels, name))
		zn_json_key_text(j, name, value);
}

/* What is made up must not pass for a node's. */
static void put_labels(const struct zn_notify *n, struct zn_json *j, const struct zn_notified *t)
{
	zn_json_key_open(j, "labels", '{');
	put_members(j, &t->labels);
	put_own(j, t, "node", n->state->node);
	if (n->state->options->simulate)
		put_own(j, t, "source", "simulated");
	zn_json_close(j, '}');
	zn_json_key_open(j, "annotations", '{');
	put_members(j, &t->annotations);
	zn_json_close(j, '}');
}

/* How long an alert fires on where nothing more is heard of it. A message goes at a tick. */
static uint64_t lasts_ns(const struct zn_options *o)
{
	uint64_t ms = o->notify_repeat_ms > o->push_interval_ms ? o->notify_repeat_ms : o->push_interval_ms;

	return REPEATS * ms * ZN_NS_PER_MS;
}

static void put_for_alertmanager(const struct zn_notify *n, struct zn_json *j, const struct zn_notified *t)
{
	uint64_t ends_ns = t->ends_ns ? t->ends_ns : n->now_ns + lasts_ns(n->state->options);
	char text[128];

	zn_json_open(j, '{');
	put_labels(n, j, t);
	zn_json_key_text(j, "startsAt", put_date(text, zn_state_wall_ms(n->state, t->starts_ns)));
	zn_json_key_text(j, "endsAt", put_date(text, zn_state_wall_ms(n->state, ends_ns)));
	if (n->port) {
		snprintf(text, sizeof(text), "http://%s:%u/", n->state->node, n->port);
		zn_json_key_text(j, "generatorURL", text);
	}
	zn_json_close(j, '}');
}

static void put_for_webhook(const struct zn_notify *n, struct zn_json *j, const struct zn_notified *t)
{
	zn_json_open(j, '{');
	zn_json_key_text(j, "status", t->ends_ns ? "resolved" : "firing");
	zn_json_key_text(j, "name", get_value(&t->labels, "alertname"));
	zn_json_key_text(j, "severity", get_value(&t->labels, "severity"));
	put_labels(n, j, t);
	zn_json_key(j, "value");
	zn_json_double(j, t->value);
	zn_json_key_u64(j, "since_ms", t->since_ms);
	if (t->ends_ns)
		zn_json_key_u64(j, "ends_ms", zn_state_wall_ms(n->state, t->ends_ns));
	else
		zn_json_key_null(j, "ends_ms");
	zn_json_close(j, '}');
}

/* Whether a message to there has to name it: what was resolved, as long as not all there have heard of it. */
static bool is_wanted(const struct zn_notify *n, const struct zn_notified *t, enum zn_outbound to)
{
	return !t->ends_ns || !t->number[to] || n->sender->sum[to].settled < t->number[to];
}

/* What an earlier message had of the i-th and those after it was not taken yet, and never is once this one is in its
 * place. */
static void forget_numbers(struct zn_notify *n, uint32_t i, enum zn_outbound to)
{
	for (; i < n->count; i++)
		if (n->notified[i].number[to] > n->sender->sum[to].settled)
			n->notified[i].number[to] = 0;
}

/* As many as there is room for. False: not all are in it. */
static bool put_all(struct zn_notify *n, struct zn_json *j, enum zn_outbound to, bool resolved)
{
	for (uint32_t i = 0; i < n->count; i++) {
		struct zn_notified *t = &n->notified[i];
		struct zn_json_mark mark = zn_json_mark(j);

		if (!t->ends_ns == resolved || !is_wanted(n, t, to))
			continue;
		if (to == ZN_TO_WEBHOOK)
			put_for_webhook(n, j, t);
		else
			put_for_alertmanager(n, j, t);
		if (j->out->full) {
			zn_json_back(j, &mark);
			if (resolved)
				forget_numbers(n, i, to);
			return false;
		}
		if (resolved && !t->number[to])
			t->number[to] = n->sender->number[to] + 1;
	}
	return true;
}

/* The bytes that those take which fire, and the comma before them: no more than there is room for. */
static size_t measure_firing(struct zn_notify *n, struct zn_json *j, enum zn_outbound to)
{
	const struct zn_json_mark mark = zn_json_mark(j);
	size_t room = j->out->cap - j->out->len, bytes;

	put_all(n, j, to, false);
	bytes = j->out->len - mark.out.len + 1;
	zn_json_back(j, &mark);
	return bytes < room ? bytes : room;
}

/* Resolved ones come first, as one may fire again under the same labels, and get the room that those which fire leave.
 * A resolved one that is left out comes once this message has been taken. False: not even all that fire are in it. */
static bool put_alerts(struct zn_notify *n, struct zn_json *j, enum zn_outbound to)
{
	size_t firing = measure_firing(n, j, to), empty = j->out->len;

	zn_json_reserve(j, firing);
	n->more[to] = !put_all(n, j, to, true) && j->out->len > empty;
	zn_json_release(j, firing);
	return put_all(n, j, to, false);
}

static void render_message(struct zn_notify *n, struct zn_out *o, enum zn_outbound to)
{
	struct zn_json j;
	bool whole;

	zn_json_begin(&j, o);
	if (to == ZN_TO_WEBHOOK) {
		zn_json_open(&j, '{');
		zn_json_key_u64(&j, "version", FORM);
		zn_json_key_text(&j, "node", n->state->node);
		zn_json_key_text(&j, "source", n->state->options->simulate ? "simulated" : "live");
		zn_json_key(&j, "alerts");
	}
	zn_json_open(&j, '[');
	zn_json_reserve(&j, sizeof(ENDING));
	whole = put_alerts(n, &j, to);
	zn_json_release(&j, sizeof(ENDING));
	zn_json_close(&j, ']');
	if (to == ZN_TO_WEBHOOK) {
		zn_json_key(&j, "complete");
		zn_json_bool(&j, n->complete && whole);
		zn_json_close(&j, '}');
	}
	n->lost += !whole;
}

/* A message that cannot be handed over is tried again at the next tick. */
static void send_to(struct zn_notify *n, enum zn_outbound to)
{
	struct zn_out o = {.at = n->text, .cap = sizeof(n->text)};
	uint64_t next = n->sender->number[to] + 1;

	render_message(n, &o, to);
	n->due[to] = !zn_sender_send(n->sender, to, (struct zn_str){n->text, o.len});
	for (uint32_t i = 0; i < n->count && n->due[to]; i++)
		if (n->notified[i].number[to] == next)
			n->notified[i].number[to] = 0;
}

/* How long after its start a daemon fires whatever an earlier one would. */
static uint64_t settling_ns(const struct zn_rules *r)
{
	uint64_t longest_ms = 0;

	for (uint32_t i = 0; i < r->rule_count; i++)
		if (r->rule[i].for_ms > longest_ms)
			longest_ms = r->rule[i].for_ms;
	return SETTLE_NS + (longest_ms < FOR_MS ? longest_ms : FOR_MS) * ZN_NS_PER_MS;
}

static void note_complete(struct zn_notify *n, uint64_t now_ns)
{
	if (n->complete || now_ns - n->state->start_ns < settling_ns(n->state->alerts->rules))
		return;
	n->complete = n->due[ZN_TO_WEBHOOK] = true;
}

/* Whether there is anything to say: an Alertmanager's repeat would have nothing but ends that it knows. Of the webhook
 * an empty list says that nothing fires. */
static bool has_news(const struct zn_notify *n, enum zn_outbound to)
{
	if (to == ZN_TO_WEBHOOK)
		return true;
	for (uint32_t i = 0; i < n->count; i++)
		if (is_wanted(n, &n->notified[i], to))
			return true;
	return false;
}

static void send_due(struct zn_notify *n, enum zn_outbound to)
{
	n->due[to] |= n->more[to] && n->sender->sum[to].settled == n->sender->number[to];
	if (n->due[to] && n->sender->destinations[to] && has_news(n, to))
		send_to(n, to);
}

void zn_notify_init(struct zn_notify *n, const struct zn_state *state, struct zn_sender *sender, uint16_t port)
{
	memset(n, 0, offsetof(struct zn_notify, notified)); /* memory that nobody needs is not touched */
	n->state = state;
	n->sender = sender;
	n->port = port;
}

void zn_notify_changed(void *notify, const struct zn_alert *alert)
{
	(void)alert;
	((struct zn_notify *)notify)->changed = true;
}

void zn_notify_tick(struct zn_notify *n, uint64_t now_ns)
{
	bool wanted = n->sender->destinations[ZN_TO_ALERTMANAGER] || n->sender->destinations[ZN_TO_WEBHOOK];

	if (!wanted || n->sender->worker.fd < 0)
		return;
	n->now_ns = now_ns;
	note_complete(n, now_ns);
	forget_resolved(n, now_ns);
	if (now_ns - n->sent_ns >= n->state->options->notify_repeat_ms * ZN_NS_PER_MS) {
		n->due[ZN_TO_ALERTMANAGER] = n->changed = true; /* the repeat has the values of now */
		n->sent_ns = now_ns;
	}
	if (n->changed)
		compare_alerts(n, now_ns);
	n->changed = false;
	for (enum zn_outbound to = 0; to < ZN_TO_OTLP; to++)
		send_due(n, to);
}
