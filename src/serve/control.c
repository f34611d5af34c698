/* SPDX-License-Identifier: GPL-2.0 */
/*
 * control.c: the control socket. A connection is one message and one answer, each one datagram of SOCK_SEQPACKET.
 * Anybody may connect; what is done for whom is decided by the credentials that the kernel took when the peer
 * connected (SO_PEERCRED, unix(7)): root tags jobs, all may see which jobs there are, and a job's owner sees what it
 * did.
 *
 * Who may not tag has an allowance of requests and of connections, so that root's hooks are answered at once whatever
 * users do. Connections beyond it are taken a few at a time, so that a flood of them costs the daemon little; root's
 * wait their turn among them.
 */
#include "zernel.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG           1024
#define ACCEPTS_PER_TURN  64
#define LIMIT_NS          (2 * ZN_NS_PER_S) /* from connecting to the end of the message */
#define REQUESTS_BURST    100               /* of one user; then so many a second: */
#define REQUESTS_PER_S    50
#define ROOT_CLIENTS      (ZN_CONTROL_CLIENTS / 4) /* places for root alone */
#define NOBODY            65534u
#define REFUSED_PER_PAUSE 64 /* connections; then nobody is looked at for: */
#define PAUSE_MS          10
#define TOO_OFTEN         "more than 50 requests a second of one user; try again"
#define TELL_NS           (60 * ZN_NS_PER_S)

struct client {
	struct zn_io io; /* first */
	struct zn_control *control;
	uid_t uid;
	uint32_t pid;
	uint32_t owner;      /* of its place */
	const char *refused; /* sent at a tick: a client that asks over and over waits, and costs nothing meanwhile */
	uint64_t since_ns;
};

struct zn_control {
	struct zn_io io; /* first: the listener */
	struct zn_loop *loop;
	char folder[ZN_TEXT_MAX]; /* of messages left as files */
	uid_t owner;              /* who may tag, besides root */
	bool resting;             /* until the next tick */
	struct zn_io pause;       /* a timer */
	uint32_t excess;          /* connections beyond an allowance since the last pause */
	struct client client[ZN_CONTROL_CLIENTS];
	struct zn_quota places; /* of client[] */
	struct zn_rate requests;
	uint64_t refused, logged_refused, logged_ns; /* requests beyond a user's allowance; when and which was logged */
	uint32_t refused_owner;
	struct zn_control_request request; /* at hand */
};

static bool may_tag(const struct zn_control *c, uid_t uid)
{
	return uid == 0 || uid == c->owner;
}

/* ---- Connections. ---- */

