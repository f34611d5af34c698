/* SPDX-License-Identifier: GPL-2.0 */
/*
 * dns.c: names of hosts as a stub resolver sees them: /etc/hosts, /etc/resolv.conf, questions and answers of RFC 1035
 * and 3596. Pure: bytes in, bytes out. glibc's own resolver blocks, and its name service switch does not work in a
 * static program. Answers are hostile.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <strings.h>

#include "zernel.h"

#define HEAD_BYTES   12
#define RECORD_BYTES 10 /* of a record, between its name and its data */
#define LABEL_MAX    63
#define CLASS_IN     1
#define FLAG_ANSWER  0x8000
#define FLAG_CUT     0x0200 /* it had no room for all */
#define FLAG_ASK     0x0100 /* recursion desired */
#define CODE_MASK    0xf
#define NO_NAME      3 /* NXDOMAIN */
#define BLANKS       " \t\r"

bool zn_peer_read(struct zn_peer *p, const char *text, uint16_t port)
{
	*p = (struct zn_peer){0};
	if (inet_pton(AF_INET, text, &p->address.v4.sin_addr) == 1) {
		p->address.v4.sin_family = AF_INET;
		p->address.v4.sin_port = htons(port);
		p->len = sizeof(p->address.v4);
	} else if (inet_pton(AF_INET6, text, &p->address.v6.sin6_addr) == 1) {
		p->address.v6.sin6_family = AF_INET6;
		p->address.v6.sin6_port = htons(port);
		p->len = sizeof(p->address.v6);
	}
	return p->len;
}

/* ---- the files ---- */

/* Takes the next line off, without its comment. */
static bool next_line(struct zn_str *text, struct zn_str *line)
{
	const char *end;

	if (!text->len)
		return false;
	end = memchr(text->at, '\n', text->len);
	*line = (struct zn_str){text->at, end ? (size_t)(end - text->at) : text->len};
	text->at += line->len + !!end;
	text->len -= line->len + !!end;
	for (size_t i = 0; i < line->len; i++)
		if (line->at[i] == '#' || line->at[i] == ';')
			line->len = i;
	return true;
}

/* Takes the next word off a line. A word that does not fit is returned empty. */
static bool next_word(struct zn_str *line, char to[ZN_HOST_MAX])
{
	size_t len = 0;

	while (line->len && strchr(BLANKS, *line->at))
		line->at++, line->len--;
	if (!line->len)
		return false;
	while (len < line->len && !strchr(BLANKS, line->at[len]))
		len++;
	to[0] = '\0';
	if (len < ZN_HOST_MAX) {
		memcpy(to, line->at, len);
		to[len] = '\0';
	}
	line->at += len;
	line->len -= len;
	return true;
}

size_t zn_hosts_find(struct zn_str text, const char *name, uint16_t port, struct zn_peer to[ZN_PEERS_MAX])
{
	char address[ZN_HOST_MAX], word[ZN_HOST_MAX];
	struct zn_str line;
	size_t count = 0;

	while (count < ZN_PEERS_MAX && next_line(&text, &line)) {
		bool named = false;

		if (!next_word(&line, address))
			continue;
		while (!named && next_word(&line, word))
			named = !strcasecmp(word, name);
		count += named && zn_peer_read(&to[count], address, port);
	}
	return count;
}

/* "ndots:2", "timeout:1", "attempts:3": what is out of bounds is brought into them, as in glibc. */
static void read_option(struct zn_resolver *r, const char *word)
{
	static const struct {
		const char *name;
		size_t offset;
		unsigned max;
	} known[] = {
		{"ndots:", offsetof(struct zn_resolver, ndots), 15},
		{"timeout:", offsetof(struct zn_resolver, timeout_s), 30},
		{"attempts:", offsetof(struct zn_resolver, attempts), 5},
	};

	for (size_t i = 0; i < ZN_LEN(known); i++) {
		size_t len = strlen(known[i].name);
		unsigned n = 0;

		if (strncmp(word, known[i].name, len))
			continue;
		for (const char *at = word + len; *at >= '0' && *at <= '9' && n < 100; at++)
			n = n * 10 + (unsigned)(*at - '0');
		*(unsigned *)((char *)r + known[i].offset) = n > known[i].max ? known[i].max : n;
	}
}

static void read_search(struct zn_resolver *r, struct zn_str line)
{
	for (r->search_count = 0; r->search_count < ZN_LEN(r->search);)
		if (!next_word(&line, r->search[r->search_count]))
			return;
		else if (r->search[r->search_count][0])
			r->search_count++;
}

static void read_line(struct zn_resolver *r, struct zn_str line)
{
	char word[ZN_HOST_MAX];

	if (!next_word(&line, word))
		return;
	if (!strcmp(word, "search") || !strcmp(word, "domain"))
		read_search(r, line);
	else if (!strcmp(word, "options"))
		while (next_word(&line, word))
			read_option(r, word);
	else if (!strcmp(word, "nameserver") && r->server_count < ZN_LEN(r->server) && next_word(&line, word))
		r->server_count += zn_peer_read(&r->server[r->server_count], word, ZN_DNS_PORT);
}

void zn_resolver_read(struct zn_resolver *r, struct zn_str text)
{
	struct zn_str line;

	*r = (struct zn_resolver){.ndots = 1, .timeout_s = 5, .attempts = 2};
	while (next_line(&text, &line))
		read_line(r, line);
	if (!r->server_count)
		r->server_count = zn_peer_read(&r->server[0], "127.0.0.1", ZN_DNS_PORT);
	r->timeout_s += !r->timeout_s;
	r->attempts += !r->attempts;
}

