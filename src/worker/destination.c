/* SPDX-License-Identifier: GPL-2.0 */
/*
 * destination.c: one destination of the sender: its queue, its connection, and when it is tried again. A state machine
 * over non-blocking sockets, so that one that is dead delays no other: look the name up, connect to one of its
 * addresses, send, read the answer; after a failure wait, and begin again. A connection is kept as long as both sides
 * like it.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "zernel.h"

#define CONNECT_S   5  /* to one address */
#define ANSWER_S    10 /* to send a request and get the whole answer */
#define IDLE_S      50 /* that a connection is kept without a request */
#define SAY_S       60 /* between two lines about refusals */
#define FILE_BYTES  65536
#define HOSTS_BYTES (16 << 20) /* of /etc/hosts, in which large sites have each node */
#define DNS_BYTES   4096       /* of an answer; servers send 512 to who asks as we do */
#define CHUNK_BYTES 16384

static const struct {
	const char *path, *fixed, *type;
} kinds[] = {
	/* path: where the URL says none; fixed: after what it says */
	[ZN_TO_ALERTMANAGER] = {"", "/api/v2/alerts", "application/json"},
	[ZN_TO_WEBHOOK] = {"/", "", "application/json"},
	[ZN_TO_OTLP] = {"/v1/metrics", "", "application/x-protobuf"},
};

/* ---- the queue ---- */

/* Shared with the daemon, which reads it at any time. */
#define ADD(to, n)   __atomic_fetch_add(&(to), n, __ATOMIC_RELAXED)
#define STORE(to, v) __atomic_store_n(&(to), v, __ATOMIC_RELAXED)

static void drop_delivery(struct zn_destination *s, unsigned i)
{
	struct zn_delivery *gone = s->queue[i];

	memmove(&s->queue[i], &s->queue[i + 1], (s->depth - i - 1) * sizeof(gone));
	s->queue[s->depth - 1] = gone;
	s->count--;
	STORE(s->done->queued, s->count);
}

/* A waiting delivery is given up for a newer one. A delivery of the whole state is no loss: the newer one has all
 * of it. */
static void give_up(struct zn_destination *s, unsigned i)
{
	bool loss = s->depth != ZN_DELIVERIES_STATE;

	ADD(s->done->sent[ZN_SENT_FAILED], loss && s->queue[i]->tried);
	ADD(s->done->dropped, loss);
	drop_delivery(s, i);
}

void zn_destination_push(struct zn_destination *s, struct zn_str text, uint64_t number)
{
	unsigned under_way = s->state == ZN_SENDER_TALKING; /* deliveries that stay where they are */
	struct zn_delivery *delivery;

	if (text.len > ZN_DELIVERY_BYTES)
		return;
	while (s->count > under_way && (s->depth == ZN_DELIVERIES_STATE || s->count == s->depth))
		give_up(s, under_way);
	delivery = s->queue[s->count++];
	delivery->number = number;
	delivery->len = (uint32_t)text.len;
	delivery->tried = false;
	memcpy(delivery->text, text.at, text.len);
	STORE(s->done->queued, s->count);
}

/* ---- what becomes of a request ---- */

static void hang_up(struct zn_destination *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	s->kept = false;
}

static void enter_state(struct zn_destination *s, enum zn_destination_state state, uint64_t due_ns)
{
	s->state = state;
	s->due_ns = due_ns;
}

static void fail_attempt(struct zn_destination *s, const char *why, uint64_t now_ns)
{
	uint32_t random = 0;

	hang_up(s);
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = (uint32_t)now_ns;
	if (!s->failures)
		zn_log(ZN_WARN, "sender: %s %s:%u: %s; it is tried again until it works", zn_outbound_label(s->to),
			s->url.host, s->url.port, why);
	s->failures++;
	STORE(s->done->down, 1);
	ADD(s->done->sent[ZN_SENT_RETRIED], 1);
	if (s->count)
		s->queue[0]->tried = true;
	enter_state(
		s, ZN_SENDER_WAITING, now_ns + zn_retry_ms(s->failures, s->reply.retry_after_s, random) * ZN_NS_PER_MS);
}

