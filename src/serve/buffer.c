/* SPDX-License-Identifier: GPL-2.0 */
/*
 * buffer.c: the buffers that answers are rendered into. All connections that send the same answer share one buffer.
 * When no buffer is free, or slow clients hold too much memory, the one that they have held longest is taken from them.
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

/* The one that slow readers have held longest; NULL: there is none. */
static const struct zn_buffer *slowest_body(const struct zn_serve *s)
{
	const struct zn_buffer *oldest = NULL;

	for (const struct zn_buffer *b = s->body; b < s->body + ZN_LEN(s->body); b++)
		if (b->refs && !is_newest(s, b) && (!oldest || b->since_ns < oldest->since_ns))
			oldest = b;
	return oldest;
}

/* False: somebody else holds it, too. */
static bool take_from_readers(struct zn_serve *s, const struct zn_buffer *b)
{
	for (uint32_t i = 0; i < s->conn_high; i++)
		if (s->conns[i].body == b)
			cut_off(&s->conns[i]);
	return !b->refs;
}

static size_t held_bytes(const struct zn_serve *s)
{
	size_t sum = 0;

	for (size_t i = 0; i < ZN_LEN(s->body); i++)
		sum += s->body[i].refs ? s->body[i].len : 0;
	return sum;
}

/* The daemon's service may have some 256 MiB, and is ended if it takes more. Who reads as fast as a scraper does is not
 * the slowest, so that he has his answer, however many others read slowly. */
static void limit_bytes(struct zn_serve *s)
{
	const struct zn_buffer *b;

	while (held_bytes(s) > ZN_HELD_BYTES && (b = slowest_body(s)) && take_from_readers(s, b))
		;
}

/* Slow readers do not keep answers from all others. */
static void make_free(struct zn_serve *s)
{
	const struct zn_buffer *b = slowest_body(s);

	if (b && zn_now_ns() >= b->since_ns + ZN_HOLD_S * ZN_NS_PER_S)
		take_from_readers(s, b);
}

struct zn_buffer *zn_buffer_get(struct zn_serve *s)
{
	struct zn_buffer *b;

	limit_bytes(s);
	b = zn_buffer_free(s);
	if (b)
		return b;
	make_free(s);
	b = zn_buffer_free(s);
	s->stats.lost[ZN_LOST_RESPONSE] += !b;
	return b;
}
