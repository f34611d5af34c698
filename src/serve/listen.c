/* SPDX-License-Identifier: GPL-2.0 */
/*
 * listen.c: the sockets that listen, and accepting. An address of --listen has a pair of them, for metrics and for the
 * WebSocket; a path has one, on which /ws is the WebSocket. Addresses are numeric only: names would need a resolver,
 * which a static program does not have. A port that others have does not keep a service from all else: it is tried
 * again.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "zernel.h"

#define UNSENT_BYTES (64 << 10) /* that the kernel may hold for a client who does not read: else up to 4 MiB each */
#define BACKLOG      1024
#define REST_MS      100
#define LOCAL        "unix:"
#define LOCAL_MODE   0660 /* of a Unix socket: who may connect is up to its owner and group */
#define AGAIN_S      5    /* until a port that others have is tried again */

static void listen_for(struct zn_serve *s, uint32_t events)
{
	for (uint32_t i = 0; i < s->listener_count; i++)
		if (!s->listener[i].waits)
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
	bool files = err == EMFILE || err == ENFILE;

	if (!s->rested)
		zn_log(ZN_WARN, "serve: cannot accept a connection: %s; retrying every %d ms%s", strerror(err), REST_MS,
			files ? "; a higher limit of open files helps" : "");
	s->rested = true;
	listen_for(s, 0);
	zn_timer_set(&s->rest.io, REST_MS);
}

struct address {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_un local;
	};
	socklen_t len;
	bool dual; /* IPv4 too */
};

#define LOOPBACK (127ULL << 24)

/* As IPv6 networks, 0:ffff::/32 and 0:0:0:1::/64 are nobody's. Any user of this node has all 16 million of 127.0.0.0/8. */
static uint64_t v4_peer(uint32_t address)
{
	uint64_t host = ntohl(address);

	return 0xffffULL << 32 | (host >> 24 == 127 ? LOOPBACK : host);
}

/* The peer whose connections are counted together: an IPv4 address, however it is written, or an IPv6 network of
 * /64, which one machine may have as a whole. 0: those of a Unix socket, which are not counted. */
static uint64_t peer_of(const struct address *a)
{
	uint64_t network = 0;
	uint32_t address;

	if (a->any.sa_family == AF_INET)
		return v4_peer(a->v4.sin_addr.s_addr);
	if (a->any.sa_family != AF_INET6)
		return 0;
	if (IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr)) {
		memcpy(&address, a->v6.sin6_addr.s6_addr + 12, sizeof(address));
		return v4_peer(address);
	}
	for (int i = 0; i < 8; i++)
		network = network << 8 | a->v6.sin6_addr.s6_addr[i];
	return network ? network : 1; /* ::1 */
}

/* Errors of one client, not of ours (accept(2)): the next client may be well. */
static bool of_client(int err)
{
	return err == ECONNABORTED || err == EPROTO || err == ENOPROTOOPT || err == ENETDOWN || err == ENETUNREACH ||
		err == EHOSTDOWN || err == EHOSTUNREACH || err == ENONET || err == EOPNOTSUPP || err == ETIMEDOUT;
}

static void listener_ready(struct zn_io *io, uint32_t events)
{
	struct zn_listener *from = (struct zn_listener *)io;

	(void)events;
	for (int i = 0; i < ZN_ACCEPTS; i++) {
		struct address a = {.len = sizeof(a.local)};
		int fd = accept4(io->fd, &a.any, &a.len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			from->serve->accepted(from, fd, peer_of(&a));
		} else if (!of_client(errno)) {
			if (errno != EAGAIN && errno != EINTR)
				begin_rest(from->serve, errno);
			return;
		}
	}
}

/* An absolute path that fits. */
static bool parse_local(struct zn_str path, struct address *to)
{
	*to = (struct address){.len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path.len + 1)};
	to->local.sun_family = AF_UNIX;
	if (path.len >= sizeof(to->local.sun_path) || !path.len || *path.at != '/')
		return false;
	memcpy(to->local.sun_path, path.at, path.len);
	return true;
}

