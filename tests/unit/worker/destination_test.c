/* SPDX-License-Identifier: GPL-2.0 */
/*
 * destination_test.c: one destination against receivers on loopback that behave well and badly. The clock is ours, so
 * that no test waits for a time limit; what the kernel does takes its own time, which is waited for.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define S         ZN_NS_PER_S
#define PATIENCE  5000 /* ms that the kernel gets; ends a hang, decides nothing */
#define OK        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define STATUS(n) "HTTP/1.1 " n " X\r\nContent-Length: 0\r\n\r\n"

static struct zn_delivery deliveries[ZN_DELIVERIES_MAX];
static struct zn_destination_done done;
static struct zn_destination s;
static uint64_t now;
static int listener = -1, peer = -1;
static uint16_t port;
static char files[] = "/tmp/zn_destination_XXXXXX", hosts[64], resolv_conf[64];

static struct zn_str str(const char *text)
{
	return (struct zn_str){text, strlen(text)};
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	if (f) {
		fputs(text, f);
		fclose(f);
	}
}

static int listen_here(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_port = htons(port)};
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	if (bind(fd, (struct sockaddr *)&at, len) || listen(fd, 8) || getsockname(fd, (struct sockaddr *)&at, &len))
		return -1;
	port = ntohs(at.sin_port);
	return fd;
}

/* A sender, and a listener that it is to find. */
static void begin(enum zn_outbound to, const char *host)
{
	struct zn_url url;
	char text[128];

	zn_destination_close(&s);
	if (peer >= 0)
		close(peer);
	if (listener >= 0)
		close(listener);
	peer = -1;
	port = 0;
	listener = listen_here();
	done = (struct zn_destination_done){0};
	now = 1000 * S;
	snprintf(text, sizeof(text), "http://%s:%u/x", host, port);
	CHECK_EQ(zn_url_read(&url, str(text)), 0);
	zn_destination_init(&s, to, &url, deliveries, &done);
	s.hosts = hosts;
	s.resolv_conf = resolv_conf;
}

/* One turn, after whatever is ready within so many milliseconds. False: nothing was. */
static bool turn(int ms)
{
	struct pollfd p = zn_destination_poll(&s);
	int n = p.fd < 0 ? 0 : poll(&p, 1, ms);

	zn_destination_step(&s, n > 0 ? p.revents : 0, now);
	return n > 0;
}

/* Takes the connection that the sender makes. */
static void take(void)
{
	for (int i = 0; i < PATIENCE && peer < 0; i++) {
		turn(1);
		peer = accept(listener, NULL, NULL);
	}
	CHECK(peer >= 0);
}

/* All that comes until the request has ended with this. */
static const char *request(const char *end)
{
	static char text[ZN_DELIVERY_BYTES + 4096];
	size_t len = 0;

	for (int i = 0; i < PATIENCE && len < sizeof(text) - 1; i++) {
		ssize_t n = recv(peer, text + len, sizeof(text) - 1 - len, MSG_DONTWAIT);

		len += n > 0 ? (size_t)n : 0;
		text[len] = '\0';
		if (len >= strlen(end) && !memcmp(text + len - strlen(end), end, strlen(end)))
			break;
		turn(1);
	}
	return text;
}

/* Turns until the sender is in that state. */
static bool reaches(enum zn_destination_state state)
{
	for (int i = 0; i < PATIENCE && s.state != state; i++)
		turn(1);
	return s.state == state;
}

static void reply(const char *text)
{
	CHECK(send(peer, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text));
}

static void hang_up(void)
{
	close(peer);
	peer = -1;
}

/* The sender's next try, which is due after its pause. */
static void pass_pause(void)
{
	CHECK_EQ(s.state, ZN_SENDER_WAITING);
	CHECK(s.due_ns > now && s.due_ns <= now + 180 * S);
	now = s.due_ns;
}

static void push(const char *text, uint64_t number)
{
	zn_destination_push(&s, str(text), number);
}