/* Sends one datagram, which a socket that was not used yet takes at once, or never. */
static void send_answer(int fd, struct zn_str text)
{
	send(fd, text.at, text.len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void send_line(int fd, const char *word, const char *why)
{
	char text[ZN_TEXT_MAX + 16];
	int len = snprintf(text, sizeof(text), "%s: %s\n", word, why);

	send_answer(fd, (struct zn_str){text, (size_t)len});
}

static void dismiss_client(struct client *cl, const char *why)
{
	struct zn_control *c = cl->control;

	if (why) {
		send_line(cl->io.fd, "busy", why);
		recv(cl->io.fd, c->request.text, sizeof(c->request.text),
			MSG_DONTWAIT); /* else the peer sees a reset, and not this line */
	}
	zn_quota_give(&c->places, cl->owner);
	zn_loop_forget(c->loop, &cl->io);
}

static void answer_client(struct client *cl, size_t len)
{
	struct zn_control *c = cl->control;
	struct zn_out o = {.at = c->request.answer, .cap = sizeof(c->request.answer)};
	int err;

	c->request.asker = (struct zn_annotator){cl->pid, cl->uid, cl->owner, may_tag(c, cl->uid)};
	zn_out_text(&o, "ok\n");
	err = zn_control_act(&c->request, len, &o);
	if (err || o.full)
		send_line(cl->io.fd, "error", err ? c->request.why : "the answer is too long");
	else
		send_answer(cl->io.fd, (struct zn_str){o.at, o.len});
}

/* In the turn in which a slot changed hands the event may be of the one before: then there is nothing to receive. */
static void client_ready(struct zn_io *io, uint32_t events)
{
	struct client *cl = (struct client *)io;
	ssize_t len =
		recv(io->fd, cl->control->request.text, sizeof(cl->control->request.text), MSG_TRUNC | MSG_DONTWAIT);

	(void)events;
	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (len > 0 && cl->refused) { /* what more he sends wakes nobody */
		zn_loop_change(cl->control->loop, io, 0);
		return;
	}
	if (len > 0)
		answer_client(cl, (size_t)len);
	dismiss_client(cl, NULL);
}

static bool is_late(const struct client *cl, uint64_t now_ns)
{
	return cl->io.fd >= 0 && now_ns > cl->since_ns + LIMIT_NS;
}

/* The owner of a peer, whose share of connections it counts against. Peers of root and of our own user are limited
 * by the room alone. The owner of a peer that has ended, or whose pid root has by now, is known by the credentials
 * that the kernel kept at connect(). */
static uint32_t owner_of(const struct zn_control *c, const struct ucred *peer)
{
	uint32_t owner;

	if (may_tag(c, peer->uid))
		return ZN_OWNER_ROOT;
	owner = zn_owner_of(peer->pid);
	return owner == ZN_OWNER_ROOT || owner == NOBODY ? peer->uid : owner;
}

static bool take_request(struct zn_control *c, uint32_t user, uint64_t now_ns)
{
	struct zn_rate_owner *o = zn_rate_owner(&c->requests, (uint64_t)user + 1, now_ns);

	if (zn_rate_take(o, REQUESTS_BURST, ZN_NS_PER_S / REQUESTS_PER_S, now_ns))
		return true;
	o->refused = 0; /* counted for all */
	c->refused++;
	c->refused_owner = user;
	return false;
}

/* Counts by user id first, which costs no look at /proc; then by who owns that id, as one user may have many. */
static bool may_ask(struct zn_control *c, const struct ucred *peer, uint32_t *owner, uint64_t now_ns)
{
	if (!may_tag(c, peer->uid) && !take_request(c, peer->uid, now_ns))
		return false;
	*owner = owner_of(c, peer);
	return may_tag(c, peer->uid) || *owner == peer->uid || take_request(c, *owner, now_ns);
}

/* The client that may not tag and has been connected longest makes room for one that may. */
static void displace_one(struct zn_control *c)
{
	struct client *oldest = NULL;

	for (size_t i = 0; i < ZN_CONTROL_CLIENTS; i++) {
		struct client *cl = &c->client[i];

		if (cl->io.fd >= 0 && !may_tag(c, cl->uid) && (!oldest || cl->since_ns < oldest->since_ns))
			oldest = cl;
	}
	if (oldest)
		dismiss_client(oldest, "too many clients");
}

/* A slot for a newcomer: a free one, or that of a client that takes too long. NULL: none. */
static struct client *slot_for(struct zn_control *c, uint32_t owner, uint64_t now_ns)
{
	for (size_t i = 0; i < ZN_CONTROL_CLIENTS; i++)
		if (is_late(&c->client[i], now_ns))
			dismiss_client(&c->client[i], "no message within 2 s");
	if (owner == ZN_OWNER_ROOT && c->places.used == ZN_CONTROL_CLIENTS)
		displace_one(c);
	if (!zn_quota_take(&c->places, owner))
		return NULL;
	for (size_t i = 0; i < ZN_CONTROL_CLIENTS; i++)
		if (c->client[i].io.fd < 0)
			return &c->client[i];
	zn_quota_give(&c->places, owner); /* never: there are as many */
	return NULL;
}

static void turn_away(struct zn_control *c, int fd, const char *why)
{
	send_line(fd, "busy", why);
	recv(fd, c->request.text, sizeof(c->request.text), MSG_DONTWAIT); /* as in dismiss_client() */
	close(fd);
}

static void welcome_client(struct zn_control *c, int fd)
{
	socklen_t len = sizeof(struct ucred);
	uint64_t now_ns = zn_now_ns();
	struct client *cl;
	struct ucred peer;
	uint32_t owner;
	bool refused;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len)) {
		close(fd);
		return;
	}
	owner = peer.uid;
	refused = !may_ask(c, &peer, &owner, now_ns);
	c->excess += refused;
	cl = slot_for(c, owner, now_ns);
	if (!cl) {
		turn_away(
			c, fd, owner == ZN_OWNER_ROOT ? "too many clients" : "too many clients of one user; try again");
		return;
	}
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){2 * ZN_ANSWER_BYTES}, sizeof(int));
	*cl = (struct client){
		{fd, client_ready}, c, peer.uid, (uint32_t)peer.pid, owner, refused ? TOO_OFTEN : NULL, now_ns};
	if (zn_loop_add(c->loop, &cl->io, EPOLLIN))
		dismiss_client(cl, "no memory");
	else
		client_ready(&cl->io, EPOLLIN); /* most have sent their message by now, and give the slot back */
}

/* The client that cannot be accepted stays in the queue and would wake the loop again at once: look away for a tick. */
static void rest_listener(struct zn_control *c, int err)
{
	zn_log(ZN_WARN, "control: cannot accept a connection: %s; trying again at the next tick", strerror(err));
	c->resting = !zn_loop_change(c->loop, &c->io, 0);
}

static void begin_pause(struct zn_control *c)
{
	c->excess = 0;
	if (zn_timer_set(&c->pause, PAUSE_MS) == 0)
		zn_loop_change(c->loop, &c->io, 0);
}