static void fail_errno(struct zn_destination *s, int err, uint64_t now_ns)
{
	fail_attempt(s, strerror(err), now_ns);
}

/* The first delivery is done with. */
static void settle_delivery(struct zn_destination *s, enum zn_sent result)
{
	ADD(s->done->sent[result], 1);
	ADD(s->done->dropped, result == ZN_SENT_REFUSED);
	STORE(s->done->settled, s->queue[0]->number);
	STORE(s->done->down, 0);
	if (s->failures)
		zn_log(ZN_INFO, "sender: %s %s:%u works again", zn_outbound_label(s->to), s->url.host, s->url.port);
	s->failures = 0;
	drop_delivery(s, 0);
}

static void refuse_delivery(struct zn_destination *s, uint64_t now_ns)
{
	if (!s->said_ns || now_ns - s->said_ns >= SAY_S * ZN_NS_PER_S) {
		zn_log(ZN_WARN, "sender: %s %s:%u: status %d: what was sent is dropped, and counted",
			zn_outbound_label(s->to), s->url.host, s->url.port, s->reply.status);
		s->said_ns = now_ns;
	}
	settle_delivery(s, ZN_SENT_REFUSED);
}

/* The status alone decides, whatever became of the body after it. */
static void conclude_reply(struct zn_destination *s, uint64_t now_ns)
{
	int status = s->reply.status;
	char why[32];

	if (!s->reply.keep_alive || !s->reply.done || s->at < s->head_len + s->queue[0]->len)
		hang_up(s);
	else
		s->kept = true;
	if (status == 408 || status == 429 || status >= 500) {
		snprintf(why, sizeof(why), "status %d", status);
		fail_attempt(s, why, now_ns);
		return;
	}
	if (status < 300)
		settle_delivery(s, ZN_SENT_OK);
	else
		refuse_delivery(s, now_ns);
	enter_state(s, ZN_SENDER_IDLE, s->fd < 0 ? UINT64_MAX : now_ns + IDLE_S * ZN_NS_PER_S);
}

/* ---- request and answer ---- */

static void look_up(struct zn_destination *s, uint64_t now_ns);

/* A connection that was kept may have been closed just as it was used again: that is no failure. */
static void connection_broken(struct zn_destination *s, const char *why, uint64_t now_ns)
{
	if (s->reply.status) {
		conclude_reply(s, now_ns);
	} else if (s->kept && !s->heard) {
		hang_up(s);
		look_up(s, now_ns);
	} else {
		fail_attempt(s, why, now_ns);
	}
}

static void send_request(struct zn_destination *s, uint64_t now_ns)
{
	struct zn_out o = {.at = s->head, .cap = sizeof(s->head)};
	const struct zn_post post = {.url = &s->url,
		.target = s->target,
		.type = kinds[s->to].type,
		.token = s->token,
		.length = s->queue[0]->len};

	zn_post_head(&o, &post); /* fits: its parts have limits */
	s->head_len = o.len;
	s->at = 0;
	s->heard = false;
	zn_reply_init(&s->reply);
	enter_state(s, ZN_SENDER_TALKING, now_ns + ANSWER_S * ZN_NS_PER_S);
}