T(a_delivery_is_taken)
{
	const char *got;

	begin(ZN_TO_ALERTMANAGER, "127.0.0.1");
	push("[17]", 3);
	CHECK_EQ(done.queued, 1);
	take();
	got = request("[17]");
	CHECK(!strncmp(got, "POST /x/api/v2/alerts HTTP/1.1\r\n", 31));
	CHECK(strstr(got, "\r\nContent-Type: application/json\r\n") && strstr(got, "\r\nContent-Length: 4\r\n"));
	reply(OK);
	CHECK(reaches(ZN_SENDER_IDLE));
	CHECK(done.sent[ZN_SENT_OK] == 1 && done.settled == 3 && done.queued == 0 && done.down == 0);
}

T(the_connection_is_kept)
{
	a_delivery_is_taken();
	push("[18]", 4);
	CHECK(strstr(request("[18]"), "POST"));
	CHECK_EQ(accept(listener, NULL, NULL), -1);
	reply(OK);
	CHECK(reaches(ZN_SENDER_IDLE));
	CHECK(done.sent[ZN_SENT_OK] == 2 && done.settled == 4);
	now += 51 * S;
	turn(0);
	CHECK(s.fd < 0);
}

T(a_kept_connection_that_was_closed_is_no_failure)
{
	a_delivery_is_taken();
	hang_up();
	push("[18]", 4);
	take();
	request("[18]");
	reply(OK);
	CHECK(reaches(ZN_SENDER_IDLE));
	CHECK(done.sent[ZN_SENT_OK] == 2 && done.sent[ZN_SENT_RETRIED] == 0);
}

/* What makes a try fail; the next one works. */
static const struct {
	const char *name, *answer; /* answer: NULL: none */
	bool close;
	uint64_t wait_s;
} failures[] = {
	{"no answer", NULL, false, 11},
	{"closed without an answer", NULL, true, 0},
	{"status 500", STATUS("500"), false, 0},
	{"status 503 and closed", "HTTP/1.1 503 X\r\n\r\n", true, 0},
	{"status 429", STATUS("429"), false, 0},
	{"status 408", STATUS("408"), false, 0},
	{"garbage", "SSH-2.0-OpenSSH_9.2p1\r\n", false, 0},
	{"half a head", "HTTP/1.1 200 OK\r\nContent-", true, 0},
	{"half a head, and then nothing", "HTTP/1.1 200 OK\r\nContent-", false, 11},
};

static void check_failures(void)
{
	for (size_t i = 0; i < ZN_LEN(failures); i++) {
		t_begin(failures[i].name);
		begin(ZN_TO_WEBHOOK, "127.0.0.1");
		push("{}", 7);
		take();
		request("{}");
		if (failures[i].answer)
			reply(failures[i].answer);
		for (int j = 0; j < 20; j++)
			turn(1);
		if (failures[i].close)
			hang_up();
		now += failures[i].wait_s * S;
		CHECK(reaches(ZN_SENDER_WAITING));
		CHECK(done.sent[ZN_SENT_RETRIED] == 1 && done.down == 1 && done.settled == 0 && done.queued == 1);
		if (peer >= 0)
			hang_up();
		pass_pause();
		take();
		request("{}");
		reply(OK);
		CHECK(reaches(ZN_SENDER_IDLE));
		CHECK(done.sent[ZN_SENT_OK] == 1 && done.down == 0 && done.settled == 7 && !s.failures);
	}
}

static const struct {
	const char *name, *answer;
} refusals[] = {
	{"status 400", STATUS("400")},
	{"status 404", STATUS("404")},
	{"redirect", "HTTP/1.1 301 X\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n"},
	{"status 413", STATUS("413")},
};

static void check_refusals(void)
{
	for (size_t i = 0; i < ZN_LEN(refusals); i++) {
		t_begin(refusals[i].name);
		begin(ZN_TO_OTLP, "127.0.0.1");
		push("a", 1);
		push("b", 2);
		take();
		request("a");
		reply(refusals[i].answer);
		CHECK(!strncmp(request("b"), "POST /x HTTP", 12));
		CHECK(done.sent[ZN_SENT_REFUSED] == 1 && done.dropped == 1 && done.settled == 1 && done.queued == 1);
		reply(OK);
		CHECK(reaches(ZN_SENDER_IDLE));
		CHECK(done.sent[ZN_SENT_OK] == 1 && done.settled == 2);
	}
}

