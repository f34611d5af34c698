/* SPDX-License-Identifier: GPL-2.0 */
/*
 * export_test.c: exports of more requests than wait at one time, through the queue of a real destination, to a receiver
 * that takes so many of them in each tick. The clock is ours.
 */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define OK       "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define PATIENCE 5000 /* ms that the kernel gets; ends a hang, decides nothing */
#define TOTAL    40
#define EXPORTS  64

static struct zn_delivery deliveries[ZN_DELIVERIES_MAX];
static struct zn_destination_done done;
static struct zn_destination s;
static struct zn_options options;
static struct zn_state state = {.options = &options};
static struct zn_sender sender;
static struct zn_export export;
static int listener = -1, peer = -1;
static uint64_t now;
static unsigned total, begun; /* requests of an export; exports so far */
static unsigned got[EXPORTS][TOTAL + 1], order[EXPORTS * TOTAL], order_count;

/* "03 007!" */
bool zn_otlp_next(struct zn_out *o, const struct zn_state *of, uint64_t now_wall_ms, uint32_t *at)
{
	(void)of;
	(void)now_wall_ms;
	begun += *at == 0;
	if (*at == total)
		return false;
	o->len = (size_t)snprintf(o->at, o->cap, "%02u %03u!", begun, ++*at);
	return true;
}

uint64_t zn_sender_send(struct zn_sender *c, enum zn_outbound to, struct zn_str text)
{
	zn_destination_push(&s, text, ++c->number[to]);
	return c->number[to];
}

static void listen_here(uint16_t *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(at);

	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CHECK(!bind(listener, (struct sockaddr *)&at, len) && !listen(listener, 8) &&
		!getsockname(listener, (struct sockaddr *)&at, &len));
	*port = ntohs(at.sin_port);
}

static void begin(unsigned requests, uint64_t interval_s)
{
	struct zn_url url;
	char text[64];
	uint16_t port;

	listen_here(&port);
	snprintf(text, sizeof(text), "http://127.0.0.1:%u", port);
	CHECK_EQ(zn_url_read(&url, (struct zn_str){text, strlen(text)}), 0);
	done = (struct zn_destination_done){0};
	zn_destination_init(&s, ZN_TO_OTLP, &url, deliveries, &done);
	sender = (struct zn_sender){.destinations[ZN_TO_OTLP] = 1};
	options.otlp_interval_ms = interval_s * 1000;
	zn_export_init(&export, &state, &sender);
	now = 1000 * ZN_NS_PER_S;
	total = requests;
	begun = order_count = 0;
	memset(got, 0, sizeof(got));
}

static void end(void)
{
	zn_destination_close(&s);
	close(peer);
	close(listener);
	peer = -1;
}

static void turn(void)
{
	struct pollfd p = zn_destination_poll(&s);
	int n = p.fd < 0 ? 0 : poll(&p, 1, 1);

	zn_destination_step(&s, n > 0 ? p.revents : 0, now);
	if (peer < 0)
		peer = accept(listener, NULL, NULL);
}

static void note_request(const char *body)
{
	unsigned number, request;

	CHECK_EQ(sscanf(body, "%u %u!", &number, &request), 2);
	CHECK(number < EXPORTS && request <= TOTAL);
	got[number % EXPORTS][request % (TOTAL + 1)]++;
	order[order_count++ % ZN_LEN(order)] = request;
}

/* Takes the next request, if there is one. */
static void take_request(void)
{
	uint64_t settled = done.settled;
	char text[4096];
	size_t len = 0;

	for (int i = 0; i < PATIENCE && s.count && done.settled == settled; i++) {
		ssize_t n = peer < 0 ? 0 : recv(peer, text + len, sizeof(text) - 1 - len, MSG_DONTWAIT);

		len += n > 0 ? (size_t)n : 0;
		if (len && text[len - 1] == '!') {
			text[len] = 0;
			note_request(strstr(text, "\r\n\r\n") + 4);
			CHECK(send(peer, OK, strlen(OK), MSG_NOSIGNAL) > 0);
			len = 0;
		}
		turn();
	}
}

/* A second: the receiver takes so many, then the daemon's tick. */
static void pass_second(unsigned pace)
{
	for (unsigned i = 0; i < pace; i++)
		take_request();
	sender.sum[ZN_TO_OTLP] = done;
	zn_export_tick(&export, now);
	now += ZN_NS_PER_S;
}

T(all_requests_of_a_large_export_arrive)
{
	begin(TOTAL, 1000);
	for (int i = 0; i < 20; i++)
		pass_second(5);
	CHECK_EQ(done.dropped + sender.lost[ZN_TO_OTLP], 0);
	CHECK_EQ(order_count, TOTAL);
	for (unsigned i = 0; i < TOTAL; i++)
		CHECK_EQ(order[i], i + 1);
	CHECK_EQ(begun, 1);
	CHECK(export.render_ns > 0);
	end();
}

/* It takes eight seconds for what is due each three: exports come more rarely, and none loses a request. */
T(an_export_waits_for_the_one_before)
{
	begin(TOTAL, 3);
	for (int i = 0; i < 60; i++)
		pass_second(5);
	CHECK_EQ(done.dropped + sender.lost[ZN_TO_OTLP], 0);
	CHECK(begun >= 4);
	for (unsigned x = 1; x < begun; x++)
		for (unsigned i = 1; i <= TOTAL; i++)
			CHECK_EQ(got[x][i], 1);
	end();
}

T(small_exports_wait_as_ever)
{
	begin(1, 1);
	for (int i = 0; i < ZN_DELIVERIES_OTLP; i++)
		pass_second(0);
	CHECK_EQ(done.dropped + sender.lost[ZN_TO_OTLP], 0);
	CHECK_EQ(done.queued, ZN_DELIVERIES_OTLP);
	pass_second(ZN_DELIVERIES_OTLP);
	CHECK_EQ(order_count, ZN_DELIVERIES_OTLP);
	end();
}

/* What nobody takes makes room for the newest export, from its first request on. */
T(a_receiver_that_takes_nothing)
{
	unsigned last;

	begin(TOTAL, 1);
	for (int i = 0; i < 10; i++)
		pass_second(0);
	last = begun;
	CHECK_EQ(last, 10);
	CHECK(done.dropped && sender.lost[ZN_TO_OTLP]);
	for (int i = 0; i < 30; i++)
		pass_second(5);
	CHECK_EQ(got[last][1], 1);
	CHECK_EQ(got[last][TOTAL], 1);
	end();
}

int main(void)
{
	RUN(all_requests_of_a_large_export_arrive);
	RUN(an_export_waits_for_the_one_before);
	RUN(small_exports_wait_as_ever);
	RUN(a_receiver_that_takes_nothing);
	return t_end();
}