/* A numeric address, IPv6 with or without brackets, or "*". */
static bool parse_address(struct zn_str text, uint16_t port, struct address *to)
{
	char name[INET6_ADDRSTRLEN] = "";

	*to = (struct address){.len = sizeof(to->v6)};
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
	to->len = sizeof(to->v4);
	to->v4.sin_family = AF_INET;
	to->v4.sin_port = htons(port);
	return inet_pton(AF_INET, name, &to->v4.sin_addr) == 1;
}

/* Sets what must be set before bind(). The mode of a new Unix socket is that of its descriptor, less the umask. Each
 * connection has the options of its listener. */
static bool prepare_socket(int fd, const struct address *a)
{
	if (a->any.sa_family == AF_UNIX)
		return !fchmod(fd, LOCAL_MODE);
	setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &(int){UNSENT_BYTES}, sizeof(int));
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)))
		return false;
	return a->any.sa_family == AF_INET || !setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){!a->dual}, sizeof(int));
}

/* A socket that does not listen yet, or -errno. */
static int make_socket(const struct address *a)
{
	int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), err;

	if (fd < 0 || prepare_socket(fd, a))
		return fd < 0 ? -errno : fd;
	err = -errno;
	close(fd);
	return err;
}

/* A listening socket, or -errno. */
static int listen_on(const struct address *a)
{
	bool local = a->any.sa_family == AF_UNIX;
	int fd = make_socket(a), err;

	if (fd < 0 ||
		(!bind(fd, &a->any, a->len) && (!local || !chmod(a->local.sun_path, LOCAL_MODE)) &&
			!listen(fd, BACKLOG)))
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
	a->len = sizeof(a->v4);
	return listen_on(a);
}

