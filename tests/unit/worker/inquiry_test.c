/* SPDX-License-Identifier: GPL-2.0 */
/*
 * inquiry_test.c: the conversation with NCCL's RAS service over a real connection on loopback, whose other end is this
 * test: what is said and when, answers that end, go on forever or never come, and that nobody but this node is asked.
 */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "folder.h"
#include "zernel.h"
#include "t.h"

#define WHOLE "{\"communicators\": [], \"ras\": {\"timeouts_count\": 0}}"
#define START 1000000000ULL

static struct zn_inquiry q;
static struct zn_inquiry_done done;
static struct zn_inquiry_ask ask;
static int listener, peer;
static uint64_t number;

static void step(uint64_t now_ns)
{
	struct pollfd one = zn_inquiry_poll(&q);

	if (one.fd >= 0 && poll(&one, 1, 20) > 0)
		zn_inquiry_step(&q, one.revents, now_ns);
	else
		zn_inquiry_step(&q, 0, now_ns);
}

static void begin(void)
{
	struct sockaddr_in *to = &ask.peer.address.v4;
	socklen_t len = sizeof(*to);

	if (peer >= 0)
		close(peer);
	*to = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(bind(listener, (struct sockaddr *)to, len) == 0 && listen(listener, 4) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)to, &len) == 0);
	ask.peer.len = len;
	zn_inquiry_begin(&q, &ask, ++number, START);
	peer = accept(listener, NULL, NULL);
	CHECK(peer >= 0);
	close(listener);
	step(START);
}

/* What has come from the other side by now. */
static void check_heard(const char *want)
{
	char text[256];
	ssize_t n = recv(peer, text, sizeof(text) - 1, MSG_DONTWAIT);

	text[n > 0 ? n : 0] = 0;
	CHECK_STR(text, want);
}