T(retry_after)
{
	begin(ZN_TO_WEBHOOK, "127.0.0.1");
	push("{}", 7);
	take();
	request("{}");
	reply("HTTP/1.1 503 X\r\nRetry-After: 30\r\nContent-Length: 0\r\n\r\n");
	CHECK(reaches(ZN_SENDER_WAITING));
	CHECK(s.due_ns >= now + 30 * S && s.due_ns <= now + 31 * S);
}

T(pauses_grow)
{
	uint64_t first;

	begin(ZN_TO_WEBHOOK, "127.0.0.1");
	close(listener);
	listener = -1;
	push("{}", 7);
	CHECK(reaches(ZN_SENDER_WAITING));
	first = s.due_ns - now;
	for (int i = 0; i < 9; i++) {
		pass_pause();
		turn(1);
		CHECK(reaches(ZN_SENDER_WAITING));
	}
	CHECK(first <= S && s.due_ns - now >= 30 * S && s.due_ns - now <= 60 * S);
	CHECK_EQ(done.sent[ZN_SENT_RETRIED], 10);
	listener = listen_here();
	pass_pause();
	take();
	request("{}");
	reply(OK);
	CHECK(reaches(ZN_SENDER_IDLE));
}

/* The status says that the delivery was taken, whatever follows. */
static const struct {
	const char *name, *answer;
	bool close;
} tails[] = {
	{"closed within the body", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", true},
	{"body that never comes", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", false},
	{"a gigabyte", "HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\nabc", false},
	{"a body without end", "HTTP/1.1 200 OK\r\n\r\nabc", false},
	{"bad chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz", false},
};

static void check_tails(void)
{
	for (size_t i = 0; i < ZN_LEN(tails); i++) {
		t_begin(tails[i].name);
		begin(ZN_TO_WEBHOOK, "127.0.0.1");
		push("{}", 7);
		take();
		request("{}");
		reply(tails[i].answer);
		for (int j = 0; j < 20; j++)
			turn(1);
		if (tails[i].close)
			hang_up();
		now += 11 * S;
		CHECK(reaches(ZN_SENDER_IDLE));
		CHECK(done.sent[ZN_SENT_OK] == 1 && done.settled == 7 && s.fd < 0);
	}
}

T(newer_state_wins)
{
	begin(ZN_TO_ALERTMANAGER, "127.0.0.1");
	push("[1]", 1);
	take();
	request("[1]");
	push("[2]", 2);
	push("[3]", 3);
	CHECK_EQ(done.queued, 2);
	reply(OK);
	CHECK(strstr(request("[3]"), "POST"));
	reply(STATUS("500"));
	CHECK(reaches(ZN_SENDER_WAITING));
	push("[4]", 4);
	push("[5]", 5);
	CHECK_EQ(done.queued, 1);
	CHECK_EQ(done.dropped, 0);
	pass_pause();
	hang_up();
	take();
	CHECK(strstr(request("[5]"), "POST"));
	CHECK_EQ(s.queue[0]->number, 5);
}

T(the_oldest_export_is_dropped_first)
{
	char text[16];

	begin(ZN_TO_OTLP, "127.0.0.1");
	close(listener);
	listener = -1;
	push("0", 100);
	CHECK(reaches(ZN_SENDER_WAITING));
	for (unsigned i = 1; i < ZN_DELIVERIES_OTLP + 3; i++) {
		snprintf(text, sizeof(text), "%u", i);
		push(text, 100 + i);
	}
	CHECK(done.queued == ZN_DELIVERIES_OTLP && done.dropped == 3 && done.sent[ZN_SENT_FAILED] == 1);
	CHECK_EQ(s.queue[0]->number, 103);
	CHECK_EQ(s.queue[ZN_DELIVERIES_OTLP - 1]->number, 100 + ZN_DELIVERIES_OTLP + 2);
}

T(a_large_delivery)
{
	static char text[ZN_DELIVERY_BYTES + 1];

	memset(text, 'x', ZN_DELIVERY_BYTES);
	memcpy(text + ZN_DELIVERY_BYTES - 3, "end", 3);
	begin(ZN_TO_OTLP, "127.0.0.1");
	push(text, 1);
	take();
	CHECK_EQ(strlen(strstr(request("end"), "\r\n\r\n")), 4 + ZN_DELIVERY_BYTES);
	reply(OK);
	CHECK(reaches(ZN_SENDER_IDLE));
	CHECK_EQ(done.sent[ZN_SENT_OK], 1);
}

T(a_refusal_before_the_request_was_read)
{
	static char text[ZN_DELIVERY_BYTES + 1];

	memset(text, 'x', ZN_DELIVERY_BYTES);
	begin(ZN_TO_OTLP, "127.0.0.1");
	push(text, 1);
	take();
	for (int i = 0; i < 50; i++)
		turn(1);
	reply(STATUS("413"));
	CHECK(reaches(ZN_SENDER_IDLE));
	CHECK_EQ(done.sent[ZN_SENT_REFUSED], 1);
}

T(a_receiver_that_reads_nothing)
{
	static char text[ZN_DELIVERY_BYTES + 1];

	memset(text, 'x', ZN_DELIVERY_BYTES);
	begin(ZN_TO_OTLP, "127.0.0.1");
	push(text, 1);
	take();
	for (int i = 0; i < 20; i++)
		turn(1);
	now += 11 * S;
	CHECK(reaches(ZN_SENDER_WAITING));
	CHECK_EQ(done.sent[ZN_SENT_RETRIED], 1);
}

/* ---- names ---- */

static int dns = -1;

static bool dns_open(void)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_addr = {htonl(0x7f010203)}, .sin_port = htons(ZN_DNS_PORT)}; /* 127.1.2.3 */

	dns = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return bind(dns, (struct sockaddr *)&at, sizeof(at)) == 0;
}

