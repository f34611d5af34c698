/* SPDX-License-Identifier: GPL-2.0 */
/*
 * scrape.c: asks a dcgm-exporter for its page, in the process that makes connections: one GET each 15 s, in HTTP/1.0,
 * so that the answer ends with the connection. Whoever answers may be anybody: it gets 10 s and 4 MiB, and what it says
 * becomes structs of a fixed size as it comes in.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zernel.h"

#define EVERY_NS    (15 * ZN_NS_PER_S)
#define PATIENCE_NS (10 * ZN_NS_PER_S)
#define BYTES_MAX   (4u << 20)
#define CHUNK_BYTES 16384
#define HEAD_MAX    8192

const char *zn_scrape_label(enum zn_scrape_outcome o)
{
	static const char *const labels[] = {
#define X(e, label) label,
		ZN_SCRAPES(X)
#undef X
	};

	return o < ZN_SCRAPE_COUNT ? labels[o] : "";
}

/* ---- In memory that both see. ---- */

static void publish_end(struct zn_scrape *s, enum zn_scrape_outcome outcome)
{
	struct zn_scrape_done *d = s->done;
	uint64_t version = d->version;
	uint32_t count = outcome == ZN_SCRAPE_OK ? s->parse.count : 0;

	__atomic_store_n(&d->version, version + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	d->times[outcome]++;
	d->up = outcome == ZN_SCRAPE_OK;
	d->count = count;
	memcpy(d->reading, s->parse.reading, count * sizeof(d->reading[0]));
	__atomic_store_n(&d->version, version + 2, __ATOMIC_RELEASE);
}

bool zn_scrape_copy(struct zn_scrape_done *to, const struct zn_scrape_done *from)
{
	for (int i = 0; i < 3; i++) {
		uint64_t version = __atomic_load_n(&from->version, __ATOMIC_ACQUIRE);

		if (!version || version & 1)
			continue;
		memcpy(to, from, sizeof(*to));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&from->version, __ATOMIC_RELAXED) == version)
			return true;
	}
	return false;
}

/* ---- The conversation. ---- */

static void hang_up(struct zn_scrape *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	s->state = ZN_SCRAPE_IDLE;
}

static void finish_scrape(struct zn_scrape *s, enum zn_scrape_outcome outcome)
{
	hang_up(s);
	publish_end(s, outcome);
	s->due_ns = s->begun_ns + EVERY_NS;
}

/* The other side has closed, or nothing more is waited for. */
static void conclude_answer(struct zn_scrape *s, bool late)
{
	if (!s->in_body)
		finish_scrape(s, late ? ZN_SCRAPE_TIMEOUT : ZN_SCRAPE_UNREACHABLE);
	else if (late)
		finish_scrape(s, ZN_SCRAPE_TIMEOUT);
	else
		finish_scrape(s, s->parse.count ? ZN_SCRAPE_OK : ZN_SCRAPE_NOT_UNDERSTOOD);
}

/* How many bytes of these belong to the head. The status is 200, or the answer is of no use. */
static size_t take_head(struct zn_scrape *s, const char *bytes, size_t len)
{
	size_t i = 0;

	for (; i < len && !s->in_body && s->state == ZN_SCRAPE_TALKING; i++) {
		if (s->head_len < sizeof(s->head))
			s->head[s->head_len] = bytes[i];
		s->head_len++;
		s->empty_line = bytes[i] == '\n' ? s->empty_line + 1 : bytes[i] == '\r' ? s->empty_line : 0;
		s->in_body = s->empty_line == 2;
		if (s->head_len == sizeof(s->head) && (memcmp(s->head, "HTTP/1.", 7) || memcmp(s->head + 8, " 200", 4)))
			finish_scrape(s, memcmp(s->head, "HTTP/1.", 7) ? ZN_SCRAPE_NOT_UNDERSTOOD : ZN_SCRAPE_REFUSED);
		else if (s->head_len > HEAD_MAX || (s->in_body && s->head_len < sizeof(s->head)))
			finish_scrape(s, ZN_SCRAPE_NOT_UNDERSTOOD);
	}
	return i;
}

