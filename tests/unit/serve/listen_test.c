/* SPDX-License-Identifier: GPL-2.0 */
/* link: -Wl,--wrap=accept4 */
/*
 * listen_test.c: sockets that listen (listen.c) and who is let in: addresses and paths, the limits of connections,
 * and what happens when accept4() fails.
 */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "server.h"

/* accept4() fails like this, 0: not at all, and how often it did. */
static int accept_error;
static unsigned accept_failures;
int __real_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags);

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
	if (!accept_error)
		return __real_accept4(fd, address, len, flags);
	accept_failures++;
	errno = accept_error;
	return -1;
}

static void start_with(uint64_t connections, uint64_t per_peer)
{
	start();
	s.conn_limit = (uint32_t)connections;
	s.peer_limit = (uint32_t)per_peer;
}

/* Refused clients: one that is here already, or goes on talking, hears why, and does not get a reset. */
static void check_refused(struct client *c, const char *line)
{
	struct reply r;

	say_text(c, "GET /alerts HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(await_reply(c, &r, false));
	CHECK_EQ(r.status, 503);
	CHECK(strstr(r.head, "Retry-After: 1\r\n") && strstr(r.head, "Connection: close\r\n"));
	CHECK(r.body && strstr(r.body, line));
	take_reply(c, &r, false);
	CHECK(await_eof(c));
	CHECK_EQ(c->len, 0);
}

static void open_many(struct client *c, size_t count)
{
	for (size_t i = 0; i < count; i++)
		c[i] = open_ws(0);
}

static void hang_up_many(struct client *c, size_t count)
{
	for (size_t i = 0; i < count; i++)
		hang_up(&c[i]);
}

/* By WebSockets, which give way to nobody. */
T(all_connections_in_use)
{
	enum { LIMIT = 4, MORE = 6 };
	struct client c[LIMIT], more[MORE];

	start_with(LIMIT, 2 * LIMIT);
	open_many(c, LIMIT);
	for (size_t i = 0; i < MORE; i++)
		more[i] = dial(false);
	for (int i = 0; i < HANG_TURNS && s.stats.lost[ZN_LOST_CONNECTION] < MORE; i++)
		turn();
	CHECK_EQ(s.stats.conn_count, LIMIT);
	CHECK_EQ(s.refused_count, MORE);
	for (size_t i = 0; i < MORE; i++)
		check_refused(&more[i], "everything is in use");
	CHECK_EQ(s.stats.lost[ZN_LOST_CONNECTION], MORE);
	CHECK_EQ(s.stats.lost[ZN_LOST_PEER], 0);
	CHECK_EQ(s.stats.requests[ZN_ROUTES_MAX][ZN_CODE_503], 0);
	hang_up(&c[2]);
	settle(LIMIT - 1);
	c[2] = dial(false);
	CHECK_EQ(get(&c[2], "/alerts"), 200);
	tick(ZN_DRAIN_S + 1);
	CHECK_EQ(s.refused_count, 0);
	hang_up_many(more, MORE);
	hang_up_many(c, LIMIT);
	settle(0);
	stop();
}

/* More refused clients than can be told so at one time: the others are closed at once, and all are counted. */
T(storm_of_refused)
{
	static struct client c[1 + ZN_REFUSED_MAX + 10];

	start_with(1, 100);
	c[0] = open_ws(0);
	for (size_t i = 1; i < ZN_LEN(c); i++)
		c[i] = dial(false);
	for (int i = 0; i < HANG_TURNS && s.stats.lost[ZN_LOST_CONNECTION] < ZN_LEN(c) - 1; i++)
		turn();
	CHECK_EQ(s.stats.conn_count, 1);
	CHECK_EQ(s.refused_count, ZN_REFUSED_MAX);
	CHECK_EQ(s.stats.lost[ZN_LOST_CONNECTION], ZN_LEN(c) - 1);
	for (size_t i = 0; i < ZN_LEN(c); i++)
		hang_up(&c[i]);
	settle(0);
	tick(ZN_DRAIN_S + 1);
	CHECK_EQ(s.refused_count, 0);
	check_no_body_held();
	stop();
}

static struct client dial_from(const char *from, bool v6)
{
	struct sockaddr_in6 own6 = {.sin6_family = AF_INET6}, to6 = own6;
	struct sockaddr_in own = {.sin_family = AF_INET}, to = own;
	struct client c = {.fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};

	to6.sin6_addr = in6addr_loopback;
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	to6.sin6_port = to.sin_port = htons(zn_serve_port(&s, false));
	inet_pton(AF_INET, from, &own.sin_addr);
	inet_pton(AF_INET6, from, &own6.sin6_addr);
	CHECK(!bind(c.fd, v6 ? (void *)&own6 : (void *)&own, v6 ? sizeof(own6) : sizeof(own)));
	CHECK(!connect(c.fd, v6 ? (void *)&to6 : (void *)&to, v6 ? sizeof(to6) : sizeof(to)));
	return c;
}

static bool has_v6(void)
{
	int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in6 own = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	bool has = probe >= 0 && !bind(probe, (struct sockaddr *)&own, sizeof(own));

	close(probe);
	return has;
}

/* Of the connections for requests the one that has been at the same thing for longest is closed for the next: here one
 * that is idle. It is of the same address, if that has too many; whoever is on this node is one, whichever of its
 * loopback addresses he takes. */
static void check_gives_way(uint32_t limit, uint32_t peer_limit, enum zn_loss counted)
{
	struct client c[4], other;

	start_on("*");
	s.conn_limit = limit;
	s.peer_limit = peer_limit;
	for (size_t i = 0; i < ZN_LEN(c); i++) {
		c[i] = dial_from("127.0.0.1", false);
		settle((uint32_t)i + 1);
	}
	CHECK_EQ(get(&c[0], "/alerts"), 200);
	say_text(&c[2], "GET /al");
	other = dial_from("127.9.9.9", false);
	CHECK_EQ(get(&other, "/alerts"), 200);
	CHECK(await_eof(&c[1]));
	CHECK_EQ(get(&c[0], "/alerts"), 200);
	say_text(&c[2], "erts HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(await(&c[2], strlen("HTTP/1.1 200 ")));
	CHECK_EQ(get(&c[3], "/alerts"), 200);
	CHECK_EQ(s.stats.conn_count, ZN_LEN(c));
	CHECK_EQ(s.stats.lost[counted], 1);
	CHECK_EQ(s.stats.lost[ZN_LOST_PEER] + s.stats.lost[ZN_LOST_CONNECTION], 1);
	CHECK_EQ(s.refused_count, 0);
	hang_up_many(c, ZN_LEN(c));
	hang_up(&other);
	settle(0);
	stop();
}

T(the_longest_idle_gives_way)
{
	check_gives_way(4, 20, ZN_LOST_CONNECTION);
	check_gives_way(20, 4, ZN_LOST_PEER);
	check_gives_way(4, 4, ZN_LOST_PEER);
}

/* As many come in one turn as listeners let in, and for each of them an earlier one goes, whose slot is free at the end
 * of the turn. */
T(newcomers_of_one_turn_have_slots)
{
	static struct client c[ZN_REFUSED_MAX + 20], more[ZN_REFUSED_MAX + 20];

	start_with(ZN_LEN(c), ZN_LEN(c));
	for (size_t i = 0; i < ZN_LEN(c); i++)
		c[i] = dial(false);
	settle(ZN_LEN(c));
	for (; s.conn_high < ZN_CONNS_MAX; s.conn_high++) /* as if all slots had been in use */
		s.conns[s.conn_high].io.fd = -1;
	for (size_t i = 0; i < ZN_LEN(more); i++)
		more[i] = dial(i & 1);
	for (int i = 0; i < HANG_TURNS && s.stats.lost[ZN_LOST_PEER] < ZN_LEN(more); i++)
		turn();
	CHECK_EQ(s.stats.lost[ZN_LOST_PEER], ZN_LEN(more));
	CHECK_EQ(s.stats.conn_count, ZN_LEN(more));
	for (size_t i = 0; i < ZN_LEN(c); i++)
		CHECK(await_eof(&c[i]));
	hang_up_many(c, ZN_LEN(c));
	hang_up_many(more, ZN_LEN(more));
	settle(0);
	stop();
}

/* Those of another address stay, however old they are, unless the newcomer's has none. */
T(newcomers_end_their_own)
{
	struct client old, own, other;

	if (!has_v6())
		return;
	start_on("*");
	s.conn_limit = 2;
	old = dial_from("::1", true);
	settle(1);
	own = dial_from("127.0.0.1", false);
	settle(2);
	other = dial_from("127.0.0.2", false);
	CHECK_EQ(get(&other, "/alerts"), 200);
	CHECK(await_eof(&own));
	CHECK_EQ(get(&old, "/alerts"), 200);
	hang_up(&own);
	hang_up(&other);
	settle(1);
	own = dial_from("::1", true);
	settle(2);
	other = dial_from("127.0.0.2", false);
	CHECK_EQ(get(&other, "/alerts"), 200);
	CHECK(await_eof(&old));
	hang_up(&old);
	hang_up(&own);
	hang_up(&other);
	settle(0);
	stop();
}

/* Who sends byte by byte is not idle, but has had his time: it counts when the request began. */
T(the_slow_give_way)
{
	struct client slow[4], other;

	start_with(20, ZN_LEN(slow));
	for (uint32_t i = 0; i < ZN_LEN(slow); i++) {
		slow[i] = dial(false);
		settle(i + 1);
		say_text(&slow[i], "GET /al");
	}
	for (size_t i = 0; i < ZN_LEN(slow); i++) {
		say_text(&slow[i], "e");
		other = dial(false);
		CHECK_EQ(get(&other, "/alerts"), 200);
		CHECK(await_eof(&slow[i]));
		hang_up(&slow[i]);
		slow[i] = other;
	}
	CHECK_EQ(s.stats.lost[ZN_LOST_PEER], ZN_LEN(slow));
	CHECK_EQ(s.stats.conn_count, ZN_LEN(slow));
	hang_up_many(slow, ZN_LEN(slow));
	settle(0);
	stop();
}

/* One address may have so many connections, and another one gets its own. */
T(connections_per_peer)
{
	struct client c[4], other, refused;

	start_on("*");
	s.conn_limit = 20;
	s.peer_limit = ZN_LEN(c);
	open_many(c, ZN_LEN(c));
	refused = dial_from("127.9.9.9", false);
	check_refused(&refused, "--max-connections-per-peer");
	CHECK_EQ(s.stats.lost[ZN_LOST_PEER], 1);
	CHECK_EQ(s.stats.lost[ZN_LOST_CONNECTION], 0);
	if (has_v6()) {
		other = dial_from("::1", true);
		CHECK_EQ(get(&other, "/alerts"), 200);
		hang_up(&other);
	}
	hang_up(&c[1]);
	settle(ZN_LEN(c) - 1);
	c[1] = dial_from("127.0.0.1", false);
	CHECK_EQ(get(&c[1], "/alerts"), 200);
	CHECK_EQ(s.stats.lost[ZN_LOST_PEER], 1);
	hang_up_many(c, ZN_LEN(c));
	hang_up(&refused);
	stop();
}

/* An eighth of the places is kept for requests. */
static void check_room_beside(uint32_t limit, uint32_t peer_limit, enum zn_loss counted)
{
	struct client c[14], late, other[4];
	struct reply r;

	start_with(limit, peer_limit);
	open_many(c, ZN_LEN(c));
	late = dial(true);
	say_text(&late, HANDSHAKE "\r\n");
	CHECK(await_reply(&late, &r, false));
	CHECK_EQ(r.status, 503);
	CHECK(strstr(r.body, "too many WebSockets"));
	CHECK(strstr(r.body, counted == ZN_LOST_PEER ? "--max-connections-per-peer" : "--max-connections\n"));
	CHECK_EQ(s.stats.lost[counted], 1);
	for (size_t i = 0; i < ZN_LEN(other); i++) {
		other[i] = dial(false);
		CHECK_EQ(get(&other[i], "/alerts"), 200);
	}
	CHECK_EQ(s.stats.ws_count, ZN_LEN(c));
	hang_up_many(c, ZN_LEN(c));
	hang_up_many(other, ZN_LEN(other));
	hang_up(&late);
	settle(0);
	stop();
}

T(web_sockets_leave_room)
{
	check_room_beside(16, 100, ZN_LOST_CONNECTION);
	check_room_beside(100, 16, ZN_LOST_PEER);
}

static int unsent_bytes(int fd)
{
	socklen_t len = sizeof(int);
	int bytes = 0;

	return getsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, &len) ? -1 : bytes;
}

/* What connections are counted by: IPv4 however it came and all of 127.0.0.0/8 as one, IPv6 by /64. And what the kernel
 * holds for one that does not read. */
T(peers)
{
	static const struct {
		const char *listen, *from;
		bool v6;
		uint64_t peer;
	} cases[] = {
		{"127.0.0.1", "127.0.0.1", 0, 0xffff7f000000},
		{"127.0.0.1", "127.1.2.3", 0, 0xffff7f000000},
		{"*", "127.0.0.1", 0, 0xffff7f000000},
		{"::1", "::1", 1, 1},
	};
	bool v6 = has_v6();

	for (size_t i = 0; i < ZN_LEN(cases); i++) {
		struct client c;

		if (cases[i].v6 && !v6)
			continue;
		start_on(cases[i].listen);
		c = dial_from(cases[i].from, cases[i].v6);
		settle(1);
		CHECK_EQ(s.seat[0].peer, cases[i].peer);
		CHECK_EQ(unsent_bytes(s.conns[0].io.fd), 64 << 10);
		hang_up(&c);
		settle(0);
		CHECK_EQ(s.seat[0].peer, 0);
		stop();
	}
}

static unsigned turns_taken;
static void (*next_after)(void *owner);

static void count_turn(void *owner)
{
	turns_taken++;
	next_after(owner);
}

static void quit_ready(struct zn_io *io, uint32_t events)
{
	(void)events;
	zn_timer_count(io);
	loop.stop = true;
}

/* Runs the loop for some rests of the listeners, undisturbed: it may look again every 100 ms, and must not spin. */
static void run_starved(void)
{
	struct zn_io quit = {.ready = quit_ready};
	uint64_t start_ns = zn_now_ns(), allowed;

	zn_loop_change(&loop, &stopper, 0);
	CHECK_EQ(zn_timer_open(&quit, 250), 0);
	CHECK_EQ(zn_loop_add(&loop, &quit, EPOLLIN), 0);
	next_after = loop.after;
	loop.after = count_turn;
	turns_taken = accept_failures = 0;
	turn();
	allowed = 4 + 2 * (zn_now_ns() - start_ns) / (100 * ZN_NS_PER_MS);
	CHECK(turns_taken >= 2);
	CHECK(turns_taken <= allowed);
	CHECK(accept_failures <= allowed);
	zn_loop_forget(&loop, &quit);
	loop.after = next_after;
	zn_loop_change(&loop, &stopper, EPOLLIN);
}

static void check_recovered(struct client *c)
{
	struct itimerspec rest;

	CHECK_EQ(s.stats.conn_count, 0);
	CHECK_EQ(get(c, "/alerts"), 200);
	CHECK_EQ(timerfd_gettime(s.rest.io.fd, &rest), 0);
	CHECK(!rest.it_value.tv_sec && !rest.it_value.tv_nsec);
	CHECK_EQ(s.stats.lost[ZN_LOST_CONNECTION], 0);
}

/* The same with a true lack of descriptors. */
T(no_descriptors)
{
	struct rlimit old, low;
	struct client c;
	int spare;

	start();
	zn_log_level = ZN_ERROR;
	c = dial(false);
	getrlimit(RLIMIT_NOFILE, &old);
	spare = dup(0);
	CHECK(spare >= 0);
	close(spare);
	low = (struct rlimit){(rlim_t)spare + 1, old.rlim_max}; /* one more: the timer */
	setrlimit(RLIMIT_NOFILE, &low);
	run_starved();
	setrlimit(RLIMIT_NOFILE, &old);
	check_recovered(&c);
	zn_log_level = ZN_INFO;
	hang_up(&c);
	stop();
}

T(accept_fails)
{
	static const int errors[] = {EMFILE, ENFILE, ENOMEM, ENOBUFS, EPERM};

	zn_log_level = ZN_ERROR;
	for (size_t i = 0; i < ZN_LEN(errors); i++) {
		struct client c;

		start();
		c = dial(false);
		accept_error = errors[i];
		run_starved();
		CHECK(accept_failures > 0);
		accept_error = 0;
		check_recovered(&c);
		hang_up(&c);
		stop();
	}
	zn_log_level = ZN_INFO;
}

/* What is wrong with one client is no reason to let others wait. */
T(accept_fails_for_a_client)
{
	static const int errors[] = {ECONNABORTED, EPROTO, ENETDOWN, EINTR, EAGAIN};
	struct itimerspec rest;
	struct client c;

	start();
	c = dial(false);
	for (size_t i = 0; i < ZN_LEN(errors); i++) {
		accept_failures = 0;
		accept_error = errors[i];
		for (int t = 0; t < HANG_TURNS && !accept_failures; t++)
			turn();
		CHECK(accept_failures > 0);
		CHECK_EQ(timerfd_gettime(s.rest.io.fd, &rest), 0);
		CHECK(!rest.it_value.tv_sec && !rest.it_value.tv_nsec);
	}
	accept_error = 0;
	CHECK_EQ(get(&c, "/alerts"), 200);
	hang_up(&c);
	stop();
}

static int try_listen(const char *addresses, uint64_t metrics_port, char why[ZN_TEXT_MAX])
{
	struct zn_serve other;
	int err;

	snprintf(options.listen, sizeof(options.listen), "%s", addresses);
	options.metrics_port = metrics_port;
	*why = '\0';
	err = zn_serve_open(&other, &loop, &view, why);
	zn_serve_close(&other);
	zn_serve_close(&other);
	options.metrics_port = 0;
	return err;
}

T(listening)
{
	static const char *const good[] = {"127.0.0.1", "*", "127.0.0.1,127.0.0.2", "0.0.0.0"};
	static const char *const bad[] = {"", "localhost", "127.0.0.1,", "127.0.0.1,,::1", "127.0.0.1:80",
		"[127.0.0.1]", "[::1", "::1]", "**", "127.0.0.1 ",
		"1.1.1.1111111111111111111111111111111111111111111111111",
		"127.0.0.1,127.0.0.1,127.0.0.1,127.0.0.1,127.0.0.1,127.0.0.1,127.0.0.1,127.0.0.1,127.0.0.1"};
	char why[ZN_TEXT_MAX], want[ZN_TEXT_MAX];
	unsigned before;
	uint16_t port;

	start();
	port = zn_serve_port(&s, false);
	CHECK(port && zn_serve_port(&s, true) && zn_serve_port(&s, true) != port);
	before = open_descriptors();
	for (size_t i = 0; i < ZN_LEN(good); i++) {
		CHECK_EQ(try_listen(good[i], 0, why), 0);
		CHECK_STR(why, "");
	}
	for (size_t i = 0; i < ZN_LEN(bad); i++) {
		CHECK_EQ(try_listen(bad[i], 0, why), -EINVAL);
		CHECK(!strncmp(why, "--listen: ", 10));
	}
	CHECK_EQ(try_listen("127.0.0.2,127.0.0.1", port, why), -EADDRINUSE);
	snprintf(want, sizeof(want),
		"cannot listen on 127.0.0.1:%u: Address already in use; another zerneld? choose --metrics-port", port);
	CHECK_STR(why, want);
	CHECK_EQ(try_listen("192.0.2.1", 0, why), -EADDRNOTAVAIL);
	CHECK_STR(why,
		"cannot listen on 192.0.2.1:0: Cannot assign requested address; --listen takes addresses of this machine");
	CHECK_EQ(open_descriptors(), before);
	stop();
}

static int hold_port(uint16_t *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(!bind(fd, (struct sockaddr *)&at, len) && !listen(fd, 1) &&
		!getsockname(fd, (struct sockaddr *)&at, &len));
	*port = ntohs(at.sin_port);
	return fd;
}

/* Others have the port of the metrics: a service serves the other one, and this one once it is free. */
T(a_service_waits_for_its_port)
{
	int log = dup(2), none = open("/dev/null", O_WRONLY | O_CLOEXEC), fd;
	struct client c;
	uint16_t port;

	fd = hold_port(&port);
	setenv("NOTIFY_SOCKET", "/nowhere", 1);
	options.metrics_port = port;
	dup2(none, 2);
	start();
	dup2(log, 2);
	options.metrics_port = 0;
	CHECK_EQ(s.stats.ports_missing, 1);
	CHECK_EQ(zn_serve_port(&s, false), port);
	c = dial(true);
	CHECK_EQ(get(&c, "/alerts"), 404); /* it is that of the WebSocket */
	hang_up(&c);
	tick(10);
	CHECK_EQ(s.stats.ports_missing, 1);
	close(fd);
	zn_log_level = ZN_ERROR;
	tick(20);
	zn_log_level = ZN_INFO;
	CHECK_EQ(s.stats.ports_missing, 0);
	c = dial(false);
	CHECK_EQ(get(&c, "/alerts"), 200);
	hang_up(&c);
	unsetenv("NOTIFY_SOCKET");
	stop();
	close(log);
	close(none);
}

static struct client dial_local(const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	struct client c = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};

	memcpy(to.sun_path, path, strlen(path));
	CHECK(!connect(c.fd, (struct sockaddr *)&to, sizeof(to)));
	return c;
}