/* Answers the next two questions: 127.0.0.1 for that of type A if the name is as wanted; what comes first is
 * garbage. */
static void dns_serve(const char *first_label)
{
	for (int i = 0, n = 0; i < PATIENCE && n < 2; i++) {
		struct sockaddr_in from;
		socklen_t len = sizeof(from);
		uint8_t text[512];
		ssize_t got = recvfrom(dns, text, 256, MSG_DONTWAIT, (struct sockaddr *)&from, &len);

		turn(1);
		if (got < 16)
			continue;
		n++;
		sendto(dns, "garbage", 7, 0, (struct sockaddr *)&from, len);
		text[2] |= 0x80;
		if (text[got - 3] == 1 && !memcmp(text + 13, first_label, strlen(first_label))) {
			static const uint8_t record[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1};

			text[7] = 1;
			memcpy(text + got, record, sizeof(record));
			got += (ssize_t)sizeof(record);
		}
		sendto(dns, text, (size_t)got, 0, (struct sockaddr *)&from, len);
	}
}

#define HOSTS "127.0.0.1 receiver.test\n127.9.9.9 two.test\n127.0.0.1 two.test\n"

T(a_name_of_hosts)
{
	begin(ZN_TO_WEBHOOK, "receiver.test");
	push("{}", 1);
	take();
	CHECK(strstr(request("{}"), "\r\nHost: receiver.test:"));
	reply(OK);
	CHECK(reaches(ZN_SENDER_IDLE));
	CHECK_EQ(done.sent[ZN_SENT_OK], 1);
}

