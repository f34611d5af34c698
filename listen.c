/* SPDX-License-Identifier: GPL-2.0 */
/*
 * listen.c: the sockets that listen: addresses from --listen, one pair for each (metrics and WebSocket), and
 * accepting. Addresses are numeric only: names would need a resolver, which a static program does not have.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zernel.h"

#define BACKLOG          1024
#define ACCEPTS_PER_TURN 64
#define REST_MS          100

static void listen_for(struct zn_serve *s, uint32_t events)
{
	for (uint32_t i = 0; i < s->listener_count; i++)
		zn_loop_change(s->loop, &s->listener[i].io, events);
}

static void rest_over(struct zn_io *io, uint32_t events)
{
	struct zn_listener *rest = (struct zn_listener *)io;

	(void)events;
	zn_timer_count(io);
	zn_timer_set(io, 0);
	listen_for(rest->serve, EPOLLIN);
}

/* The client that cannot be accepted stays in the queue and would wake the loop again at once: look away. */
static void begin_rest(struct zn_serve *s, int err)
{
	if (!s->rested)
		zn_log(ZN_WARN,
			"serve: cannot accept a connection: %s; retrying every %d ms; a higher limit of open "
			"files helps",
			strerror(err), REST_MS);
	s->rested = true;
	listen_for(s, 0);
	zn_timer_set(&s->rest.io, REST_MS);
}

static void listener_ready(struct zn_io *io, uint32_t events)
{
	struct zn_listener *from = (struct zn_listener *)io;

	(void)events;
	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		int fd = accept4(io->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			zn_conn_welcome(from, fd);
			continue;
		}
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			begin_rest(from->serve, errno);
		return;
	}
}

struct address {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	};
	bool dual; /* IPv4 too */
};

/* A numeric address, IPv6 with or without brackets, or "*". */
static bool parse_address(struct zn_str text, uint16_t port, struct address *to)
{
	char name[INET6_ADDRSTRLEN] = "";

	*to = (struct address){0};
	to->dual = text.len == 1 && *text.at == '*';
	if (to->dual)
		text = (struct zn_str){"::", 2};
	else if (text.len > 2 && *text.at == '[' && text.at[text.len - 1] == ']' && memchr(text.at, ':', text.len))
		text = (struct zn_str){text.at + 1, text.len - 2};
	if (text.len >= sizeof(name))
		return false;
	memcpy(name, text.at, text.len);
	if (inet_pton(AF_INET6, name, &to->v6.sin6_addr) == 1) {
		to->v6.sin6_family = AF_INET6;
		to->v6.sin6_port = htons(port);
		return true;
	}
	to->v4.sin_family = AF_INET;
	to->v4.sin_port = htons(port);
	return inet_pton(AF_INET, name, &to->v4.sin_addr) == 1;
}

/* A listening socket, or -errno. */
static int listen_on(struct address *a)
{
	int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), err;
	bool v6 = a->any.sa_family == AF_INET6;

	if (fd < 0)
		return -errno;
	if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) &&
		(!v6 || !setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){!a->dual}, sizeof(int))) &&
		!bind(fd, &a->any, v6 ? sizeof(a->v6) : sizeof(a->v4)) && !listen(fd, BACKLOG))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* "*" on a machine without IPv6 is IPv4 alone. */
static int listen_anyhow(struct address *a)
{
	int fd = listen_on(a);

	if ((fd != -EAFNOSUPPORT && fd != -EADDRNOTAVAIL) || !a->dual)
		return fd;
	a->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = a->v6.sin6_port};
	return listen_on(a);
}

static uint16_t bound_port(int fd)
{
	struct address a = {0};
	socklen_t len = sizeof(a.v6);

	if (getsockname(fd, &a.any, &len))
		return 0;
	return ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
}

static const char *hint_of(int err, bool ws)
{
	switch (err) {
	case EADDRINUSE: return ws ? "; another zerneld? choose --ws-port" : "; another zerneld? choose --metrics-port";
	case EADDRNOTAVAIL: return "; --listen takes addresses of this machine";
	case EACCES: return "; ports below 1024 need CAP_NET_BIND_SERVICE";
	default: return "";
	}
}

static int add_listener(struct zn_serve *s, struct zn_str text, bool ws, char why[ZN_TEXT_MAX])
{
	uint16_t port = (uint16_t)(ws ? s->view->options->ws_port : s->view->options->metrics_port);
	struct zn_listener *l = &s->listener[s->listener_count];
	bool bare_v6 = *text.at != '[' && memchr(text.at, ':', text.len);
	struct address a;
	int fd, err;

	if (!parse_address(text, port, &a)) {
		snprintf(why, ZN_TEXT_MAX, "--listen: \"%.*s\" is neither a numeric IP address nor *", (int)text.len,
			text.at);
		return -EINVAL;
	}
	fd = listen_anyhow(&a);
	*l = (struct zn_listener){{fd, listener_ready}, s, fd < 0 ? 0 : bound_port(fd), ws};
	s->listener_count++;
	err = fd < 0 ? fd : zn_loop_add(s->loop, &l->io, EPOLLIN);
	if (err)
		snprintf(why, ZN_TEXT_MAX, "cannot listen on %s%.*s%s:%u: %s%s", bare_v6 ? "[" : "", (int)text.len,
			text.at, bare_v6 ? "]" : "", port, strerror(-err), hint_of(-err, ws));
	return err;
}

static int listen_all(struct zn_serve *s, char why[ZN_TEXT_MAX])
{
	const char *at = s->view->options->listen;
	int err = 0;

	for (uint32_t i = 0; !err; i++) {
		struct zn_str text = {at, strcspn(at, ",")};

		if (i == ZN_LISTEN_MAX) {
			snprintf(why, ZN_TEXT_MAX, "--listen: more than %d addresses", ZN_LISTEN_MAX);
			return -EINVAL;
		}
		err = add_listener(s, text, false, why);
		if (!err)
			err = add_listener(s, text, true, why);
		at += text.len;
		if (!*at++)
			break;
	}
	return err;
}

static int open_rest(struct zn_serve *s)
{
	int err = zn_timer_open(&s->rest.io, 0);

	s->rest.serve = s;
	s->rest.io.ready = rest_over;
	return err ? err : zn_loop_add(s->loop, &s->rest.io, EPOLLIN);
}

int zn_listen_open(struct zn_serve *s, char why[ZN_TEXT_MAX])
{
	int err = open_rest(s);

	if (err)
		snprintf(why, ZN_TEXT_MAX, "cannot listen: %s", strerror(-err));
	return err ? err : listen_all(s, why);
}

void zn_listen_close(struct zn_serve *s)
{
	for (uint32_t i = 0; i < s->listener_count; i++)
		zn_loop_forget(s->loop, &s->listener[i].io);
	zn_loop_forget(s->loop, &s->rest.io);
}

uint16_t zn_serve_port(const struct zn_serve *s, bool ws)
{
	for (uint32_t i = 0; i < s->listener_count; i++)
		if (s->listener[i].ws == ws)
			return s->listener[i].port;
	return 0;
}
