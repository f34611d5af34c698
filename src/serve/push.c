/* SPDX-License-Identifier: GPL-2.0 */
/*
 * push.c: the WebSocket side of a connection: who may open one, which frame goes out next, and time limits.
 * Clients that want the same snapshot are a variant and share what is rendered for it; a client that is still taking an
 * older one gets the newest when it is done, and what it missed is counted. What clients say is checked and ignored.
 */
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "zernel.h"

#define PUSH_MESSAGE_MAX  65536
#define PUSH_PACE_MS      50         /* how often those with an interval of their own are looked at */
#define PUSH_SILENCE_S    60         /* closed */
#define PUSH_UNSENT_BYTES (16 << 10) /* that the kernel may hold for a client: old snapshots must not queue there */
#define SUBPROTOCOL       "zernel.v1"
#define GOING_AWAY        1001
#define NOT_ALLOWED       1008
#define TRY_LATER         1013
#define NO_CODE           1005 /* RFC 6455, section 7.4.1: stands for a Close without a code */

static bool protocol_offered(const struct zn_http_req *req)
{
	for (size_t i = 0; i < ZN_WS_PROTOCOLS; i++)
		if (zn_http_has_token(req->ws_protocol[i], SUBPROTOCOL))
			return true;
	return false;
}

static void answer_101(struct zn_conn *c, const struct zn_http_req *req)
{
	char extra[192], accept[ZN_WS_ACCEPT_LEN + 1] = "";
	struct zn_out more = {.at = extra, .cap = sizeof(extra) - 1}, head = {.at = c->out, .cap = sizeof(c->out)};

	zn_ws_accept(req->ws_key, accept);
	zn_out_text(&more, "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ");
	zn_out_text(&more, accept);
	zn_out_text(&more, "\r\n");
	if (protocol_offered(req))
		zn_out_text(&more, "Sec-WebSocket-Protocol: " SUBPROTOCOL "\r\n");
	extra[more.len] = '\0';
	zn_http_head(&head, &(struct zn_http_res){.status = 101, .extra = extra, .no_length = true, .date_s = -1});
	zn_conn_queue(c, head.len, NULL);
}

static bool wants_all(const struct zn_filter *filter)
{
	return filter->topics == ZN_TOPICS_ALL && !filter->job[0];
}

/* The variant of those who want the same, or a free one; NULL: as many different ones as there may be are in use.
 * The first one is kept for those who want all, so that narrow queries never keep the page out. */
static struct zn_variant *find_variant(struct zn_serve *s, const struct zn_filter *filter)
{
	size_t first = wants_all(filter) ? 0 : 1, end = wants_all(filter) ? 1 : ZN_VARIANTS_MAX;
	struct zn_variant *free = NULL;

	for (struct zn_variant *f = s->variant + first; f < s->variant + end; f++) {
		if (f->clients && !memcmp(&f->filter, filter, sizeof(*filter)))
			return f;
		if (!f->clients && !free)
			free = f;
	}
	if (free)
		*free = (struct zn_variant){.filter = *filter};
	return free;
}

static bool render_variant(struct zn_serve *s, struct zn_variant *f, uint64_t now_ns)
{
	struct zn_buffer *b = zn_buffer_get(s);
	struct zn_out o = {.cap = ZN_BUFFER_BYTES};

	if (!b)
		return false;
	o.at = b->at;
	zn_state_refresh(s->state);
	if (!zn_snapshot_json(&o, s->state, &f->filter))
		s->stats.lost[ZN_LOST_TRUNCATED]++;
	b->len = o.len;
	if (o.full) {
		zn_buffer_put(b);
		s->stats.lost[ZN_LOST_RESPONSE]++;
		return false;
	}
	if (f->body)
		zn_buffer_put(f->body);
	f->body = b;
	f->rendered_ns = now_ns;
	return true;
}

void zn_push_render(struct zn_serve *s, uint64_t now_ns)
{
	for (struct zn_variant *f = s->variant; f < s->variant + ZN_VARIANTS_MAX; f++)
		if (f->clients > f->paced)
			render_variant(s, f, now_ns);
}

/* Clients with the same interval are due at the same times, so that they share what is rendered. */
static uint64_t due_after(const struct zn_conn *c, uint64_t now_ns)
{
	uint64_t interval_ns = c->interval_ms * ZN_NS_PER_MS;

	return (now_ns / interval_ns + 1) * interval_ns;
}

static void set_pace(struct zn_conn *c, uint64_t now_ns)
{
	c->variant->paced++;
	if (!c->serve->paced_count++)
		zn_timer_set(&c->serve->pace, PUSH_PACE_MS);
	/* the second snapshot comes after half an interval at the soonest */
	c->next_ns = due_after(c, now_ns + c->interval_ms * ZN_NS_PER_MS / 2);
}

