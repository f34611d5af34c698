/* SPDX-License-Identifier: GPL-2.0 */
/*
 * scrape_test.c: a dcgm-exporter over a real connection on loopback, whose other end is this test: one that answers,
 * refuses, hangs, never ends, is not there, or is something else.
 */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define S    ZN_NS_PER_S
#define LINE "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-aaaaaaaa\"} 87\n"

static struct zn_scrape s;
static struct zn_scrape_done done, copy;
static int listener = -1, peer = -1;
static uint64_t now;

static void step(void)
{
	struct pollfd one = zn_scrape_poll(&s);

	if (one.fd < 0 || poll(&one, 1, 20) <= 0)
		one.revents = 0;
	zn_scrape_step(&s, one.revents, now);
}

static void listen_anew(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(at);
	char url[64];

	if (listener >= 0)
		close(listener);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(bind(listener, (struct sockaddr *)&at, len) == 0 && listen(listener, 4) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&at, &len) == 0);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u", ntohs(at.sin_port));
	now += 100 * S;
	CHECK(zn_scrape_init(&s, url, &done));
	done = (struct zn_scrape_done){0};
}

static void begin(void)
{
	char text[512];
	ssize_t n;

	listen_anew();
	step();
	peer = accept(listener, NULL, NULL);
	CHECK(peer >= 0);
	step();
	n = recv(peer, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = 0;
	CHECK(!strncmp(text, "GET /metrics HTTP/1.0\r\nHost: 127.0.0.1:", 39));
	CHECK(strstr(text, "\r\n\r\n"));
}

static void answer(const char *text)
{
	CHECK_EQ(send(peer, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	step();
}

static void end(enum zn_scrape_outcome want)
{
	close(peer);
	step();
	CHECK(zn_scrape_copy(&copy, &done));
	CHECK_EQ(copy.times[want], 1);
	CHECK_EQ(copy.up, want == ZN_SCRAPE_OK);
	CHECK_EQ(copy.count, want == ZN_SCRAPE_OK);
	CHECK_EQ(s.state, ZN_SCRAPE_IDLE);
	zn_scrape_close(&s);
}

T(it_answers)
{
	begin();
	CHECK(!zn_scrape_copy(&copy, &done));
	answer("HTTP/1.1 200 OK\r\nContent-");
	answer("Type: text/plain\r\n\r\n" LINE);
	end(ZN_SCRAPE_OK);
	CHECK_EQ(copy.reading[0].value[ZN_FIGURE_UTILIZATION], 870000);
}

T(it_refuses)
{
	begin();
	answer("HTTP/1.1 404 Not Found\r\n\r\n" LINE);
	end(ZN_SCRAPE_REFUSED);
}

T(it_is_something_else)
{
	begin();
	answer("SSH-2.0-OpenSSH_9.2\r\n\r\n");
	end(ZN_SCRAPE_NOT_UNDERSTOOD);
	begin();
	answer("HTTP/1.1 200 OK\r\n\r\n<html>\n");
	end(ZN_SCRAPE_NOT_UNDERSTOOD);
	begin();
	answer("\n\n\n\n");
	end(ZN_SCRAPE_NOT_UNDERSTOOD);
}

T(it_is_killed_amid_its_answer)
{
	begin();
	answer("HTTP/1.1 200 OK\r\n\r\n" LINE);
	setsockopt(peer, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger)); /* a reset */
	end(ZN_SCRAPE_UNREACHABLE);
}

/* A header for ever, a body for ever: what is read is bounded. */
T(it_never_ends)
{
	static char junk[65536];

	memset(junk, 'a', sizeof(junk) - 1);
	begin();
	answer("HTTP/1.1 200 OK\r\nX: ");
	for (int i = 0; i < 4 && s.state == ZN_SCRAPE_TALKING; i++)
		answer("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
	send(peer, junk, sizeof(junk) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	step();
	end(ZN_SCRAPE_NOT_UNDERSTOOD);
	begin();
	answer("HTTP/1.1 200 OK\r\n\r\n" LINE);
	for (int i = 0; i < 2000 && s.state == ZN_SCRAPE_TALKING; i++) {
		send(peer, junk, sizeof(junk) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		step();
	}
	end(ZN_SCRAPE_TOO_LONG);
}

T(it_hangs)
{
	begin();
	answer("HTTP/1.1 200 OK\r\n\r\n" LINE);
	now += 9 * S;
	step();
	CHECK_EQ(s.state, ZN_SCRAPE_TALKING);
	now += S;
	step();
	end(ZN_SCRAPE_TIMEOUT);
}

T(it_is_not_there_and_comes_back)
{
	begin();
	end(ZN_SCRAPE_UNREACHABLE); /* closed without an answer */
	listen_anew();
	close(listener);
	listener = -1;
	step();
	step();
	CHECK_EQ(done.times[ZN_SCRAPE_UNREACHABLE], 1);
	CHECK_EQ(s.due_ns, now + 15 * S);
	now += 15 * S;
	step();
	step();
	CHECK_EQ(done.times[ZN_SCRAPE_UNREACHABLE], 2);
}

T(hosts)
{
	CHECK(zn_scrape_init(&s, "", NULL));
	CHECK_EQ(s.due_ns, UINT64_MAX);
	CHECK(zn_scrape_init(&s, "http://localhost:9400/metrics", &done));
	CHECK(!zn_scrape_init(&s, "http://no-such-host.invalid:9400/metrics", &done));
}

int main(void)
{
	RUN(it_answers);
	RUN(it_refuses);
	RUN(it_is_something_else);
	RUN(it_is_killed_amid_its_answer);
	RUN(it_never_ends);
	RUN(it_hangs);
	RUN(it_is_not_there_and_comes_back);
	RUN(hosts);
	return t_end();
}
