/* SPDX-License-Identifier: GPL-2.0 */
/* dns_test.c: what the two files say, the questions that follow, and answers, whole, cut, and wrong. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

static struct zn_str str(const char *text)
{
	return (struct zn_str){text, strlen(text)};
}

/* "1.2.3.4:80 ::1:80 " */
static const char *show(const struct zn_peer *p, size_t count)
{
	static char text[512];
	size_t len = 0;

	text[0] = '\0';
	for (size_t i = 0; i < count; i++, p++) {
		char address[INET6_ADDRSTRLEN];
		bool v4 = p->address.any.sa_family == AF_INET;

		inet_ntop(p->address.any.sa_family,
			v4 ? (const void *)&p->address.v4.sin_addr : &p->address.v6.sin6_addr, address,
			sizeof(address));
		len += (size_t)snprintf(
			text + len, sizeof(text) - len, "%s:%u ", address, ntohs(p->address.v4.sin_port));
	}
	return text;
}

#define HOSTS                                                                                                          \
	"127.0.0.1 localhost # loop\n"                                                                                 \
	"::1 localhost ip6\n\n"                                                                                        \
	"10.0.0.7\tnode7.example node7\r\n"                                                                            \
	"# 10.0.0.8 node8\n"                                                                                           \
	"x.y bad\n"                                                                                                    \
	"10.0.0.9 NODE9 NODE9"

static const struct {
	const char *name, *want;
} hosts[] = {
	{"localhost", "127.0.0.1:81 ::1:81 "},
	{"node7", "10.0.0.7:81 "},
	{"node7.example", "10.0.0.7:81 "},
	{"node9", "10.0.0.9:81 "},
	{"node8", ""},
	{"node", ""},
	{"bad", ""},
	{"10.0.0.7", ""},
};

static void check_hosts(void)
{
	struct zn_peer to[ZN_PEERS_MAX];

	for (size_t i = 0; i < ZN_LEN(hosts); i++) {
		t_begin(hosts[i].name);
		CHECK_STR(show(to, zn_hosts_find(str(HOSTS), hosts[i].name, 81, to)), hosts[i].want);
	}
}

T(hosts_with_many_addresses)
{
	struct zn_peer to[ZN_PEERS_MAX];
	char text[4096] = "";

	for (int i = 0; i < 100; i++)
		strcat(text, "10.0.0.1 a\n");
	CHECK_EQ(zn_hosts_find(str(text), "a", 1, to), ZN_PEERS_MAX);
}

T(resolv_conf)
{
	struct zn_resolver r;

	zn_resolver_read(&r,
		str("nameserver 10.0.0.1\n;nameserver 9.9.9.9\nnameserver fe80::1%eth0\nnameserver ::1\n"
		    "domain old\nsearch a.example  b.example\noptions timeout:1 ndots:2 rotate attempts:99\n"
		    "nameserver 10.0.0.2\nnameserver 10.0.0.3\n"));
	CHECK_STR(show(r.server, r.server_count), "10.0.0.1:53 ::1:53 10.0.0.2:53 ");
	CHECK_EQ(r.search_count, 2);
	CHECK_STR(r.search[0], "a.example");
	CHECK_STR(r.search[1], "b.example");
	CHECK_EQ(r.timeout_s, 1);
	CHECK_EQ(r.ndots, 2);
	CHECK_EQ(r.attempts, 5);
}

T(no_resolv_conf)
{
	struct zn_resolver r;

	zn_resolver_read(&r, str("options timeout:0 attempts:x"));
	CHECK_STR(show(r.server, r.server_count), "127.0.0.1:53 ");
	CHECK(r.timeout_s == 1 && r.attempts == 1 && r.ndots == 1 && !r.search_count);
}

/* All names to ask for, with blanks between them. */
static const char *names(const char *conf, const char *name)
{
	static char text[1024];
	char one[ZN_HOST_MAX];
	struct zn_resolver r;

	text[0] = '\0';
	zn_resolver_read(&r, str(conf));
	for (unsigned i = 0; zn_resolver_name(&r, name, i, one); i++) {
		strcat(text, one);
		strcat(text, " ");
	}
	return text;
}