static void on_talking(struct zn_scrape *s)
{
	char bytes[CHUNK_BYTES];
	ssize_t n = recv(s->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	size_t at;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) { /* reset: what came may be half of it */
		finish_scrape(s, ZN_SCRAPE_UNREACHABLE);
		return;
	}
	if (n == 0) {
		conclude_answer(s, false);
		return;
	}
	s->bytes += (size_t)n;
	at = take_head(s, bytes, (size_t)n);
	if (s->state != ZN_SCRAPE_TALKING)
		return;
	zn_dcgm_take(&s->parse, bytes + at, (size_t)n - at);
	if (s->bytes >= BYTES_MAX)
		finish_scrape(s, ZN_SCRAPE_TOO_LONG);
}

static void send_request(struct zn_scrape *s)
{
	char text[2 * ZN_TEXT_MAX + 128];
	struct zn_out o = {.at = text, .cap = sizeof(text)};

	zn_out_text(&o, "GET ");
	zn_out_text(&o, s->url.target[0] ? s->url.target : "/metrics");
	zn_out_text(&o, s->url.v6 ? " HTTP/1.0\r\nHost: [" : " HTTP/1.0\r\nHost: ");
	zn_out_text(&o, s->url.host);
	zn_out_text(&o, s->url.v6 ? "]:" : ":");
	zn_out_u64(&o, s->url.port);
	zn_out_text(&o, "\r\nUser-Agent: zerneld\r\nAccept: text/plain\r\n\r\n");
	if (o.full ||
		send(s->fd, text, o.len, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)o.len) /* it fits into any buffer */
		finish_scrape(s, ZN_SCRAPE_UNREACHABLE);
}

static void on_connecting(struct zn_scrape *s)
{
	socklen_t len = sizeof(int);
	int err = 0;

	if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &err, &len) || err) {
		finish_scrape(s, ZN_SCRAPE_UNREACHABLE);
		return;
	}
	s->state = ZN_SCRAPE_TALKING;
	send_request(s);
}

static void begin_scrape(struct zn_scrape *s, uint64_t now_ns)
{
	s->begun_ns = now_ns;
	s->due_ns = now_ns + PATIENCE_NS;
	s->bytes = s->head_len = s->empty_line = 0;
	s->in_body = false;
	zn_dcgm_init(&s->parse);
	s->state = ZN_SCRAPE_CONNECTING;
	s->fd = socket(s->peer.address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->fd < 0 || (connect(s->fd, &s->peer.address.any, s->peer.len) && errno != EINPROGRESS))
		finish_scrape(s, ZN_SCRAPE_UNREACHABLE);
}

bool zn_scrape_init(struct zn_scrape *s, const char *url, struct zn_scrape_done *done)
{
	struct zn_peer peers[ZN_PEERS_MAX];

	*s = (struct zn_scrape){.fd = -1, .due_ns = UINT64_MAX, .done = done};
	if (!url[0] || zn_url_read(&s->url, (struct zn_str){url, strlen(url)}))
		return !url[0];
	if (!zn_peer_read(&s->peer, s->url.host, s->url.port)) {
		if (!zn_destination_hosts("/etc/hosts", &s->url, peers))
			return false;
		s->peer = peers[0];
	}
	s->due_ns = 0;
	return true;
}

struct pollfd zn_scrape_poll(const struct zn_scrape *s)
{
	return (struct pollfd){.fd = s->fd, .events = s->state == ZN_SCRAPE_CONNECTING ? POLLOUT : POLLIN};
}

void zn_scrape_step(struct zn_scrape *s, short ready, uint64_t now_ns)
{
	if (ready && s->state == ZN_SCRAPE_CONNECTING)
		on_connecting(s);
	else if (ready && s->state == ZN_SCRAPE_TALKING)
		on_talking(s);
	if (now_ns < s->due_ns)
		return;
	if (s->state == ZN_SCRAPE_IDLE)
		begin_scrape(s, now_ns);
	else
		conclude_answer(s, true);
}

void zn_scrape_close(struct zn_scrape *s)
{
	hang_up(s);
	s->due_ns = UINT64_MAX;
}