/* Large sites have each node in that file, and a line may be longer than any name is. */
T(a_name_far_down_in_hosts)
{
	static char text[300000];
	struct zn_url url = {.host = "far.test", .port = 9};
	struct zn_peer to[ZN_PEERS_MAX];
	size_t len = 0, at;

	for (unsigned i = 0; len < 140000; i++)
		len += (size_t)snprintf(text + len, 64, "10.1.%u.%u node%u.test node%u\n", i >> 8 & 255, i & 255, i, i);
	at = len + 100000;
	memset(text + len, '#', 100000);
	snprintf(text + at, 64, "\n10.2.0.1 far.test\n10.2.0.2 x far.test");
	write_file(hosts, text);
	CHECK_EQ(zn_destination_hosts(hosts, &url, to), 2);
	CHECK_EQ(to[0].address.v4.sin_addr.s_addr, htonl(0x0a020001));
	CHECK_EQ(to[1].address.v4.sin_addr.s_addr, htonl(0x0a020002));
	strcpy(url.host, "node4100.test");
	CHECK_EQ(zn_destination_hosts(hosts, &url, to), 1);
	strcpy(url.host, "node.test");
	CHECK_EQ(zn_destination_hosts(hosts, &url, to), 0);
	write_file(hosts, HOSTS);
}

T(a_second_address)
{
	begin(ZN_TO_WEBHOOK, "two.test");
	push("{}", 1);
	take();
	request("{}");
	reply(OK);
	CHECK(reaches(ZN_SENDER_IDLE));
	CHECK(done.sent[ZN_SENT_OK] == 1 && done.sent[ZN_SENT_RETRIED] == 0);
}

T(a_name_of_the_dns)
{
	begin(ZN_TO_WEBHOOK, "am.test");
	push("{}", 1);
	turn(1);
	CHECK_EQ(s.state, ZN_SENDER_ASKING);
	dns_serve("am");
	take();
	request("{}");
	reply(OK);
	CHECK(reaches(ZN_SENDER_IDLE));
	CHECK_EQ(done.sent[ZN_SENT_OK], 1);
}

T(a_name_that_there_is_not)
{
	begin(ZN_TO_WEBHOOK, "am.test");
	push("{}", 1);
	turn(1);
	dns_serve("other"); /* as it is, */
	dns_serve("other"); /* and in the domain of the search list */
	CHECK(reaches(ZN_SENDER_WAITING));
	CHECK_EQ(done.sent[ZN_SENT_RETRIED], 1);
}

T(name_servers_that_do_not_answer)
{
	begin(ZN_TO_WEBHOOK, "am.test");
	push("{}", 1);
	for (int i = 0; i < 10 && s.state != ZN_SENDER_WAITING; i++) {
		turn(1);
		now += 2 * S;
	}
	CHECK_EQ(s.state, ZN_SENDER_WAITING);
}

static void check_names(void)
{
	RUN(a_name_of_hosts);
	RUN(a_name_far_down_in_hosts);
	RUN(a_second_address);
	if (!dns_open()) {
		printf("absent: 3 tests need port %d of 127.1.2.3: %s\n", ZN_DNS_PORT, strerror(errno));
		return;
	}
	RUN(a_name_of_the_dns);
	RUN(a_name_that_there_is_not);
	RUN(name_servers_that_do_not_answer);
}

int main(void)
{
	if (!mkdtemp(files))
		return 1;
	snprintf(hosts, sizeof(hosts), "%s/hosts", files);
	snprintf(resolv_conf, sizeof(resolv_conf), "%s/resolv.conf", files);
	write_file(hosts, HOSTS);
	write_file(resolv_conf, "nameserver 127.1.2.3\nsearch sub.test\noptions timeout:1 attempts:2\n");
	zn_log_level = ZN_ERROR;
	RUN(a_delivery_is_taken);
	RUN(the_connection_is_kept);
	RUN(a_kept_connection_that_was_closed_is_no_failure);
	check_failures();
	check_refusals();
	RUN(retry_after);
	RUN(pauses_grow);
	check_tails();
	RUN(newer_state_wins);
	RUN(the_oldest_export_is_dropped_first);
	RUN(a_large_delivery);
	RUN(a_refusal_before_the_request_was_read);
	RUN(a_receiver_that_reads_nothing);
	check_names();
	zn_destination_close(&s);
	unlink(hosts);
	unlink(resolv_conf);
	rmdir(files);
	return t_end();
}