/* The first snapshot is at hand if the variant is rendered at every tick; else it may be as old as an interval. */
static bool first_snapshot(struct zn_conn *c, uint64_t now_ns)
{
	struct zn_variant *f = c->variant;

	if (f->body && (f->clients > f->paced || now_ns < f->rendered_ns + PUSH_PACE_MS * ZN_NS_PER_MS))
		return true;
	return render_variant(c->serve, f, now_ns) || f->body;
}

static void begin_push(struct zn_conn *c, uint32_t interval_ms)
{
	setsockopt(c->io.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &(int){PUSH_UNSENT_BYTES}, sizeof(int));
	zn_ws_init(&c->ws, PUSH_MESSAGE_MAX);
	c->state = ZN_CONN_PUSH;
	c->last = false;
	c->heard_ns = zn_now_ns();
	c->token_set = c->serve->access.token_set;
	c->interval_ms = interval_ms;
	c->due = first_snapshot(c, c->heard_ns);
	c->serve->stats.ws_count++;
	c->variant->clients++;
	if (interval_ms)
		set_pace(c, c->heard_ns);
}

/* Counted, if so. */
static bool is_one_too_many(struct zn_conn *c, char why[ZN_TEXT_MAX])
{
	enum zn_loss passed = zn_seat_push(c);

	if (passed == ZN_LOSS_COUNT)
		return false;
	c->serve->stats.lost[passed]++;
	snprintf(why, ZN_TEXT_MAX, "%s has too many WebSockets; see %s",
		passed == ZN_LOST_PEER ? "this address" : "the daemon",
		passed == ZN_LOST_PEER ? "--max-connections-per-peer" : "--max-connections");
	return true;
}

int zn_push_open(struct zn_conn *c, const struct zn_http_req *req, char why[ZN_TEXT_MAX])
{
	struct zn_filter filter;
	uint32_t interval_ms;
	int status = zn_ws_handshake(req);

	if (status)
		return status;
	if (!zn_auth_origin(&c->serve->access, req, c->ws_port, c->serve->metrics_port))
		return 403;
	if (zn_filter_read(&filter, req->query, true, why))
		return 400;
	interval_ms = filter.interval_ms;
	filter.interval_ms = 0;
	if (is_one_too_many(c, why))
		return 503;
	c->variant = find_variant(c->serve, &filter);
	if (!c->variant)
		return 503;
	answer_101(c, req);
	begin_push(c, interval_ms);
	return 101;
}

void zn_push_leave(struct zn_conn *c)
{
	struct zn_serve *s = c->serve;
	struct zn_variant *f = c->variant;

	s->stats.ws_count--;
	if (c->interval_ms) {
		f->paced--;
		if (!--s->paced_count)
			zn_timer_set(&s->pace, 0);
	}
	c->variant = NULL;
	if (--f->clients)
		return;
	if (f->body)
		zn_buffer_put(f->body);
	*f = (struct zn_variant){0};
}

static void act_on_event(struct zn_conn *c, const struct zn_ws_event *ev)
{
	switch (ev->type) {
	case ZN_WS_EV_PING:
		c->pong_len = (uint8_t)ev->data.len;
		memcpy(c->pong, ev->data.at, ev->data.len);
		c->pong_due = true;
		break;
	case ZN_WS_EV_CLOSE:
	case ZN_WS_EV_ERROR:
		c->closing = true;
		c->close_code = ev->code == NO_CODE ? 0 : ev->code;
		break;
	case ZN_WS_EV_NONE:
	case ZN_WS_EV_DATA:
	case ZN_WS_EV_PONG: break;
	}
}

void zn_push_read(struct zn_conn *c)
{
	struct zn_ws_event ev;
	size_t at = 0;

	while (at < c->in_len) {
		int used = zn_ws_read(&c->ws, c->in + at, c->in_len - at, &ev);

		if (used <= 0)
			break;
		at += (size_t)used;
		act_on_event(c, &ev);
	}
	c->in_len = 0;
}

static void queue_frame(struct zn_conn *c, size_t len, struct zn_buffer *body)
{
	zn_conn_queue(c, len, body);
	c->frame_deadline_ns = zn_now_ns() + ZN_PUSH_FRAME_S * ZN_NS_PER_S;
}

static void queue_control(struct zn_conn *c, enum zn_ws_op op, const char *data, size_t len)
{
	uint8_t head[10];
	size_t head_len = zn_ws_header(head, op, len);

	memcpy(c->out, head, head_len);
	memcpy(c->out + head_len, data, len);
	queue_frame(c, head_len + len, NULL);
}

