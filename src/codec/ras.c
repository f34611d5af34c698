/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ras.c: what the RAS service of NCCL answers to "VERBOSE STATUS", as it comes in: of each communicator, the ranks
 * that do not answer, have left, or have issued fewer collectives than the one farthest ahead. It comes from a user's
 * process, so any bytes may come; what is kept is of a fixed size.
 *
 * JSON (NCCL 2.28.7 and later) is read by its keys alone: commas, brackets and the banner that some versions print
 * before it say nothing, so that none of them can be wrong. The text of older versions has no ranks but the few that
 * stand out, in sentences; a line that is none of those is passed over.
 */
#include <strings.h>

#include "zernel.h"

#define NO_RANK ZN_UNKNOWN

/* ---- Communicators. ---- */

static bool is_wanted(const struct zn_ras_wanted *w, const struct zn_ras_rank *r)
{
	bool pid = false;

	for (uint32_t i = 0; i < w->pid_count && i < ZN_RAS_PIDS; i++)
		pid |= w->pid[i] == r->pid;
	for (uint32_t i = 0; pid && i < w->host_count && i < ZN_RAS_HOSTS; i++)
		if (!strncmp(w->host[i], r->host, ZN_RAS_HOST))
			return true;
	return false;
}

/* Which of two ranks is shown first. */
static bool comes_before(const struct zn_ras_rank *a, const struct zn_ras_rank *b)
{
	if (a->state != b->state)
		return a->state < b->state;
	return a->issued < b->issued;
}

/* Keeps the list sorted; the last one of a full list falls out. */
static void insert_rank(struct zn_ras_comm *c, const struct zn_ras_rank *r)
{
	uint32_t at = c->count;

	if (c->count == ZN_RAS_RANKS && !comes_before(r, &c->rank[ZN_RAS_RANKS - 1]))
		return;
	if (c->count < ZN_RAS_RANKS)
		c->count++;
	else
		at--;
	for (; at && comes_before(r, &c->rank[at - 1]); at--)
		c->rank[at] = c->rank[at - 1];
	c->rank[at] = *r;
}

/* Notes that so many ranks have issued so many collectives. */
static void note_count(struct zn_ras_parse *p, uint64_t issued, uint32_t ranks)
{
	struct zn_ras_comm *c = &p->comm;

	if (issued > c->most || !c->heard) {
		c->most = issued;
		p->at_most = 0;
	}
	if (issued < p->least || !c->heard) {
		p->least = issued;
		p->at_least = 0;
	}
	p->at_most += issued == c->most ? ranks : 0;
	p->at_least += issued == p->least ? ranks : 0;
	c->heard += ranks;
}

/* The communicator of that hash among those that are kept: the text has some in several places. NULL: there is no
 * room. */
static struct zn_ras_comm *kept_comm(struct zn_ras_parse *p, uint64_t hash)
{
	struct zn_ras_answer *a = &p->answer;

	for (uint32_t i = 0; a->text && i < a->count; i++)
		if (a->comm[i].hash == hash)
			return &a->comm[i];
	if (a->count == ZN_RAS_COMMS)
		return NULL;
	a->comm[a->count] = (struct zn_ras_comm){.hash = hash};
	return &a->comm[a->count++];
}

static void merge_comm(struct zn_ras_comm *to, const struct zn_ras_comm *from)
{
	to->size = from->size > to->size ? from->size : to->size;
	to->heard = from->heard > to->heard ? from->heard : to->heard;
	to->most = from->most > to->most ? from->most : to->most;
	to->fewest = from->fewest > to->fewest ? from->fewest : to->fewest;
	to->odd = from->odd > to->odd ? from->odd : to->odd;
	for (uint32_t i = 0; i < from->count; i++)
		insert_rank(to, &from->rank[i]);
}

/* A rank that has issued as many collectives as any other is not odd. */
static void drop_even_ranks(struct zn_ras_comm *c)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < c->count; i++) {
		struct zn_ras_rank *r = &c->rank[i];

		if (r->state == ZN_RAS_BEHIND && r->issued >= c->most)
			continue;
		r->fewer = r->state == ZN_RAS_BEHIND ? c->most - r->issued : 0;
		c->rank[kept++] = *r;
	}
	c->count = kept;
}

