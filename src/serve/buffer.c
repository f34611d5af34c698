/* SPDX-License-Identifier: GPL-2.0 */
/*
 * buffer.c: the buffers that answers are rendered into. All connections that send the same answer share one buffer.
 * When no buffer is free, the one that slow clients have held longest is taken from them.
 */
#include <sys/mman.h>
#include <sys/socket.h>

#include "zernel.h"

#define KEEP_BYTES   (64 << 10) /* of a free body's memory, once it was larger than RETURN_BYTES */
#define RETURN_BYTES (512 << 10)

void zn_buffer_put(struct zn_buffer *b)
{
	if (--b->refs == 0 && b->len > RETURN_BYTES)
		madvise(b->at + KEEP_BYTES, ZN_BUFFER_BYTES - KEEP_BYTES, MADV_DONTNEED);
}

struct zn_buffer *zn_buffer_free(struct zn_serve *s)
{
	for (size_t i = 0; i < ZN_LEN(s->body); i++) {
		if (!s->body[i].refs) {
			s->body[i].refs = 1;
			s->body[i].len = 0;
			s->body[i].since_ns = zn_now_ns();
			return &s->body[i];
		}
	}
	return NULL;
}

static bool is_newest(const struct zn_serve *s, const struct zn_buffer *b)
{
	for (size_t i = 0; i < ZN_LEN(s->variant); i++)
		if (s->variant[i].body == b)
			return true;
	return b == s->shared.body || b == s->packed;
}

/* Ends an answer within. The loop finds the connection closed and forgets it; here its owner may be at work on it. */
static void cut_off(struct zn_conn *c)
{
	c->serve->stats.lost[c->state == ZN_CONN_PUSH ? ZN_LOST_WS_CLIENT : ZN_LOST_ANSWER]++;
	zn_buffer_put(c->body);
	c->body = NULL;
	c->out_at = c->out_len = 0;
	shutdown(c->io.fd, SHUT_RDWR);
}

/* Takes the buffer that slow readers have held longest when none is free, so that they do not keep answers from
 * all others. */
static void evict_slowest(struct zn_serve *s)
{
	struct zn_buffer *oldest = NULL;

	for (size_t i = 0; i < ZN_LEN(s->body); i++)
		if (!is_newest(s, &s->body[i]) && (!oldest || s->body[i].since_ns < oldest->since_ns))
			oldest = &s->body[i];
	if (!oldest || zn_now_ns() < oldest->since_ns + ZN_HOLD_S * ZN_NS_PER_S)
		return;
	for (uint32_t i = 0; i < s->conn_high; i++)
		if (s->conns[i].body == oldest)
			cut_off(&s->conns[i]);
}

struct zn_buffer *zn_buffer_get(struct zn_serve *s)
{
	struct zn_buffer *b = zn_buffer_free(s);

	if (b)
		return b;
	evict_slowest(s);
	b = zn_buffer_free(s);
	s->stats.lost[ZN_LOST_RESPONSE] += !b;
	return b;
}