static unsigned count_dots(const char *name)
{
	unsigned n = 0;

	for (; *name; name++)
		n += *name == '.';
	return n;
}

bool zn_resolver_name(const struct zn_resolver *r, const char *name, unsigned i, char to[ZN_HOST_MAX])
{
	size_t len = strlen(name);
	bool first = count_dots(name) >= r->ndots; /* as it is, before the others; else after them */
	unsigned domains = name[len - 1] == '.' ? 0 : r->search_count;
	unsigned own = first ? 0 : domains, at = i - (first && i);

	if (i > domains)
		return false;
	to[0] = '\0';
	if (i == own)
		snprintf(to, ZN_HOST_MAX, "%s", name);
	else if (len + strlen(r->search[at]) + 2 <= ZN_HOST_MAX)
		snprintf(to, ZN_HOST_MAX, "%s.%s", name, r->search[at]);
	return true;
}

/* ---- questions and answers ---- */

static void put_u16(uint8_t *at, unsigned v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

static unsigned get_u16(const uint8_t *at)
{
	return (unsigned)at[0] << 8 | at[1];
}

size_t zn_dns_ask(uint8_t to[ZN_DNS_QUESTION], uint16_t id, const char *name, enum zn_dns_type type)
{
	size_t at = HEAD_BYTES;

	memset(to, 0, HEAD_BYTES);
	put_u16(to, id);
	put_u16(to + 2, FLAG_ASK);
	put_u16(to + 4, 1);
	while (*name) {
		size_t len = strcspn(name, ".");

		if (!len || len > LABEL_MAX || at + len + 6 > ZN_DNS_QUESTION)
			return 0;
		to[at++] = (uint8_t)len;
		memcpy(to + at, name, len);
		at += len;
		name += len + (name[len] == '.');
	}
	if (at == HEAD_BYTES)
		return 0;
	to[at++] = 0;
	put_u16(to + at, type);
	put_u16(to + at + 2, CLASS_IN);
	return at + 4;
}

/* Where a name ends: at its zero, or behind a pointer, which is not followed. 0: it does not. */
static size_t skip_name(const uint8_t *at, size_t len, size_t from)
{
	while (from < len) {
		if (at[from] == 0)
			return from + 1;
		if (at[from] >= 0xc0)
			return from + 2 <= len ? from + 2 : 0;
		if (at[from] > LABEL_MAX)
			return 0;
		from += at[from] + 1u;
	}
	return 0;
}

/* Whether it answers this very question; names may come back in other letters. */
static bool answers_question(const uint8_t *at, size_t len, const uint8_t *question, size_t question_len)
{
	if (len < question_len || get_u16(at) != get_u16(question) || !(get_u16(at + 2) & FLAG_ANSWER) ||
		get_u16(at + 4) != 1)
		return false;
	for (size_t i = HEAD_BYTES; i < question_len; i++)
		if (at[i] != question[i] && (i + 4 >= question_len || (at[i] | 0x20) != (question[i] | 0x20)))
			return false;
	return true;
}

/* An address as a record has it: 4 bytes, or 16. */
static void take_address(struct zn_peer *p, const uint8_t *at, enum zn_dns_type type, uint16_t port)
{
	*p = (struct zn_peer){0};
	if (type == ZN_DNS_A) {
		p->address.v4.sin_family = AF_INET;
		p->address.v4.sin_port = htons(port);
		memcpy(&p->address.v4.sin_addr, at, 4);
		p->len = sizeof(p->address.v4);
	} else {
		p->address.v6.sin6_family = AF_INET6;
		p->address.v6.sin6_port = htons(port);
		memcpy(&p->address.v6.sin6_addr, at, 16);
		p->len = sizeof(p->address.v6);
	}
}

/* Of the names that it leads to, too: what the server says of them is believed. */
static int read_records(const uint8_t *at, size_t len, const struct zn_dns_wanted *want)
{
	enum zn_dns_type type = get_u16(want->question + want->question_len - 4);
	size_t from = want->question_len, data;
	int found = 0;

	for (unsigned records = get_u16(at + 6); records && (size_t)found < want->cap; records--) {
		from = skip_name(at, len, from);
		if (!from || len - from < RECORD_BYTES)
			return found ? found : -EBADMSG;
		const uint8_t *record = at + from;

		data = get_u16(record + 8);
		from += RECORD_BYTES;
		if (len - from < data)
			return found ? found : -EBADMSG;
		from += data;
		if (get_u16(record) == type && get_u16(record + 2) == CLASS_IN && data == (type == ZN_DNS_A ? 4 : 16))
			take_address(&want->to[found++], record + RECORD_BYTES, type, want->port);
	}
	return found;
}

/* An answer that is cut has some addresses, which do; or none, by a server that has no time now. */
int zn_dns_answer(const uint8_t *at, size_t len, const struct zn_dns_wanted *want)
{
	unsigned code;
	int found;

	if (!answers_question(at, len, want->question, want->question_len))
		return -EAGAIN;
	code = get_u16(at + 2) & CODE_MASK;
	if (code)
		return code == NO_NAME ? 0 : -EBADMSG;
	found = read_records(at, len, want);
	return !found && get_u16(at + 2) & FLAG_CUT ? -EBADMSG : found;
}