/* What is left of the request, as far as it goes. */
static int send_some(struct zn_destination *s)
{
	size_t head = s->at < s->head_len ? s->head_len - s->at : 0, body = s->at + head - s->head_len;
	struct iovec part[] = {{s->head + s->at, head}, {s->queue[0]->text + body, s->queue[0]->len - body}};
	struct msghdr message = {.msg_iov = head ? part : part + 1, .msg_iovlen = head ? 2 : 1};
	ssize_t n = sendmsg(s->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	s->at += (size_t)n;
	return 0;
}

static void receive_reply(struct zn_destination *s, uint64_t now_ns)
{
	char text[CHUNK_BYTES];
	ssize_t n = recv(s->fd, text, sizeof(text), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		connection_broken(s, n ? strerror(errno) : "closed without an answer", now_ns);
		return;
	}
	s->heard = true;
	if (zn_reply_read(&s->reply, text, (size_t)n) < 0)
		fail_attempt(s, "its answer is not HTTP", now_ns);
	else if (s->reply.done)
		conclude_reply(s, now_ns);
}

/* An answer may come before all is sent, and then be followed by a reset: it is read first. */
static void on_talking(struct zn_destination *s, short ready, uint64_t now_ns)
{
	int err;

	if (ready & (POLLIN | POLLERR | POLLHUP)) {
		receive_reply(s, now_ns);
	} else if (ready & POLLOUT && s->at < s->head_len + s->queue[0]->len) {
		err = send_some(s);
		if (err)
			connection_broken(s, strerror(-err), now_ns);
	}
}

/* ---- connecting ---- */

static int begin_connect(const struct zn_peer *p)
{
	int fd = socket(p->address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	if (connect(fd, &p->address.any, p->len) == 0 || errno == EINPROGRESS)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* To the next address that does not fail at once; err: of the one before. */
static void connect_next(struct zn_destination *s, int err, uint64_t now_ns)
{
	hang_up(s);
	while (s->peer_at < s->peer_count) {
		s->fd = begin_connect(&s->peer[s->peer_at++]);
		if (s->fd >= 0) {
			enter_state(s, ZN_SENDER_CONNECTING, now_ns + CONNECT_S * ZN_NS_PER_S);
			return;
		}
		err = -s->fd;
	}
	fail_errno(s, err, now_ns);
}

static void on_connecting(struct zn_destination *s, short ready, uint64_t now_ns)
{
	socklen_t len = sizeof(int);
	int err = 0;

	(void)ready;
	if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &err, &len))
		err = errno;
	if (err)
		connect_next(s, err, now_ns);
	else
		send_request(s, now_ns);
}

/* ---- names ---- */

static struct zn_str read_text(const char *path, char *to, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	size_t len = 0;
	ssize_t n;

	if (fd < 0)
		return (struct zn_str){to, 0};
	while ((n = read(fd, to + len, cap - len)) > 0)
		len += (size_t)n;
	close(fd);
	return (struct zn_str){to, len};
}

/* What is in the buffer is lines, but for the end of it. Returns how much of it they were; a line that fills the buffer
 * is passed over. */
static size_t whole_lines(const char *text, size_t len, size_t cap)
{
	const char *end = memrchr(text, '\n', len);

	return end ? (size_t)(end + 1 - text) : len == cap ? len : 0;
}

size_t zn_destination_hosts(const char *path, const struct zn_url *url, struct zn_peer to[ZN_PEERS_MAX])
{
	static char text[FILE_BYTES];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	size_t len = 0, used, count = 0, found;
	struct zn_peer peer[ZN_PEERS_MAX];
	ssize_t n = fd < 0 ? 0 : 1;

	for (size_t total = 0; n > 0 && count < ZN_PEERS_MAX && total < HOSTS_BYTES; total += (size_t)n) {
		n = read(fd, text + len, sizeof(text) - len);
		len += n > 0 ? (size_t)n : 0;
		used = n > 0 ? whole_lines(text, len, sizeof(text)) : len;
		found = zn_hosts_find((struct zn_str){text, used}, url->host, url->port, peer);
		for (size_t i = 0; i < found && count < ZN_PEERS_MAX; i++)
			to[count++] = peer[i];
		len -= used;
		memmove(text, text + used, len);
	}
	if (fd >= 0)
		close(fd);
	return count;
}

/* Asks the server at hand, of the servers in turn as often as resolv.conf says, for both kinds of addresses. */
static int ask_server(struct zn_destination *s)
{
	const struct zn_peer *server = &s->resolver.server[s->server_at % s->resolver.server_count];
	int fd = socket(server->address.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	hang_up(s);
	s->fd = fd;
	if (connect(fd, &server->address.any, server->len))
		return -errno;
	for (int i = 0; i < 2; i++) {
		s->answered[i] = false;
		if (send(fd, s->question[i], s->question_len[i], MSG_NOSIGNAL) < 0)
			return -errno;
	}
	return 0;
}

/* The next server that can be sent to. */
static void ask_on(struct zn_destination *s, uint64_t now_ns)
{
	unsigned most = s->resolver.server_count * s->resolver.attempts;

	s->unsure = false;
	while (s->server_at < most && ask_server(s))
		s->server_at++;
	if (s->server_at < most)
		enter_state(s, ZN_SENDER_ASKING, now_ns + s->resolver.timeout_s * ZN_NS_PER_S);
	else
		fail_attempt(s, "no name server answers", now_ns);
}

static bool make_questions(struct zn_destination *s, const char *name)
{
	static const enum zn_dns_type types[] = {ZN_DNS_A, ZN_DNS_AAAA};
	uint16_t id = 0;

	if (getrandom(&id, sizeof(id), GRND_NONBLOCK) != sizeof(id))
		return false;
	for (int i = 0; i < 2; i++)
		s->question_len[i] = zn_dns_ask(s->question[i], (uint16_t)(id + i), name, types[i]);
	return s->question_len[0] && s->question_len[1];
}

/* The next name that can be asked for. */
static void next_name(struct zn_destination *s, uint64_t now_ns)
{
	char name[ZN_HOST_MAX];

	while (zn_resolver_name(&s->resolver, s->url.host, s->name_at++, name))
		if (make_questions(s, name)) {
			s->server_at = 0;
			ask_on(s, now_ns);
			return;
		}
	fail_attempt(s, "there is no host of this name", now_ns);
}

static void look_up(struct zn_destination *s, uint64_t now_ns)
{
	static char text[FILE_BYTES];

	s->peer_at = s->name_at = 0;
	s->reply.retry_after_s = 0;
	s->reply.status = 0;
	s->peer_count = zn_peer_read(&s->peer[0], s->url.host, s->url.port);
	if (!s->peer_count)
		s->peer_count = zn_destination_hosts(s->hosts, &s->url, s->peer);
	if (s->peer_count) {
		connect_next(s, 0, now_ns);
		return;
	}
	zn_resolver_read(&s->resolver, read_text(s->resolv_conf, text, sizeof(text)));
	next_name(s, now_ns);
}

/* Both kinds were answered, or no more is waited for. */
static void names_answered(struct zn_destination *s, uint64_t now_ns)
{
	if (s->peer_count) {
		connect_next(s, 0, now_ns);
	} else if (s->unsure) {
		s->server_at++;
		ask_on(s, now_ns);
	} else {
		next_name(s, now_ns);
	}
}

static void take_answer(struct zn_destination *s, const uint8_t *at, size_t len)
{
	for (int i = 0; i < 2; i++) {
		const struct zn_dns_wanted want = {.question = s->question[i],
			.question_len = s->question_len[i],
			.port = s->url.port,
			.to = s->peer + s->peer_count,
			.cap = ZN_PEERS_MAX - s->peer_count};
		int n = s->answered[i] ? -EAGAIN : zn_dns_answer(at, len, &want);

		if (n == -EAGAIN)
			continue;
		s->answered[i] = true;
		s->unsure |= n < 0;
		s->peer_count += n > 0 ? (size_t)n : 0;
	}
}

static void on_asking(struct zn_destination *s, short ready, uint64_t now_ns)
{
	uint8_t text[DNS_BYTES];
	ssize_t n = recv(s->fd, text, sizeof(text), MSG_DONTWAIT);

	(void)ready;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0)
		s->unsure = true;
	else
		take_answer(s, text, (size_t)n);
	if (n < 0 || (s->answered[0] && s->answered[1]))
		names_answered(s, now_ns);
}

/* ---- the whole ---- */

/* What comes on a connection that is at rest is its end, or nothing that was asked for. */
static void on_idle(struct zn_destination *s, short ready, uint64_t now_ns)
{
	(void)ready;
	(void)now_ns;
	hang_up(s);
	enter_state(s, ZN_SENDER_IDLE, UINT64_MAX);
}

static void deadline_passed(struct zn_destination *s, uint64_t now_ns)
{
	switch (s->state) {
	case ZN_SENDER_ASKING:
		s->unsure = true;
		names_answered(s, now_ns);
		break;
	case ZN_SENDER_CONNECTING: connect_next(s, ETIMEDOUT, now_ns); break;
	case ZN_SENDER_TALKING:
		s->heard = true; /* there is no point in the same again at once */
		connection_broken(s, "no answer in time", now_ns);
		break;
	case ZN_SENDER_IDLE:
	case ZN_SENDER_WAITING:
		hang_up(s);
		enter_state(s, ZN_SENDER_IDLE, UINT64_MAX);
		break;
	}
}

void zn_destination_step(struct zn_destination *s, short ready, uint64_t now_ns)
{
	static void (*const on[])(struct zn_destination *, short, uint64_t) = {
		[ZN_SENDER_IDLE] = on_idle,
		[ZN_SENDER_ASKING] = on_asking,
		[ZN_SENDER_CONNECTING] = on_connecting,
		[ZN_SENDER_TALKING] = on_talking,
	};

	if (ready && s->fd >= 0 && s->state != ZN_SENDER_WAITING)
		on[s->state](s, ready, now_ns);
	if (now_ns >= s->due_ns)
		deadline_passed(s, now_ns);
	if (s->state != ZN_SENDER_IDLE || !s->count)
		return;
	if (s->fd >= 0)
		send_request(s, now_ns);
	else
		look_up(s, now_ns);
}

struct pollfd zn_destination_poll(const struct zn_destination *s)
{
	bool sending = s->state == ZN_SENDER_TALKING && s->at < s->head_len + s->queue[0]->len;

	return (struct pollfd){.fd = s->fd,
		.events = (short)(s->state == ZN_SENDER_CONNECTING ? POLLOUT
				: sending                          ? POLLIN | POLLOUT
								   : POLLIN)};
}

bool zn_destination_busy(const struct zn_destination *s)
{
	return s->count && s->state != ZN_SENDER_WAITING;
}

static void make_target(struct zn_destination *s)
{
	const char *own = s->url.target[0] ? s->url.target : kinds[s->to].path;
	size_t len = strlen(own);

	if (s->to == ZN_TO_ALERTMANAGER) /* what the URL has is what all paths there begin with */
		len -= len && own[len - 1] == '/';
	if (s->to == ZN_TO_OTLP && !strcmp(own, "/"))
		own = kinds[s->to].path, len = strlen(own);
	snprintf(s->target, sizeof(s->target), "%.*s%s", (int)len, own, kinds[s->to].fixed);
}

void zn_destination_init(struct zn_destination *s, enum zn_outbound to, const struct zn_url *url,
	struct zn_delivery *deliveries, struct zn_destination_done *done)
{
	*s = (struct zn_destination){.to = to, .url = *url, .done = done, .fd = -1, .due_ns = UINT64_MAX};
	s->hosts = "/etc/hosts";
	s->resolv_conf = "/etc/resolv.conf";
	s->depth = zn_destination_depth(to);
	for (unsigned i = 0; i < s->depth; i++)
		s->queue[i] = &deliveries[i];
	make_target(s);
}

void zn_destination_close(struct zn_destination *s)
{
	hang_up(s);
}