static void make_folder(char folder[64], char path[128], char listen[160])
{
	snprintf(folder, 64, "/tmp/serve_test.XXXXXX");
	CHECK(mkdtemp(folder) != NULL);
	snprintf(path, 128, "%s/m.sock", folder);
	snprintf(listen, 160, "unix:%s", path);
}

/* A Unix socket: no token, no name of the host, no limit per peer; /ws on it; no second port. */
T(local_clients)
{
	char folder[64], path[128], listen[160];
	struct client c[3];
	struct stat st;
	struct reply r;

	make_folder(folder, path, listen);
	start_on(listen);
	s.access.tokens.count = 1;
	s.peer_limit = 1;
	CHECK_EQ(stat(path, &st), 0);
	CHECK_EQ(st.st_mode, S_IFSOCK | 0660);
	CHECK_EQ(zn_serve_port(&s, false) + zn_serve_port(&s, true), 0);
	for (int i = 0; i < 3; i++)
		c[i] = dial_local(path);
	for (int i = 0; i < 2; i++) {
		say_text(&c[i], "GET /json HTTP/1.1\r\nHost: evil.example\r\n\r\n");
		CHECK(await_reply(&c[i], &r, false));
		CHECK_EQ(r.status, 200);
	}
	say_text(&c[2], HANDSHAKE "\r\n");
	CHECK(await_reply(&c[2], &r, true));
	CHECK_EQ(r.status, 101);
	CHECK_EQ(s.stats.conn_count, 3);
	for (int i = 0; i < 3; i++)
		hang_up(&c[i]);
	settle(0);
	stop();
	unlink(path);
	rmdir(folder);
}