/* The kernel may have chosen the port. */
static int note_port(struct zn_listener *l)
{
	struct address a = {0};
	socklen_t len = sizeof(a.v6);

	if (getsockname(l->io.fd, &a.any, &len))
		return -errno;
	l->port = ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
	return 0;
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

static int watch_socket(struct zn_serve *s, int fd, struct zn_listener kind)
{
	struct zn_listener *l = &s->listener[s->listener_count++];

	*l = kind;
	l->io = (struct zn_io){fd, listener_ready};
	l->serve = s;
	return fd < 0 ? fd : zn_loop_add(s->loop, &l->io, EPOLLIN);
}

/* systemd starts it again and again, each time without probes, jobs and reports, if it ends over a port. */
static bool is_service(void)
{
	return getenv("NOTIFY_SOCKET") != NULL;
}

/* A socket to which the port will be given once it is free. */
static int wait_for_port(struct zn_serve *s, const struct address *a, struct zn_listener kind)
{
	struct zn_listener *l = &s->listener[s->listener_count];
	int fd = make_socket(a);

	if (fd < 0)
		return fd;
	*l = kind;
	l->io = (struct zn_io){fd, listener_ready};
	l->serve = s;
	l->port = ntohs(a->any.sa_family == AF_INET6 ? a->v6.sin6_port : a->v4.sin_port);
	l->waits = true;
	memcpy(&l->at, a, sizeof(l->at));
	l->at_len = a->len;
	s->listener_count++;
	s->stats.ports_missing++;
	zn_sandbox_listen(fd, l->port);
	return 0;
}

static void log_missing(const char *why, const struct address *a)
{
	char whose[32] = "";
	bool there;
	uint32_t user = zn_listening_user(&a->any, "/proc", SIZE_MAX, &there);

	if (there && user != ZN_UNKNOWN)
		snprintf(whose, sizeof(whose), " by user %u", user);
	zn_log(ZN_ERROR, "serve: %s%s; all else goes on, and it is tried again every %d s", why, whose, AGAIN_S);
}

/* bind() says EINVAL where it went well before, and listen() failed. */
static int take_port(struct zn_serve *s, struct zn_listener *l)
{
	if (bind(l->io.fd, &l->at.any, l->at_len) && errno != EINVAL)
		return -errno;
	return listen(l->io.fd, BACKLOG) ? -errno : zn_loop_add(s->loop, &l->io, EPOLLIN);
}

static void tell_of_port(struct zn_listener *l, int err)
{
	if (err != l->told && err != -EADDRINUSE)
		zn_log(ZN_ERROR, "serve: cannot listen on port %u: %s%s", l->port, strerror(-err),
			hint_of(-err, l->ws));
	l->told = err;
}

void zn_listen_tick(struct zn_serve *s, uint64_t now_ns)
{
	int err;

	if (!s->stats.ports_missing || now_ns < s->again_ns)
		return;
	s->again_ns = now_ns + AGAIN_S * ZN_NS_PER_S;
	for (uint32_t i = 0; i < s->listener_count; i++) {
		struct zn_listener *l = &s->listener[i];

		if (!l->waits)
			continue;
		err = take_port(s, l);
		if (err) {
			tell_of_port(l, err);
			continue;
		}
		l->waits = false;
		s->stats.ports_missing--;
		zn_log(ZN_INFO, "serve: port %u is free, and served from now on", l->port);
	}
}

static int add_address(struct zn_serve *s, struct zn_str text, bool ws, char why[ZN_TEXT_MAX])
{
	uint16_t port = (uint16_t)(ws ? s->state->options->ws_port : s->state->options->metrics_port);
	bool bare_v6 = *text.at != '[' && memchr(text.at, ':', text.len);
	struct address a;
	bool waits;
	int err, fd;

	if (!parse_address(text, port, &a)) {
		snprintf(why, ZN_TEXT_MAX, "--listen: \"%.*s\" is neither a numeric IP address, nor *, nor unix:/PATH",
			(int)text.len, text.at);
		return -EINVAL;
	}
	fd = listen_anyhow(&a);
	err = fd < 0 ? fd : watch_socket(s, fd, (struct zn_listener){.ws = ws});
	if (!err)
		err = note_port(&s->listener[s->listener_count - 1]);
	waits = err == -EADDRINUSE && is_service();
	if (err)
		snprintf(why, ZN_TEXT_MAX, "cannot listen on %s%.*s%s:%u: %s%s", bare_v6 ? "[" : "", (int)text.len,
			text.at, bare_v6 ? "]" : "", port, strerror(-err), waits ? "" : hint_of(-err, ws));
	if (!waits)
		return err;
	log_missing(why, &a);
	why[0] = 0;
	return wait_for_port(s, &a, (struct zn_listener){.ws = ws});
}

static const char *local_hint_of(int err)
{
	switch (err) {
	case EADDRINUSE: return "; another zerneld?";
	case EEXIST: return "; it is no socket, and is left alone";
	case ENOENT: return "; its folder must be there";
	default: return "";
	}
}

static int add_local(struct zn_serve *s, struct zn_str path, char why[ZN_TEXT_MAX])
{
	struct address a;
	int err;

	if (!parse_local(path, &a)) {
		snprintf(why, ZN_TEXT_MAX,
			"--listen: after unix: comes an absolute path of up to %zu bytes, not \"%.*s\"",
			sizeof(a.local.sun_path) - 1, path.len > 128 ? 128 : (int)path.len, path.at);
		return -EINVAL;
	}
	err = zn_file_clear_socket(&a.local, a.len, SOCK_STREAM);
	if (!err)
		err = watch_socket(s, listen_on(&a), (struct zn_listener){.local = true});
	if (err)
		snprintf(why, ZN_TEXT_MAX, "cannot listen on %s: %s%s", a.local.sun_path, strerror(-err),
			local_hint_of(-err));
	return err;
}

static int add_listener(struct zn_serve *s, struct zn_str text, char why[ZN_TEXT_MAX])
{
	size_t prefix = strlen(LOCAL);
	int err;

	if (text.len >= prefix && !memcmp(text.at, LOCAL, prefix))
		return add_local(s, (struct zn_str){text.at + prefix, text.len - prefix}, why);
	err = add_address(s, text, false, why);
	return err ? err : add_address(s, text, true, why);
}

static int listen_all(struct zn_serve *s, char why[ZN_TEXT_MAX])
{
	const char *at = s->state->options->listen;
	int err = 0;

	for (uint32_t i = 0; !err; i++) {
		struct zn_str text = {at, strcspn(at, ",")};

		if (i == ZN_LISTEN_MAX) {
			snprintf(why, ZN_TEXT_MAX, "--listen: more than %d addresses", ZN_LISTEN_MAX);
			return -EINVAL;
		}
		err = add_listener(s, text, why);
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
