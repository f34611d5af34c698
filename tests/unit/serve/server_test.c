/* SPDX-License-Identifier: GPL-2.0 */
/*
 * server_test.c: the server as a whole (server.c): the limit of open files, time limits between two ticks, and
 * what clients are told when it closes.
 */
#include <poll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include "server.h"

/* The end of a connection whose server runs no more. */
static bool await_gone(struct client *c)
{
	for (int i = 0; i < HANG_TURNS && !c->eof && !c->reset; i++) {
		hear(c, 4096);
		usleep(i > 100 ? 1000 : 0);
	}
	return c->eof || c->reset;
}

/* In a child: a hard limit once lowered may stay so. Its exit status: what the soft limit is, less what is wanted. */
static int files_after(rlim_t soft, rlim_t hard, rlim_t want)
{
	pid_t child = fork();
	struct rlimit files = {soft, hard};
	int status = -1;

	if (child == 0) {
		zn_log_level = ZN_ERROR;
		if (setrlimit(RLIMIT_NOFILE, &files))
			_exit(2);
		start();
		getrlimit(RLIMIT_NOFILE, &files);
		_exit(files.rlim_cur != want || files.rlim_max != hard);
	}
	waitpid(child, &status, 0);
	return status;
}

T(limit_of_open_files)
{
	const rlim_t need = ZN_CONNS + ZN_REFUSED_MAX + 1024;
	struct rlimit own;

	getrlimit(RLIMIT_NOFILE, &own);
	CHECK(own.rlim_max > need);
	CHECK_EQ(files_after(200, own.rlim_max, need), 0);
	CHECK_EQ(files_after(need + 1, own.rlim_max, need + 1), 0); /* never lowered */
	CHECK_EQ(files_after(200, 300, 300), 0);
}

/* A WebSocket client is told that the daemon goes, and an answer that is under way gets as far as it can. */
T(farewell)
{
	struct client page, ws;
	struct frame f;
	struct reply r;

	start();
	ws = open_ws(0);
	page = dial(false);
	metrics_bytes = 50000;
	settle(2);
	post(&page, 1, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\nGET");
	turn();
	stop();
	CHECK(await_gone(&ws));
	CHECK(await_gone(&page));
	CHECK(ws.eof && page.eof);
	CHECK(await_frame(&ws, &f));
	CHECK_EQ(f.op, ZN_WS_CLOSE);
	CHECK_MEM(f.data, f.len, "\x03\xe9", 2);
	CHECK(await_reply(&page, &r, false));
	CHECK_EQ(r.length, 50000);
	hang_up(&page);
	hang_up(&ws);
}

/* Clients that are there at the end leave no descriptor behind. */
T(closing)
{
	unsigned before = open_descriptors();
	struct client page, ws;

	start();
	page = dial(false);
	CHECK_EQ(get(&page, "/alerts"), 200);
	ws = dial(true);
	settle(2);
	stop();
	CHECK(await_gone(&page));
	CHECK(await_gone(&ws));
	hang_up(&page);
	hang_up(&ws);
	CHECK_EQ(open_descriptors(), before);
}

/* Ticks may be a minute apart; time limits are not looked at that late, and nobody gets a snapshot for it. */
T(limits_between_ticks)
{
	struct itimerspec every;
	struct client slow, ws;
	struct frame f;

	options.push_interval_ms = 60000;
	start();
	options.push_interval_ms = 0;
	CHECK_EQ(timerfd_gettime(s.limits.fd, &every), 0);
	CHECK_EQ(every.it_interval.tv_sec, ZN_LIMITS_MS / 1000);
	ws = open_ws(0);
	slow = dial(false);
	settle(2);
	deliver(&slow, "G", 1);
	s.conns[0].heard_ns = zn_now_ns() - ZN_PUSH_PING_S * ZN_NS_PER_S;
	s.conns[1].deadline_ns = 0;
	CHECK_EQ(zn_timer_set(&s.limits, 1), 0);
	CHECK_EQ(poll(&(struct pollfd){s.limits.fd, POLLIN, 0}, 1, -1), 1);
	turn();
	CHECK_EQ(s.stats.requests[ZN_ROUTES_MAX][ZN_CODE_408], 1);
	CHECK(await_frame(&ws, &f));
	CHECK_EQ(f.op, ZN_WS_PING);
	take_frame(&ws, &f);
	CHECK_EQ(snapshot_seq, 1);
	hang_up(&ws);
	hang_up(&slow);
	stop();
	start();
	CHECK_EQ(s.limits.fd, -1); /* ticks are close enough */
	stop();
}

int main(void)
{
	RUN(limit_of_open_files);
	RUN(farewell);
	RUN(closing);
	RUN(limits_between_ticks);
	return t_end();
}