static void queue_close(struct zn_conn *c)
{
	uint8_t frame[4 + ZN_WS_CONTROL_MAX];
	size_t len = zn_ws_close_frame(frame, c->close_code, "");

	memcpy(c->out, frame, len);
	c->last = true;
	queue_frame(c, len, NULL);
}

static void queue_snapshot(struct zn_conn *c)
{
	struct zn_buffer *b = c->variant->body;
	uint8_t head[10];
	size_t len = zn_ws_header(head, ZN_WS_TEXT, b->len);

	memcpy(c->out, head, len);
	b->refs++;
	c->due = false;
	queue_frame(c, len, b);
}

bool zn_push_next(struct zn_conn *c)
{
	if (c->closing) {
		queue_close(c);
	} else if (c->pong_due) {
		c->pong_due = false;
		queue_control(c, ZN_WS_PONG, c->pong, c->pong_len);
	} else if (c->ping_due) {
		c->ping_due = false;
		queue_control(c, ZN_WS_PING, "", 0);
	} else if (c->due) {
		queue_snapshot(c);
	} else {
		return false;
	}
	return true;
}

static bool output_waits(const struct zn_conn *c)
{
	return c->out_at < c->out_len || c->body;
}

/* Gives a frame that was not begun up for a Close; within one there is no room. */
static bool close_instead(struct zn_conn *c, uint16_t code)
{
	if (c->closing || !c->frame_deadline_ns || c->out_at || c->body_at)
		return false;
	if (c->body)
		zn_buffer_put(c->body);
	c->body = NULL;
	c->closing = true;
	c->close_code = code;
	queue_close(c);
	return true;
}

/* A Close as soon as the frame under way, if one is, has gone. */
static void part_with(struct zn_conn *c, uint16_t code)
{
	if (close_instead(c, code) || c->closing)
		return;
	c->closing = true;
	c->close_code = code;
}

/* It does not read: nothing could be written for too long, or a frame takes too long in all. */
static bool give_up(struct zn_conn *c)
{
	if (!c->closing)
		c->serve->stats.lost[ZN_LOST_WS_CLIENT]++;
	return close_instead(c, TRY_LATER);
}

static void offer_snapshot(struct zn_conn *c)
{
	if (c->closing)
		return;
	c->serve->stats.lost[ZN_LOST_WS_FRAME] += c->due;
	c->due = true;
}

bool zn_push_tick(struct zn_conn *c, uint64_t now_ns)
{
	bool late = c->frame_deadline_ns && now_ns >= c->frame_deadline_ns;
	bool stuck = output_waits(c) && (now_ns >= c->deadline_ns || late);

	if (now_ns >= c->heard_ns + PUSH_SILENCE_S * ZN_NS_PER_S)
		return false;
	if (stuck && !give_up(c))
		return false;
	if (!c->local && c->token_set != c->serve->access.token_set)
		part_with(c, NOT_ALLOWED); /* its token may have been withdrawn; a client with a valid one comes back */
	if (!c->pinged && now_ns >= c->heard_ns + ZN_PUSH_PING_S * ZN_NS_PER_S)
		c->pinged = c->ping_due = true;
	if (!c->interval_ms && c->variant->rendered_ns == now_ns)
		offer_snapshot(c);
	return true;
}

static bool renew_variant(struct zn_serve *s, struct zn_variant *f, uint64_t now_ns)
{
	return (f->body && now_ns < f->rendered_ns + PUSH_PACE_MS * ZN_NS_PER_MS) || render_variant(s, f, now_ns);
}

void zn_push_pace(struct zn_serve *s, uint64_t now_ns)
{
	uint32_t left = s->paced_count;

	for (struct zn_conn *c = s->conns; left && c < s->conns + s->conn_high; c++) {
		if (c->io.fd < 0 || c->state != ZN_CONN_PUSH || !c->interval_ms)
			continue;
		left--;
		if (now_ns < c->next_ns)
			continue;
		c->next_ns = due_after(c, now_ns);
		if (!renew_variant(s, c->variant, now_ns))
			continue;
		offer_snapshot(c);
		zn_conn_advance(c);
	}
}

static void pace_ready(struct zn_io *io, uint32_t events)
{
	(void)events;
	zn_timer_count(io);
	zn_push_pace((struct zn_serve *)((char *)io - offsetof(struct zn_serve, pace)), zn_now_ns());
}

int zn_push_start(struct zn_serve *s, uint16_t metrics_port)
{
	int err = zn_timer_open(&s->pace, 0);

	s->metrics_port = metrics_port;
	s->pace.ready = pace_ready;
	return err ? err : zn_loop_add(s->loop, &s->pace, EPOLLIN);
}

void zn_push_bye(struct zn_conn *c)
{
	part_with(c, GOING_AWAY);
	zn_conn_advance(c);
}