/* The text of this communicator has ended. A communicator of another job is only counted. */
static void end_comm(struct zn_ras_parse *p)
{
	struct zn_ras_comm *c = &p->comm, *to;

	if (!p->in_comm)
		return;
	p->in_comm = false;
	if (p->answer.text && !c->heard && !c->count) /* a heading */
		return;
	if (!p->ours) {
		p->answer.foreign++;
		return;
	}
	c->odd = p->absent + (c->heard > p->at_most ? c->heard - p->at_most : 0);
	c->fewest = c->most > p->least ? p->at_least : 0;
	drop_even_ranks(c);
	to = kept_comm(p, c->hash);
	if (to)
		merge_comm(to, c);
	else
		p->answer.lost++;
}

static void begin_comm(struct zn_ras_parse *p, uint64_t hash)
{
	end_comm(p);
	p->comm = (struct zn_ras_comm){.hash = hash};
	p->in_comm = true;
	p->ours = p->answer.text && p->want->alone;
	p->absent = 0;
	p->at_most = p->at_least = 0;
	p->least = 0;
}

/* ---- Ranks. ---- */

/* The text may be any bytes. A byte that no host name has is shown as a question mark. */
static void set_host(struct zn_ras_rank *r, const char *text, size_t len)
{
	static const char set[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.:-_";
	size_t n = len < ZN_RAS_HOST - 1 ? len : ZN_RAS_HOST - 1;

	memset(r->host, 0, sizeof(r->host));
	for (size_t i = 0; i < n; i++)
		r->host[i] = zn_str_is_one_of(text[i], set) ? text[i] : '?';
}

static void add_rank(struct zn_ras_parse *p, const struct zn_ras_rank *r)
{
	if (!p->in_comm)
		return;
	p->ours |= is_wanted(p->want, r);
	insert_rank(&p->comm, r);
}

/* ---- JSON: a key and what follows it. ---- */

enum key {
	KEY_OTHER,
	KEY_COMMUNICATORS,
	KEY_HASH,
	KEY_SIZE,
	KEY_MISSING_RANKS,
	KEY_RANK,
	KEY_HOST,
	KEY_PID,
	KEY_UNRESPONSIVE,
	KEY_DEAD,
	KEY_COUNTS,
	KEY_RAS,
};

static const struct {
	const char *name;
	enum key key;
} keys[] = {
	{"communicators", KEY_COMMUNICATORS},
	{"hash", KEY_HASH},
	{"size", KEY_SIZE},
	{"missing_ranks", KEY_MISSING_RANKS},
	{"rank", KEY_RANK},
	{"host", KEY_HOST},
	{"pid", KEY_PID},
	{"unresponsive", KEY_UNRESPONSIVE},
	{"considered_dead", KEY_DEAD},
	{"collective_counts", KEY_COUNTS},
	{"ras", KEY_RAS},
};

static void end_rank(struct zn_ras_parse *p)
{
	struct zn_ras_rank *r = &p->rank;

	p->in_counts = false;
	if (!p->in_rank)
		return;
	p->in_rank = false;
	if (p->in_missing) {
		p->absent++;
		r->state = p->dead ? ZN_RAS_DEAD : p->unresponsive ? ZN_RAS_SILENT : ZN_RAS_LEFT;
	} else if (p->counted) {
		note_count(p, r->issued, 1);
	}
	if (p->in_missing || p->counted)
		add_rank(p, r);
	else
		p->ours |= is_wanted(p->want, r);
}

static void begin_rank(struct zn_ras_parse *p, uint64_t number)
{
	end_rank(p);
	p->rank = (struct zn_ras_rank){.rank = number < NO_RANK ? (uint32_t)number : NO_RANK, .state = ZN_RAS_BEHIND};
	p->in_rank = true;
	p->counted = p->dead = p->unresponsive = false;
}

static void take_key(struct zn_ras_parse *p)
{
	p->key = KEY_OTHER;
	for (size_t i = 0; i < ZN_LEN(keys); i++)
		if (strlen(keys[i].name) == p->len && !memcmp(keys[i].name, p->text, p->len))
			p->key = keys[i].key;
	switch (p->key) {
	case KEY_COMMUNICATORS: p->answer.understood = true; break;
	case KEY_MISSING_RANKS:
		end_rank(p);
		drop_even_ranks(&p->comm); /* makes room */
		p->in_missing = true;
		break;
	case KEY_RAS:
		end_rank(p);
		end_comm(p);
		p->answer.whole = p->answer.understood;
		break;
	case KEY_COUNTS:
		p->in_counts = p->in_rank;
		p->counted = p->in_rank;
		break;
	default: break;
	}
}

static void take_number(struct zn_ras_parse *p)
{
	uint64_t n = p->negative ? ZN_UNKNOWN : p->number;

	if (p->in_counts) {
		if (__builtin_add_overflow(p->rank.issued, p->negative ? 0 : p->number, &p->rank.issued))
			p->rank.issued = UINT64_MAX;
		return;
	}
	if (p->key == KEY_SIZE && p->in_comm && !p->in_rank)
		p->comm.size = n < ZN_UNKNOWN ? (uint32_t)n : 0;
	else if (p->key == KEY_RANK && p->in_comm)
		begin_rank(p, n);
	else if (p->key == KEY_PID && p->in_rank)
		p->rank.pid = n < ZN_UNKNOWN ? (uint32_t)n : 0;
	p->key = KEY_OTHER;
}

/* "0x1a2b": what is no digit ends it. */
static uint64_t read_hex(const char *text, size_t len)
{
	size_t at = len > 2 && text[0] == '0' && (text[1] | 0x20) == 'x' ? 2 : 0;
	uint64_t n = 0;
	int digit;

	for (; at < len && (digit = zn_str_hex_digit(text[at])) >= 0; at++)
		n = n << 4 | (uint64_t)digit;
	return n;
}

static void take_string(struct zn_ras_parse *p)
{
	if (p->key == KEY_HASH && p->answer.understood) {
		end_rank(p);
		begin_comm(p, read_hex(p->text, p->len));
		p->answer.comms++;
		p->in_missing = false;
	} else if (p->key == KEY_HOST && p->in_rank) {
		set_host(&p->rank, p->text, p->len);
	}
	p->key = KEY_OTHER;
}

static void take_word(struct zn_ras_parse *p)
{
	bool is_true = p->len == 4 && !memcmp(p->text, "true", 4);

	if (p->key == KEY_DEAD)
		p->dead = is_true;
	else if (p->key == KEY_UNRESPONSIVE)
		p->unresponsive = is_true;
	p->key = KEY_OTHER;
}

/* ---- JSON: bytes. ---- */

static void keep_byte(struct zn_ras_parse *p, char c)
{
	if (p->len < sizeof(p->text))
		p->text[p->len++] = c;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static void begin_token(struct zn_ras_parse *p, char c)
{
	p->len = 0;
	p->number = 0;
	p->negative = c == '-';
	if (c == '"') {
		p->token = ZN_RAS_STRING;
	} else if (is_digit(c) || c == '-') {
		p->token = ZN_RAS_NUMBER;
		p->number = is_digit(c) ? (uint64_t)(c - '0') : 0;
	} else if (is_letter(c)) {
		p->token = ZN_RAS_WORD;
		keep_byte(p, c);
	}
}

/* A string is a key if a colon follows, else a value: that is known at the next byte that is no blank. */
static void end_string(struct zn_ras_parse *p, char next)
{
	p->token = ZN_RAS_NOTHING;
	if (next == ':')
		take_key(p);
	else
		take_string(p);
}

static void take_string_byte(struct zn_ras_parse *p, char c)
{
	if (p->escaped) {
		p->escaped = false;
		keep_byte(p, '\\');
	} else if (c == '\\') {
		p->escaped = true;
	} else if (c == '"') {
		p->token = ZN_RAS_STRING_OVER;
	} else {
		keep_byte(p, c);
	}
}

/* True: the byte belongs to the number. Digits after a point are not counted. */
static bool take_number_byte(struct zn_ras_parse *p, char c)
{
	if (c == '.')
		p->fraction = true;
	else if (!is_digit(c))
		return false;
	else if (!p->fraction &&
		(__builtin_mul_overflow(p->number, 10, &p->number) ||
			__builtin_add_overflow(p->number, (uint64_t)(c - '0'), &p->number)))
		p->number = UINT64_MAX;
	return true;
}

static void take_json_byte(struct zn_ras_parse *p, char c)
{
	switch (p->token) {
	case ZN_RAS_STRING: take_string_byte(p, c); return;
	case ZN_RAS_STRING_OVER:
		if (zn_str_is_one_of(c, " \t\r\n"))
			return;
		end_string(p, c);
		break;
	case ZN_RAS_NUMBER:
		if (take_number_byte(p, c))
			return;
		p->token = ZN_RAS_NOTHING;
		p->fraction = false;
		take_number(p);
		break;
	case ZN_RAS_WORD:
		if (is_letter(c)) {
			keep_byte(p, c);
			return;
		}
		p->token = ZN_RAS_NOTHING;
		take_word(p);
		break;
	case ZN_RAS_NOTHING: break;
	}
	if (c == '}')
		p->in_counts = false;
	begin_token(p, c);
}

/* ---- Text: a line. ---- */

static bool skip_text(const char **at, const char *text)
{
	size_t n = strlen(text);

	if (strncmp(*at, text, n) != 0)
		return false;
	*at += n;
	return true;
}

static bool skip_past(const char **at, const char *text)
{
	const char *found = strstr(*at, text);

	if (found)
		*at = found + strlen(text);
	return found;
}

static bool skip_number(const char **at, uint64_t *to)
{
	const char *begin = *at;

	for (*to = 0; is_digit(**at); ++*at)
		if (__builtin_mul_overflow(*to, 10, to) || __builtin_add_overflow(*to, (uint64_t)(**at - '0'), to))
			*to = UINT64_MAX;
	return *at > begin;
}

/* "process 4711 on node 10.0.0.7", wherever it begins; without it the process is not known. */
static void read_process(struct zn_ras_rank *r, const char *at, const char *begins)
{
	uint64_t pid;

	if (!skip_past(&at, begins) || !skip_number(&at, &pid) || !skip_text(&at, " on node "))
		return;
	r->pid = pid < ZN_UNKNOWN ? (uint32_t)pid : 0;
	set_host(r, at, strcspn(at, " \r"));
}

/* "#0-1 (27a079b828ff1a75) MISMATCH" */
static bool take_heading(struct zn_ras_parse *p)
{
	const char *at = p->line;
	uint64_t hash;

	if (!skip_text(&at, "#") || !skip_past(&at, " ("))
		return false;
	hash = read_hex(at, strcspn(at, ")"));
	if (!skip_past(&at, ") "))
		return false;
	begin_comm(p, hash);
	p->answer.comms++;
	p->part = skip_text(&at, "INCOMPLETE") ? ZN_RAS_PART_SILENT : ZN_RAS_PART_NONE;
	return true;
}

/* Processes that are missing as a whole, apart from their communicators. */
static bool take_process_heading(struct zn_ras_parse *p)
{
	bool dead = !strcmp(p->line, "DEAD");

	if (!dead && strcmp(p->line, "INCOMPLETE") != 0)
		return false;
	begin_comm(p, 0);
	p->part = dead ? ZN_RAS_PART_DEAD : ZN_RAS_PART_SILENT;
	return true;
}

/* What the ranks of a communicator differ in. Each kind of collective has such a line. */
static bool take_difference(struct zn_ras_parse *p)
{
	const char *at = p->line;

	if (!skip_text(&at, "  Communicator ranks have different "))
		return false;
	if (p->in_comm)
		begin_comm(p, p->comm.hash);
	p->part = skip_text(&at, "status") ? ZN_RAS_PART_STATUS : ZN_RAS_PART_COUNTS;
	return true;
}

static bool is_gone_status(const char *at)
{
	return !strncmp(at, "NOCOMM", 6) || !strncmp(at, "FINALIZE", 8) || !strncmp(at, "ABORT", 5);
}

/* What a rank, or some, did: "has launched up to operation 7", "have not launched any operations", "has status
 * NOCOMM". False: it says none of these. */
static bool read_deed(struct zn_ras_parse *p, const char *at)
{
	if (!skip_text(&at, "has ") && !skip_text(&at, "have "))
		return false;
	p->group_gone = false;
	if (skip_text(&at, "status ")) {
		p->group_gone = is_gone_status(at);
		return p->part == ZN_RAS_PART_STATUS;
	}
	p->group = 0;
	return p->part == ZN_RAS_PART_COUNTS &&
		(skip_text(&at, "not launched any operations") ||
			(skip_text(&at, "launched up to operation ") && skip_number(&at, &p->group)));
}

/* "  26 ranks have launched up to operation 6650" */
static bool take_group(struct zn_ras_parse *p)
{
	const char *at = p->line;
	uint64_t ranks;

	if (!skip_text(&at, "  ") || !skip_number(&at, &ranks) || !skip_text(&at, " ranks "))
		return false;
	if (!read_deed(p, at)) {
		p->part = ZN_RAS_PART_NONE; /* those below it are of something else */
		return true;
	}
	ranks = ranks < ZN_UNKNOWN / 2 - p->comm.heard ? ranks : 0;
	if (p->part == ZN_RAS_PART_COUNTS)
		note_count(p, p->group, (uint32_t)ranks);
	return true;
}

/* True: the rank is one to keep, in a state that follows from the part of the text. */
static bool read_state(struct zn_ras_parse *p, struct zn_ras_rank *r)
{
	r->issued = p->part == ZN_RAS_PART_COUNTS ? p->group : 0;
	r->state = p->part == ZN_RAS_PART_DEAD  ? ZN_RAS_DEAD
		: p->part == ZN_RAS_PART_SILENT ? ZN_RAS_SILENT
		: p->part == ZN_RAS_PART_COUNTS ? ZN_RAS_BEHIND
						: ZN_RAS_LEFT;
	if (p->part == ZN_RAS_PART_NONE || (r->state == ZN_RAS_LEFT && !p->group_gone))
		return false;
	p->absent += r->state != ZN_RAS_BEHIND;
	return true;
}

/* "  Rank 21 -- GPU 5 managed by process 3487984 on node 172.16.64.213", or with what it did before the dashes. */
static bool take_rank_line(struct zn_ras_parse *p)
{
	struct zn_ras_rank r = {0};
	const char *at = p->line;
	uint64_t number;

	if (!skip_text(&at, "  Rank ") || !skip_number(&at, &number) || !skip_text(&at, " "))
		return false;
	r.rank = number < NO_RANK ? (uint32_t)number : NO_RANK;
	if (strncmp(at, "-- ", 3) != 0) {
		if (!read_deed(p, at))
			return true;
		if (p->part == ZN_RAS_PART_COUNTS)
			note_count(p, p->group, p->comm.heard < ZN_UNKNOWN / 2);
	}
	read_process(&r, at, " managed by process ");
	if (read_state(p, &r))
		add_rank(p, &r);
	return true;
}

static bool take_process_line(struct zn_ras_parse *p)
{
	struct zn_ras_rank r = {.rank = NO_RANK};

	if (strncmp(p->line, "  Process ", 10) != 0 || !p->in_comm || p->comm.hash)
		return false;
	read_process(&r, p->line, "  Process ");
	if (read_state(p, &r))
		add_rank(p, &r);
	return true;
}

static void take_line(struct zn_ras_parse *p)
{
	static bool (*const forms[])(struct zn_ras_parse * p) = {
		take_heading, take_process_heading, take_difference, take_group, take_rank_line, take_process_line};
	bool known = false;

	p->line[p->line_len] = 0;
	if (p->line_len && p->line[p->line_len - 1] == '\r')
		p->line[p->line_len - 1] = 0;
	p->line_len = 0;
	if (strstr(p->line, "CCL version ") || !strncmp(p->line, "Communicators...", 16))
		p->answer.understood = p->answer.text = true;
	else if (!strcmp(p->line, "Warnings"))
		p->answer.whole = p->answer.understood;
	for (size_t i = 0; i < ZN_LEN(forms) && !known && p->answer.understood; i++)
		known = forms[i](p);
}

/* No text has a brace: what follows one is JSON, whatever came before. */
static void take_text_byte(struct zn_ras_parse *p, char c)
{
	if (c == '{') {
		p->json = true;
		p->answer.understood = p->answer.text = p->answer.whole = p->in_comm = false;
	} else if (c == '\n') {
		take_line(p);
	} else if (p->line_len < sizeof(p->line) - 1) {
		p->line[p->line_len++] = c ? c : '?';
	}
}

/* ---- The whole. ---- */

void zn_ras_parse_init(struct zn_ras_parse *p, const struct zn_ras_wanted *want)
{
	*p = (struct zn_ras_parse){.want = want};
}

void zn_ras_parse_take(struct zn_ras_parse *p, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p->json)
			take_json_byte(p, bytes[i]);
		else
			take_text_byte(p, bytes[i]);
}

/* A communicator that was cut short is not there: who comes behind the cut would be taken for somebody who is
 * missing. */
void zn_ras_parse_end(struct zn_ras_parse *p)
{
	if (!p->json && p->line_len)
		take_line(p);
	if (p->answer.whole && !p->json)
		end_comm(p);
	p->in_comm = false;
}

const char *zn_ras_state_label(enum zn_ras_state s)
{
	static const char *const labels[] = {
#define X(e, label) label,
		ZN_RAS_STATES(X)
#undef X
	};

	return s < ZN_RAS_STATE_COUNT ? labels[s] : "";
}

void zn_ras_answer_check(struct zn_ras_answer *a)
{
	a->count = a->count < ZN_RAS_COMMS ? a->count : ZN_RAS_COMMS;
	for (uint32_t i = 0; i < a->count; i++) {
		struct zn_ras_comm *c = &a->comm[i];

		c->count = c->count < ZN_RAS_RANKS ? c->count : ZN_RAS_RANKS;
		for (uint32_t r = 0; r < c->count; r++) {
			char host[ZN_RAS_HOST];

			memcpy(host, c->rank[r].host, sizeof(host));
			set_host(&c->rank[r], host, strnlen(host, sizeof(host)));
			c->rank[r].state = c->rank[r].state < ZN_RAS_STATE_COUNT ? c->rank[r].state : ZN_RAS_LEFT;
		}
	}
}