static void answer(const char *text)
{
	CHECK_EQ(send(peer, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	step(START);
}

static void to_the_document(void)
{
	begin();
	check_heard("CLIENT PROTOCOL 2\n");
	answer("SERVER ");
	check_heard("");
	answer("PROTOCOL 3\r\n");
	check_heard("TIMEOUT 5\n");
	answer("OK\n");
	check_heard("SET FORMAT json\n");
	answer("ERROR: Unknown command\n");
	check_heard("VERBOSE STATUS\n");
	CHECK(done.number < number);
}

static void hang_up(void)
{
	shutdown(peer, SHUT_WR);
	step(START);
}

static void check_over(enum zn_inquiry_outcome outcome)
{
	CHECK_EQ(done.number, number);
	CHECK_STR(zn_inquiry_label(done.outcome), zn_inquiry_label(outcome));
	CHECK_EQ(q.state, ZN_INQUIRY_IDLE);
	CHECK_EQ(q.fd, -1);
	CHECK_EQ(q.due_ns, UINT64_MAX);
}

T(a_conversation)
{
	to_the_document();
	answer(WHOLE);
	hang_up();
	check_over(ZN_INQUIRY_ANSWERED);
	CHECK(done.answer.whole);
	CHECK(done.bytes > strlen(WHOLE));
}

T(a_server_that_does_not_hang_up)
{
	to_the_document();
	answer(WHOLE);
	CHECK_EQ(done.number, number - 1);
	step(START + ZN_INQUIRY_PATIENCE_S * ZN_NS_PER_S);
	check_over(ZN_INQUIRY_ANSWERED);
}

T(an_answer_that_is_cut)
{
	to_the_document();
	answer("{\"communicators\": [");
	hang_up();
	check_over(ZN_INQUIRY_INCOMPLETE);
	to_the_document();
	answer("hello\n");
	hang_up();
	check_over(ZN_INQUIRY_NOT_UNDERSTOOD);
	to_the_document();
	hang_up();
	check_over(ZN_INQUIRY_NO_ANSWER);
	begin();
	hang_up();
	check_over(ZN_INQUIRY_NO_ANSWER);
}

T(something_else_listens)
{
	begin();
	answer("HTTP/1.1 400 Bad Request\r\n");
	check_over(ZN_INQUIRY_NOT_UNDERSTOOD);
	check_heard("CLIENT PROTOCOL 2\n");
	begin();
	answer("SERVER PROTOCOL 2\n");
	answer("220 ready\n");
	check_over(ZN_INQUIRY_NOT_UNDERSTOOD);
}

T(silence)
{
	begin();
	step(START + ZN_INQUIRY_PATIENCE_S * ZN_NS_PER_S - 1);
	CHECK_EQ(done.number, number - 1);
	step(START + ZN_INQUIRY_PATIENCE_S * ZN_NS_PER_S);
	check_over(ZN_INQUIRY_NO_ANSWER);
	to_the_document();
	step(START + ZN_INQUIRY_PATIENCE_S * ZN_NS_PER_S);
	check_over(ZN_INQUIRY_NO_ANSWER);
}

T(more_than_is_read)
{
	static char much[60000];

	memset(much, 'x', sizeof(much));
	to_the_document();
	for (int i = 0; i < 4000 && q.state != ZN_INQUIRY_IDLE; i++) {
		CHECK(send(peer, much, sizeof(much), MSG_DONTWAIT | MSG_NOSIGNAL) != 0);
		step(START);
	}
	check_over(ZN_INQUIRY_TOO_LONG);
	CHECK(done.bytes >= ZN_INQUIRY_BYTES && done.bytes < ZN_INQUIRY_BYTES + 65536);
}

/* Whatever the daemon says. */
T(nobody_but_this_node_is_asked)
{
	const char *const elsewhere[] = {"192.0.2.1", "0.0.0.0", "2001:db8::1", "8.8.8.8"};

	for (size_t i = 0; i < ZN_LEN(elsewhere); i++) {
		CHECK(zn_peer_read(&ask.peer, elsewhere[i], 80));
		zn_inquiry_begin(&q, &ask, ++number, START);
		check_over(ZN_INQUIRY_NO_ANSWER);
	}
	ask.peer.len = 5000;
	zn_inquiry_begin(&q, &ask, ++number, START);
	check_over(ZN_INQUIRY_NO_ANSWER);
	ask.peer = (struct zn_peer){.address.any.sa_family = AF_UNIX, .len = sizeof(struct sockaddr)};
	zn_inquiry_begin(&q, &ask, ++number, START);
	check_over(ZN_INQUIRY_NO_ANSWER);
}

T(nobody_is_there)
{
	begin();
	close(peer);
	peer = -1;
	zn_inquiry_begin(&q, &ask, ++number, START); /* the port is nobody's by now */
	step(START);
	check_over(ZN_INQUIRY_NO_ANSWER);
}

T(a_question_that_is_given_up_for_another)
{
	int first;

	begin();
	first = peer;
	peer = -1;
	to_the_document();
	CHECK_EQ(recv(first, (char[64]){0}, 64, 0), strlen("CLIENT PROTOCOL 2\n"));
	CHECK_EQ(recv(first, (char[64]){0}, 64, 0), 0);
	close(first);
	answer(WHOLE);
	hang_up();
	check_over(ZN_INQUIRY_ANSWERED);
}

static const char routes[] = "Main:\n"
			     "  +-- 0.0.0.0/0 3 0 5\n"
			     "     |-- 0.0.0.0\n        /0 universe UNICAST\n"
			     "     |-- 10.0.0.0\n        /24 link UNICAST\n"
			     "Local:\n"
			     "     |-- 10.0.0.7\n        /32 host LOCAL\n"
			     "     |-- 10.0.0.255\n        /32 link BROADCAST\n"
			     "           |-- 127.0.0.0\n              /8 host LOCAL\n"
			     "           |-- 127.0.0.1\n              /32 host LOCAL\n";

/* ib0 comes up, and the address of DHCP goes. */
T(addresses_of_this_node_as_they_are_now)
{
	char host[ZN_RAS_HOSTS][ZN_RAS_HOST];
	int list[2];

	open_folder();
	put("net/fib_trie", routes);
	zn_inquiry_open_lists(list, root);
	CHECK_EQ(zn_inquiry_hosts(list, host), 3);
	CHECK_STR(host[0], "127.0.0.1");
	CHECK_STR(host[1], "::1");
	CHECK_STR(host[2], "10.0.0.7");
	put("net/if_inet6", "fe800000000000000000000000000007 04 40 20 80     ib0\nfe80\n\n");
	close(list[0]);
	zn_inquiry_open_lists(list, root);
	put("net/fib_trie", "     |-- 192.168.1.9\n        /32 host LOCAL\n     |-- 1.2.3.4\n /32 host LOCAL");
	CHECK_EQ(zn_inquiry_hosts(list, host), 4);
	CHECK_STR(host[2], "192.168.1.9");
	CHECK_STR(host[3], "fe80::7");
	close(list[0]);
	close(list[1]);
	close_folder();
	CHECK_EQ(zn_inquiry_hosts((const int[]){-1, -1}, host), 2);
}

int main(void)
{
	peer = -1;
	zn_inquiry_init(&q, &done);
	RUN(addresses_of_this_node_as_they_are_now);
	RUN(a_conversation);
	RUN(a_server_that_does_not_hang_up);
	RUN(an_answer_that_is_cut);
	RUN(something_else_listens);
	RUN(silence);
	RUN(more_than_is_read);
	RUN(nobody_but_this_node_is_asked);
	RUN(nobody_is_there);
	RUN(a_question_that_is_given_up_for_another);
	zn_inquiry_close(&q);
	return t_end();
}