T(names_to_ask_for)
{
	CHECK_STR(names("", "am"), "am ");
	CHECK_STR(names("search a b", "am"), "am.a am.b am ");
	CHECK_STR(names("search a b", "am.x"), "am.x am.x.a am.x.b ");
	CHECK_STR(names("search a b\noptions ndots:2", "am.x"), "am.x.a am.x.b am.x ");
	CHECK_STR(names("search a b", "am."), "am. ");
}

T(questions)
{
	static const uint8_t want[] = "\x12\x34\x01\0\0\1\0\0\0\0\0\0\2am\7example\0\0\x1c\0\1";
	uint8_t to[ZN_DNS_QUESTION];
	char name[512];
	size_t len = zn_dns_ask(to, 0x1234, "am.example", ZN_DNS_AAAA);

	CHECK_MEM((char *)to, len, (const char *)want, sizeof(want) - 1);
	CHECK_EQ(zn_dns_ask(to, 1, "am.example.", ZN_DNS_A), len);
	memset(name, 'a', sizeof(name));
	name[64] = '\0';
	CHECK_EQ(zn_dns_ask(to, 1, name, ZN_DNS_A), 0);
	name[63] = '\0';
	CHECK_EQ(zn_dns_ask(to, 1, name, ZN_DNS_A), 12 + 65 + 4);
	for (size_t i = 0; i < sizeof(name) - 1; i += 2)
		memcpy(name + i, "a.", 2);
	name[254] = '\0';
	CHECK_EQ(zn_dns_ask(to, 1, name, ZN_DNS_A), 12 + 255 + 4);
	name[254] = 'a';
	name[260] = '\0';
	CHECK_EQ(zn_dns_ask(to, 1, name, ZN_DNS_A), 0);
	CHECK_EQ(zn_dns_ask(to, 1, "", ZN_DNS_A), 0);
	CHECK_EQ(zn_dns_ask(to, 1, ".", ZN_DNS_A), 0);
	CHECK_EQ(zn_dns_ask(to, 1, "a..b", ZN_DNS_A), 0);
}

#define QUESTION "\2am\1x\0\0\1\0\1"
#define HEAD     "\0\7\x81\x80\0\1"
#define A(a)     "\xc0\x0c\0\1\0\1\0\0\0\1\0\4\x0a\0\0" a
#define CNAME    "\xc0\x0c\0\5\0\1\0\0\0\1\0\4\1b\xc0\x0f"
#define V(text)  text, sizeof(text) - 1
static const struct {
	const char *name, *text;
	size_t len;
	int want;
	const char *peers;
} answers[] = {
	{"one", V(HEAD "\0\1\0\0\0\0" QUESTION A("\1")), 1, "10.0.0.1:9 "},
	{"two", V(HEAD "\0\2\0\0\0\0" QUESTION A("\1") A("\2")), 2, "10.0.0.1:9 10.0.0.2:9 "},
	{"through a name", V(HEAD "\0\2\0\0\0\0" QUESTION CNAME A("\3")), 1, "10.0.0.3:9 "},
	{"more than are said", V(HEAD "\0\1\0\0\0\0" QUESTION A("\1") A("\2")), 1, "10.0.0.1:9 "},
	{"more than there is room for", V(HEAD "\0\4\0\0\0\0" QUESTION A("\1") A("\2") A("\3") A("\4")), 3,
		"10.0.0.1:9 10.0.0.2:9 10.0.0.3:9 "},
	{"none", V(HEAD "\0\0\0\0\0\0" QUESTION), 0, ""},
	{"no such name", V("\0\7\x81\x83\0\1\0\0\0\0\0\0" QUESTION), 0, ""},
	{"other letters", V(HEAD "\0\1\0\0\0\0\2AM\1X\0\0\1\0\1" A("\1")), 1, "10.0.0.1:9 "},
	{"server failed", V("\0\7\x81\x82\0\1\0\0\0\0\0\0" QUESTION), -EBADMSG, ""},
	{"refused", V("\0\7\x81\x85\0\1\0\0\0\0\0\0" QUESTION), -EBADMSG, ""},
	{"other id", V("\0\6\x81\x80\0\1\0\1\0\0\0\0" QUESTION A("\1")), -EAGAIN, ""},
	{"a question", V("\0\7\1\0\0\1\0\0\0\0\0\0" QUESTION), -EAGAIN, ""},
	{"other name", V(HEAD "\0\1\0\0\0\0\2an\1x\0\0\1\0\1" A("\1")), -EAGAIN, ""},
	{"other type", V(HEAD "\0\1\0\0\0\0\2am\1x\0\0\x1c\0\1" A("\1")), -EAGAIN, ""},
	{"type in other letters", V(HEAD "\0\1\0\0\0\0\2am\1x\0\0\x21\0\1" A("\1")), -EAGAIN, ""},
	{"record of another class", V(HEAD "\0\1\0\0\0\0" QUESTION "\xc0\x0c\0\1\0\3\0\0\0\1\0\4\x0a\0\0\1"), 0, ""},
	{"record of another length", V(HEAD "\0\1\0\0\0\0" QUESTION "\xc0\x0c\0\1\0\1\0\0\0\1\0\5\x0a\0\0\1\1"), 0, ""},
	{"data beyond the end", V(HEAD "\0\1\0\0\0\0" QUESTION "\xc0\x0c\0\1\0\1\0\0\0\1\xff\xff\x0a\0\0\1"), -EBADMSG,
		""},
	{"bad label", V(HEAD "\0\1\0\0\0\0" QUESTION "\x80" A("\1")), -EBADMSG, ""},
	{"cut after one", V(HEAD "\0\2\0\0\0\0" QUESTION A("\1") "\xc0\x0c\0\1\0\1"), 1, "10.0.0.1:9 "},
	{"cut before the first", V("\0\7\x83\x80\0\1\0\0\0\0\0\0" QUESTION), -EBADMSG, ""},
	{"cut behind one", V("\0\7\x83\x80\0\1\0\1\0\0\0\0" QUESTION A("\1")), 1, "10.0.0.1:9 "},
	{"none", V(HEAD "\0\0\0\0\0\0" QUESTION), 0, ""},
	{"fewer than are said", V(HEAD "\xff\xff\0\0\0\0" QUESTION), -EBADMSG, ""},
};