T(listening_on_a_path)
{
	char folder[64], path[128], listen[160], why[ZN_TEXT_MAX], want[ZN_TEXT_MAX], text[192];
	struct stat before, after;
	mode_t mask = umask(0077);
	unsigned open;

	make_folder(folder, path, listen);
	start_on("127.0.0.1");
	open = open_descriptors();
	CHECK_EQ(try_listen(listen, 0, why), 0);
	CHECK_EQ(stat(path, &before), 0); /* left behind, as by a daemon that may not unlink any more */
	CHECK_EQ(before.st_mode, S_IFSOCK | 0660);
	snprintf(text, sizeof(text), "127.0.0.1,%s", listen);
	CHECK_EQ(try_listen(text, 0, why), 0);
	stop();

	start_on(listen);
	CHECK_EQ(stat(path, &before), 0);
	CHECK_EQ(try_listen(listen, 0, why), -EADDRINUSE);
	snprintf(want, sizeof(want), "cannot listen on %s: Address already in use; another zerneld?", path);
	CHECK_STR(why, want);
	CHECK_EQ(stat(path, &after), 0);
	CHECK_EQ(after.st_ino, before.st_ino);
	snprintf(text, sizeof(text), "unix:%s/no/m.sock", folder);
	CHECK_EQ(try_listen(text, 0, why), -ENOENT);
	CHECK(strstr(why, "; its folder must be there") != NULL);
	stop();

	start_on("127.0.0.1");
	unlink(path);
	CHECK_EQ(mkdir(path, 0700), 0);
	CHECK_EQ(try_listen(listen, 0, why), -EEXIST);
	snprintf(want, sizeof(want), "cannot listen on %s: File exists; it is no socket, and is left alone", path);
	CHECK_STR(why, want);
	CHECK_EQ(open_descriptors(), open);
	stop();
	umask(mask);
	rmdir(path);
	rmdir(folder);
}

