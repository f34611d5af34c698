/* SPDX-License-Identifier: GPL-2.0 */
/*
 * inquiry.c: asks the RAS service of NCCL, which is a thread of a user's process, in the process that makes
 * connections: four commands, a line each, and one answer. Whoever answers may be anybody: it gets 10 s and 4 MiB,
 * and what it says becomes a struct of a fixed size as it comes in. Whoever tells this process what to ask, it asks
 * nobody but this node. Two files of the kernel say which addresses this node has: systemd's unit allows no netlink
 * socket, which would say it as well.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zernel.h"

#define CHUNK_BYTES 16384
#define LIST_BYTES  (1u << 20) /* of the kernel's routes, and of its addresses of IPv6 */
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

struct hosts {
	char (*to)[ZN_RAS_HOST];
	uint32_t count;
	char leaf[ZN_RAS_HOST]; /* the address that the next lines are about */
};

static void add_host(struct hosts *h, const char *host)
{
	if (h->count == ZN_RAS_HOSTS || is_one_of(h->to, h->count, host))
		return;
	memset(h->to[h->count], 0, ZN_RAS_HOST);
	snprintf(h->to[h->count++], ZN_RAS_HOST, "%s", host);
}

/* "   |-- 10.0.0.7", and then "      /32 host LOCAL" where that is an address of this node. */
static void take_route(struct hosts *h, const char *line)
{
	const char *at = strstr(line, "|-- ");

	if (at)
		snprintf(h->leaf, sizeof(h->leaf), "%s", at + 4);
	else if (strstr(line, "/32 host LOCAL"))
		add_host(h, h->leaf);
}

/* "fe800000000000000000000000000007 02 40 20 80     eth0" */
static void take_interface(struct hosts *h, const char *line)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6};
	char host[ZN_RAS_HOST] = "";

	for (size_t i = 0; i < sizeof(a.sin6_addr); i++, line += 2)
		if (sscanf(line, "%2hhx", &a.sin6_addr.s6_addr[i]) != 1 || !line[1])
			return;
	if (write_host(host, (const struct sockaddr *)&a))
		add_host(h, host);
}

static void read_list(int fd, void (*take)(struct hosts *h, const char *line), struct hosts *h)
{
	char text[4096 + 1], *line, *end;
	size_t len = 0, total = 0;
	ssize_t n;

	while (total < LIST_BYTES && (n = pread(fd, text + len, sizeof(text) - 1 - len, (off_t)total)) > 0) {
		total += (size_t)n;
		len += (size_t)n;
		text[len] = 0;
		for (line = text; (end = strchr(line, '\n')); line = end + 1) {
			*end = 0;
			take(h, line);
		}
		len -= (size_t)(line - text);
		memmove(text, line, len);
	}
}

void zn_inquiry_open_lists(int list[2], const char *proc)
{
	static const char *const names[] = {"fib_trie", "if_inet6"};
	char path[ZN_TEXT_MAX];

	for (size_t i = 0; i < ZN_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s/net/%s", proc, names[i]);
		list[i] = open(path, O_RDONLY | O_CLOEXEC);
	}
}

uint32_t zn_inquiry_hosts(const int list[2], char to[ZN_RAS_HOSTS][ZN_RAS_HOST])
{
	struct hosts h = {.to = to};

	add_host(&h, "127.0.0.1");
	add_host(&h, "::1");
	read_list(list[0], take_route, &h);
	read_list(list[1], take_interface, &h);
	return h.count;
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
	q->list[0] = q->list[1] = -1;
	if (done)
		zn_inquiry_open_lists(q->list, "/proc");
}

/* False: it is no address of this node, or cannot be. */
static bool begin_connect(struct zn_inquiry *q)
{
	const struct zn_peer *to = &q->ask.peer;
	char host[ZN_RAS_HOST];

	if (to->len > sizeof(to->address) || !write_host(host, &to->address.any) ||
		!is_one_of(q->ask.want.host, q->ask.want.host_count, host))
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
	q->ask.want.host_count = zn_inquiry_hosts(q->list, q->ask.want.host);
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