static int answer(const char *text, size_t len, struct zn_peer to[3])
{
	uint8_t question[ZN_DNS_QUESTION];
	struct zn_dns_wanted want = {.question = question, .port = 9, .to = to, .cap = 3};
	uint8_t *block = malloc(len ? len : 1);
	int got;

	want.question_len = zn_dns_ask(question, 7, "am.x", ZN_DNS_A);
	memcpy(block, text, len);
	got = zn_dns_answer(block, len, &want);
	free(block);
	return got;
}

static void check_answers(void)
{
	struct zn_peer to[3];

	for (size_t i = 0; i < ZN_LEN(answers); i++) {
		int got = answer(answers[i].text, answers[i].len, to);

		t_begin(answers[i].name);
		CHECK_EQ(got, answers[i].want);
		CHECK_STR(show(to, got > 0 ? (size_t)got : 0), answers[i].peers);
		for (size_t at = 0; at < answers[i].len; at++)
			CHECK(answer(answers[i].text, at, to) <= 3);
	}
}

T(addresses_of_version_6)
{
	static const char text[] = "\0\7\x81\x80\0\1\0\1\0\0\0\0\2am\1x\0\0\x1c\0\1\xc0\x0c\0\x1c\0\1\0\0\0\1\0\x10"
				   "\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1";
	uint8_t question[ZN_DNS_QUESTION];
	struct zn_peer to[1];
	struct zn_dns_wanted want = {.question = question, .port = 9, .to = to, .cap = 1};

	want.question_len = zn_dns_ask(question, 7, "am.x", ZN_DNS_AAAA);
	CHECK_EQ(zn_dns_answer((const uint8_t *)text, sizeof(text) - 1, &want), 1);
	CHECK_STR(show(to, 1), "fd00::1:9 ");
}

int main(void)
{
	check_hosts();
	RUN(hosts_with_many_addresses);
	RUN(resolv_conf);
	RUN(no_resolv_conf);
	RUN(names_to_ask_for);
	RUN(questions);
	check_answers();
	RUN(addresses_of_version_6);
	return t_end();
}