T(length_of_a_path)
{
	char folder[64], path[128], listen[160], why[ZN_TEXT_MAX], text[160];
	size_t len;

	make_folder(folder, path, listen);
	start_on("127.0.0.1");
	for (size_t want = 107; want <= 108; want++) {
		len = (size_t)snprintf(text, sizeof(text), "unix:%s/", folder);
		memset(text + len, 'a', 5 + want - len);
		text[5 + want] = '\0';
		CHECK_EQ(try_listen(text, 0, why), want == 107 ? 0 : -EINVAL);
		if (want == 107)
			CHECK_EQ(unlink(text + 5), 0);
	}
	CHECK(strstr(why, "--listen: after unix: comes an absolute path of up to 107 bytes") == why);
	CHECK_EQ(try_listen("unix:", 0, why), -EINVAL);
	CHECK_EQ(try_listen("unix:m.sock", 0, why), -EINVAL);
	stop();
	rmdir(folder);
}

/* IPv6 where the machine has it: bare, in brackets, and through "*". */
T(listening_on_ipv6)
{
	static const char *const forms[] = {"::1", "[::1]", "*"};
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int probe = socket(AF_INET6, SOCK_STREAM, 0);
	bool there = probe >= 0 && !bind(probe, (struct sockaddr *)&to, sizeof(to));
	char why[ZN_TEXT_MAX] = "";

	close(probe);
	for (size_t i = 0; i < ZN_LEN(forms); i++) {
		int fd = socket(AF_INET6, SOCK_STREAM, 0);

		CHECK_EQ(zn_loop_open(&loop), 0);
		snprintf(options.listen, sizeof(options.listen), "%s", forms[i]);
		CHECK_EQ(!zn_serve_open(&s, &loop, &view, why), there || *forms[i] == '*');
		to.sin6_port = htons(zn_serve_port(&s, false));
		CHECK_EQ(!connect(fd, (struct sockaddr *)&to, sizeof(to)), there);
		close(fd);
		if (*forms[i] == '*') {
			struct client v4 = dial(false);

			hang_up(&v4);
		}
		zn_serve_close(&s);
		zn_loop_close(&loop);
	}
}

int main(void)
{
	RUN(all_connections_in_use);
	RUN(storm_of_refused);
	RUN(the_longest_idle_gives_way);
	RUN(newcomers_of_one_turn_have_slots);
	RUN(newcomers_end_their_own);
	RUN(the_slow_give_way);
	RUN(connections_per_peer);
	RUN(web_sockets_leave_room);
	RUN(peers);
	RUN(no_descriptors);
	RUN(accept_fails);
	RUN(accept_fails_for_a_client);
	RUN(listening);
	RUN(a_service_waits_for_its_port);
	RUN(local_clients);
	RUN(listening_on_a_path);
	RUN(length_of_a_path);
	RUN(listening_on_ipv6);
	return t_end();
}
