/* SPDX-License-Identifier: GPL-2.0 */
/*
 * response_fuzz.c: any bytes as what a receiver answers, as a URL, as the two files about names, and as an answer of a
 * name server. An answer must come out the same wherever it is cut; a URL must be printable and fit its request; no
 * more addresses come than there is room for.
 */
#include <stdlib.h>

#include "src/codec/dns.c"
#include "src/codec/http_client.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static char *copy_of(const void *at, size_t len)
{
	char *block = malloc(len ? len : 1);

	if (len)
		memcpy(block, at, len);
	return block;
}

/* In pieces of a size; false: it is no answer. */
static bool read_pieces(struct zn_reply *r, const char *text, size_t len, size_t step)
{
	int used = 0;

	zn_reply_init(r);
	for (size_t at = 0; at < len && !r->done; at += (size_t)used) {
		size_t n = len - at < step ? len - at : step;
		char *block = copy_of(text + at, n);

		used = zn_reply_read(r, block, n);
		free(block);
		if (used < 0)
			return false;
		check((size_t)used <= n && (used || r->done));
	}
	return true;
}

static void check_reply(const char *text, size_t len)
{
	static struct zn_reply whole, cut;
	bool good = read_pieces(&whole, text, len, len ? len : 1);

	check(read_pieces(&cut, text, len, 1) == good && read_pieces(&cut, text, len, 7) == good);
	if (!good)
		return;
	check(whole.status == cut.status && whole.done == cut.done && whole.keep_alive == cut.keep_alive);
	check(!whole.status || (whole.status >= 200 && whole.status <= 599 && whole.retry_after_s <= PATIENCE_MAX));
	check(!whole.done || whole.status);
}

static void check_url(const char *text, size_t len)
{
	char *block = copy_of(text, len), head[2048];
	struct zn_out o = {.at = head, .cap = sizeof(head)};
	struct zn_url u;

	if (zn_url_read(&u, (struct zn_str){block, len}) == 0) {
		check(u.port && u.host[0] && (!u.target[0] || u.target[0] == '/'));
		zn_post_head(&o, &(struct zn_post){&u, u.target[0] ? u.target : "/", "application/json", "", len});
		check(!o.full && o.len > 4 && !memcmp(head + o.len - 4, "\r\n\r\n", 4));
		for (size_t i = 0; i < o.len; i++)
			check((head[i] >= ' ' && head[i] <= '~') || head[i] == '\r' || head[i] == '\n');
		check(!memmem(head, o.len - 4, "\r\n\r\n", 4));
	}
	free(block);
}

static void check_files(const char *text, size_t len)
{
	char *block = copy_of(text, len), name[ZN_HOST_MAX];
	struct zn_peer to[ZN_PEERS_MAX];
	struct zn_resolver r;
	unsigned i = 0;

	check(zn_hosts_find((struct zn_str){block, len}, "a", 1, to) <= ZN_PEERS_MAX);
	zn_resolver_read(&r, (struct zn_str){block, len});
	check(r.server_count && r.server_count <= ZN_LEN(r.server) && r.timeout_s && r.attempts);
	while (zn_resolver_name(&r, "a.b", i, name))
		i++;
	check(i == r.search_count + 1);
	free(block);
}

static void check_names(const uint8_t *data, size_t len)
{
	uint8_t question[ZN_DNS_QUESTION];
	struct zn_peer to[3];
	struct zn_dns_wanted want = {.question = question, .port = 1, .to = to, .cap = 3};
	uint8_t *block;
	int got;

	/* its head and question are made to fit, so that what follows is read */
	want.question_len = zn_dns_ask(question, 7, "am.x", ZN_DNS_A);
	block = malloc(want.question_len + len);
	memcpy(block, question, want.question_len);
	block[2] |= 0x80;
	block[7] = len ? data[0] : 0;
	if (len)
		memcpy(block + want.question_len, data, len);
	got = zn_dns_answer(block, want.question_len + len, &want);
	check(got == -EBADMSG || (got >= 0 && got <= 3));
	for (int i = 0; i < got; i++)
		check(to[i].len == sizeof(to[i].address.v4));
	free(block);
	block = (uint8_t *)copy_of(data, len);
	check(zn_dns_answer(block, len, &want) <= 3);
	free(block);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	check_reply((const char *)data, len);
	check_url((const char *)data, len);
	check_files((const char *)data, len);
	check_names(data, len);
	return 0;
}
