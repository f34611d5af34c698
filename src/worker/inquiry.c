/* SPDX-License-Identifier: GPL-2.0 */
/*
 * inquiry.c: asks the RAS service of NCCL, which is a thread of a user's process, in the process that makes
 * connections: four commands, a line each, and one answer. Whoever answers may be anybody: it gets 10 s and 4 MiB,
 * and what it says becomes a struct of a fixed size as it comes in. Whoever tells this process what to ask, it asks
 * nobody but this node.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zernel.h"

#define CHUNK_BYTES 16384
#define STRING(n)   #n
#define TEXT_OF(n)  STRING(n)

/* What is said, and how the line begins that is answered; the last one is answered by a document. */
static const struct {
	const char *says, *answers, *refuses;
} commands[] = {
	{"CLIENT PROTOCOL 2\n", "SERVER PROTOCOL ", "SERVER PROTOCOL "},
	{"TIMEOUT " TEXT_OF(ZN_INQUIRY_TIMEOUT_S) "\n", "OK", "ERROR"},
	{"SET FORMAT json\n", "OK", "ERROR"}, /* older versions know text alone */
	{"VERBOSE STATUS\n", NULL, NULL},
};
#define LAST (ZN_LEN(commands) - 1)

const char *zn_inquiry_label(enum zn_inquiry_outcome o)
{
	static const char *const labels[] = {
#define X(e, label) label,
		ZN_INQUIRIES(X)
#undef X
	};

	return o < ZN_INQUIRY_COUNT ? labels[o] : "";
}

/* ---- This node. ---- */

static bool write_host(char to[ZN_RAS_HOST], const struct sockaddr *a)
{
	const void *at = a->sa_family == AF_INET ? (const void *)&((const struct sockaddr_in *)a)->sin_addr
						 : (const void *)&((const struct sockaddr_in6 *)a)->sin6_addr;

	return (a->sa_family == AF_INET || a->sa_family == AF_INET6) && inet_ntop(a->sa_family, at, to, ZN_RAS_HOST);
}

static bool is_one_of(char host[][ZN_RAS_HOST], uint32_t count, const char *wanted)
{
	for (uint32_t i = 0; i < count; i++)
		if (!strncmp(host[i], wanted, ZN_RAS_HOST))
			return true;
	return false;
}

uint32_t zn_inquiry_hosts(char to[ZN_RAS_HOSTS][ZN_RAS_HOST])
{
	struct ifaddrs *all = NULL;
	uint32_t count = 0;

	if (getifaddrs(&all))
		return 0;
	for (const struct ifaddrs *a = all; a && count < ZN_RAS_HOSTS; a = a->ifa_next) {
		char host[ZN_RAS_HOST] = "";

		if (a->ifa_addr && write_host(host, a->ifa_addr) && !is_one_of(to, count, host))
			memcpy(to[count++], host, sizeof(host));
	}
	freeifaddrs(all);
	return count;
}

/* ---- The conversation. ---- */

void zn_inquiry_close(struct zn_inquiry *q)
{
	if (q->fd >= 0)
		close(q->fd);
	q->fd = -1;
	q->state = ZN_INQUIRY_IDLE;
	q->due_ns = UINT64_MAX;
}

static void finish_inquiry(struct zn_inquiry *q, enum zn_inquiry_outcome outcome)
{
	zn_inquiry_close(q);
	q->done->outcome = outcome;
	q->done->bytes = q->bytes;
	q->done->answer = q->parse.answer;
	__atomic_store_n(&q->done->number, q->number, __ATOMIC_RELEASE);
}

/* No more comes: it has said all, or it does not go on. */
static void conclude_answer(struct zn_inquiry *q)
{
	const struct zn_ras_answer *a = &q->parse.answer;

	zn_ras_parse_end(&q->parse);
	finish_inquiry(q,
		a->whole                                    ? ZN_INQUIRY_ANSWERED
			: a->understood                     ? ZN_INQUIRY_INCOMPLETE
			: q->step == LAST && q->parse_bytes ? ZN_INQUIRY_NOT_UNDERSTOOD
							    : ZN_INQUIRY_NO_ANSWER);
}

static void send_command(struct zn_inquiry *q)
{
	const char *text = commands[q->step].says;
	size_t len = strlen(text);

	q->reply_len = 0;
	if (send(q->fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)len) /* they fit into any buffer */
		conclude_answer(q);
}