static void pause_over(struct zn_io *io, uint32_t events)
{
	struct zn_control *c = (struct zn_control *)((char *)io - offsetof(struct zn_control, pause));

	(void)events;
	zn_timer_count(io);
	zn_timer_set(io, 0);
	if (!c->resting)
		zn_loop_change(c->loop, &c->io, EPOLLIN);
}

static void listener_ready(struct zn_io *io, uint32_t events)
{
	struct zn_control *c = (struct zn_control *)io;

	(void)events;
	for (int i = 0; i < ACCEPTS_PER_TURN && c->excess < REFUSED_PER_PAUSE; i++) {
		int fd = accept4(io->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			welcome_client(c, fd);
		} else if (errno != ECONNABORTED) {
			if (errno != EAGAIN && errno != EINTR)
				rest_listener(c, errno);
			break;
		}
	}
	if (c->excess >= REFUSED_PER_PAUSE)
		begin_pause(c);
}

static void tell_refused(struct zn_control *c, uint64_t now_ns)
{
	zn_quota_tell(&c->places, "clients of the control socket", now_ns);
	if (c->refused == c->logged_refused || (c->logged_ns && now_ns - c->logged_ns < TELL_NS))
		return;
	zn_log(ZN_WARN, "control: %llu requests refused, the last one of user %u: more than %d a second of one user",
		(unsigned long long)(c->refused - c->logged_refused), c->refused_owner, REQUESTS_PER_S);
	c->logged_refused = c->refused;
	c->logged_ns = now_ns;
}

void zn_control_tick(struct zn_control *c, uint64_t now_ns)
{
	if (!c)
		return;
	if (c->resting)
		c->resting = zn_loop_change(c->loop, &c->io, EPOLLIN);
	for (size_t i = 0; i < ZN_CONTROL_CLIENTS; i++) {
		struct client *cl = &c->client[i];

		if (cl->io.fd >= 0 && cl->refused)
			dismiss_client(cl, cl->refused);
		else if (is_late(cl, now_ns))
			dismiss_client(cl, "no message within 2 s");
	}
	tell_refused(c, now_ns);
	zn_spool_check(c->request.spool);
}

/* ---- Listening. ---- */

static const char *hint_of(int err)
{
	switch (err) {
	case EADDRINUSE: return "; another zerneld? choose --control";
	case EEXIST: return "; it is no socket, and is left alone";
	case ENOENT: return "; the folder above its own must be there";
	case EACCES: return "; --control none goes without";
	default: return "";
	}
}

static int open_listener(struct zn_control *c, const char *path, char why[ZN_TEXT_MAX])
{
	int err;

	c->io = (struct zn_io){zn_file_listen(path, BACKLOG), listener_ready};
	err = c->io.fd < 0 ? c->io.fd : 0;
	if (!err)
		err = zn_timer_open(&c->pause, 0);
	if (!err)
		err = zn_loop_add(c->loop, &c->pause, EPOLLIN);
	if (err)
		snprintf(why, ZN_TEXT_MAX, "cannot open the control socket %.107s: %s%s", path, strerror(-err),
			hint_of(-err));
	return err;
}

int zn_control_open(struct zn_control **to, struct zn_loop *loop, const struct zn_state *state, const char *path,
	char why[ZN_TEXT_MAX])
{
	struct zn_control *c;
	int err;

	*to = NULL;
	if (!*path)
		return 0;
	c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (c == MAP_FAILED)
		return -errno;
	c->io.fd = -1;
	c->pause = (struct zn_io){-1, pause_over};
	c->loop = loop;
	c->request.state = state;
	c->owner = state->options->simulate ? geteuid() : 0;
	c->places.size = ZN_CONTROL_CLIENTS;
	c->places.reserve = ROOT_CLIENTS;
	for (size_t i = 0; i < ZN_CONTROL_CLIENTS; i++)
		c->client[i] = (struct client){.io = {.fd = -1}, .control = c};
	zn_message_folder(c->folder, path);
	err = open_listener(c, path, why);
	if (err) {
		zn_control_close(c);
		return err;
	}
	*to = c;
	return 0;
}

int zn_control_start(struct zn_control *c)
{
	int err;

	if (!c)
		return 0;
	err = zn_spool_open(&c->request.spool, c->request.state, c->folder, c->owner);
	return err ? err : zn_loop_add(c->loop, &c->io, EPOLLIN);
}

void zn_control_close(struct zn_control *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < ZN_CONTROL_CLIENTS; i++)
		zn_loop_forget(c->loop, &c->client[i].io);
	zn_loop_forget(c->loop, &c->io);
	zn_loop_forget(c->loop, &c->pause);
	zn_spool_close(c->request.spool);
	munmap(c, sizeof(*c));
}