static bool reply_begins(const struct zn_inquiry *q, const char *with)
{
	return q->reply_len >= strlen(with) && !strncasecmp(q->reply, with, strlen(with));
}

/* A line has come. A service that does not know the protocol is asked no more. */
static void take_reply(struct zn_inquiry *q)
{
	if (!reply_begins(q, commands[q->step].answers) && !reply_begins(q, commands[q->step].refuses)) {
		finish_inquiry(q, ZN_INQUIRY_NOT_UNDERSTOOD);
		return;
	}
	q->step++;
	send_command(q);
}

static void take_reply_byte(struct zn_inquiry *q, char c)
{
	if (c == '\n')
		take_reply(q);
	else if (q->reply_len < sizeof(q->reply))
		q->reply[q->reply_len++] = c;
}

static void take_bytes(struct zn_inquiry *q, const char *bytes, size_t len)
{
	size_t at = 0;

	q->bytes += len;
	while (at < len && q->state == ZN_INQUIRY_TALKING && q->step < LAST)
		take_reply_byte(q, bytes[at++]);
	if (q->state != ZN_INQUIRY_TALKING)
		return;
	q->parse_bytes += len - at;
	zn_ras_parse_take(&q->parse, bytes + at, len - at);
	if (q->bytes >= ZN_INQUIRY_BYTES) {
		zn_ras_parse_end(&q->parse);
		finish_inquiry(q, ZN_INQUIRY_TOO_LONG);
	}
}

static void on_talking(struct zn_inquiry *q)
{
	char bytes[CHUNK_BYTES];
	ssize_t n = recv(q->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		conclude_answer(q);
	else
		take_bytes(q, bytes, (size_t)n);
}

static void on_connecting(struct zn_inquiry *q)
{
	socklen_t len = sizeof(int);
	int err = 0;

	if (getsockopt(q->fd, SOL_SOCKET, SO_ERROR, &err, &len) || err) {
		finish_inquiry(q, ZN_INQUIRY_NO_ANSWER);
		return;
	}
	q->state = ZN_INQUIRY_TALKING;
	send_command(q);
}

void zn_inquiry_init(struct zn_inquiry *q, struct zn_inquiry_done *done)
{
	*q = (struct zn_inquiry){.fd = -1, .due_ns = UINT64_MAX, .done = done};
	q->host_count = done ? zn_inquiry_hosts(q->host) : 0;
}

/* False: it is no address of this node, or cannot be. */
static bool begin_connect(struct zn_inquiry *q)
{
	const struct zn_peer *to = &q->ask.peer;
	char host[ZN_RAS_HOST];

	if (to->len > sizeof(to->address) || !write_host(host, &to->address.any) ||
		!is_one_of(q->host, q->host_count, host))
		return false;
	q->fd = socket(to->address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	return q->fd >= 0 && (connect(q->fd, &to->address.any, to->len) == 0 || errno == EINPROGRESS);
}

void zn_inquiry_begin(struct zn_inquiry *q, const struct zn_inquiry_ask *ask, uint64_t number, uint64_t now_ns)
{
	zn_inquiry_close(q);
	q->ask = *ask;
	q->number = number;
	q->bytes = q->parse_bytes = 0;
	q->step = 0;
	q->ask.want.host_count = q->host_count;
	memcpy(q->ask.want.host, q->host, sizeof(q->host));
	zn_ras_parse_init(&q->parse, &q->ask.want);
	if (!begin_connect(q)) {
		finish_inquiry(q, ZN_INQUIRY_NO_ANSWER);
		return;
	}
	setsockopt(q->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	q->state = ZN_INQUIRY_CONNECTING;
	q->due_ns = now_ns + ZN_INQUIRY_PATIENCE_S * ZN_NS_PER_S;
}

struct pollfd zn_inquiry_poll(const struct zn_inquiry *q)
{
	return (struct pollfd){.fd = q->fd, .events = q->state == ZN_INQUIRY_CONNECTING ? POLLOUT : POLLIN};
}

void zn_inquiry_step(struct zn_inquiry *q, short ready, uint64_t now_ns)
{
	if (ready && q->state == ZN_INQUIRY_CONNECTING)
		on_connecting(q);
	else if (ready && q->state == ZN_INQUIRY_TALKING)
		on_talking(q);
	if (q->state != ZN_INQUIRY_IDLE && now_ns >= q->due_ns)
		conclude_answer(q);
}
