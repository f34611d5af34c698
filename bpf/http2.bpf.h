/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connections of HTTP/2: what was received or sent is walked frame by frame, over the pieces that it lies in. Only
 * headers of frames, header blocks that are sent, and the first bytes of data that are sent are read. The parser is in
 * zernel.h. A part of requests.bpf.c.
 */
#ifndef ZN_HTTP2_BPF_H
#define ZN_HTTP2_BPF_H

#define PART  16  /* steps of the walk in one function */
#define STEPS 256 /* for one send or receive */

/* ---- streams ---- */

/* A stream begins: an entry of its own, that has what the connection knows of itself. It is made in the scratch memory,
 * looked up anew: before 6.3 no pointer that a function was given can be handed to a map. */
static __always_inline void stream_begin(
	struct zn_request *c, const struct zn_request_scratch *s, struct zn_server *server, __u64 key, __u64 sk)
{
	__u32 slot = s->slot;
	struct zn_request_scratch *own = bpf_map_lookup_elem(&scratch, &slot);
	struct zn_request *fresh, *r;

	if (!own)
		return;
	fresh = &own->fresh;
	__builtin_memset(fresh, 0, sizeof(*fresh));
	fresh->is_unix = c->is_unix;
	fresh->nested = c->nested;
	fresh->owner = c->owner;
	fresh->id = c->id;
	fresh->server = c->server;
	fresh->protocol = c->protocol;
	fresh->scan[0] = sk;
	fresh->scan[1] = c->scan[0];
	fresh->scan[2] = c->scan[1];
	fresh->first_ns = s->walk.now;
	r = entry_make(key, fresh);
	if (r)
		request_begin(r, server, (struct sock *)sk, ZN_ROUTE_H2, s->walk.now);
}

static __always_inline void stream_end(struct zn_request *r, enum zn_request_code code, __u64 key, __u64 now)
{
	request_finish(r, code, now);
	entry_drop(r, key);
}

/* A frame was received: it begins, or ends, or both. Not static: verified once. */
__noinline int frame_received(struct zn_request *c, struct zn_request_scratch *s, __u64 sk)
{
	const struct zn_h2_side *d;
	struct zn_server *server;
	struct zn_request *r;
	__u32 stream, type;
	__u64 key;

	if (!c || !s)
		return 0;
	d = &c->h2.side[0];
	type = d->head[3];
	stream = zn_h2_stream(d);
	server = server_of(c);
	if (!server || !(stream & 1) || (type != ZN_H2_DATA && type != ZN_H2_HEADERS && type != ZN_H2_RST))
		return 0;
	key = zn_h2_key(c, stream);
	r = bpf_map_lookup_elem(&requests, &key);
	if (!r && type == ZN_H2_HEADERS && s->walk.effects & ZN_H2_BEGINS && stream > c->length) {
		c->length = stream;
		stream_begin(c, s, server, key, sk);
	} else if (r && type == ZN_H2_RST) {
		if (s->walk.effects & ZN_H2_ENDS)
			stream_end(r, ZN_OUTCOME_ABORTED, key, s->walk.now);
	} else if (r && !r->events) {
		r->read_ns = s->walk.now;
	}
	return 0;
}

/* Likewise one that was sent. */
__noinline int frame_sent(struct zn_request *c, struct zn_request_scratch *s, __u64 sk)
{
	struct zn_h2_side *d;
	struct zn_server *server;
	struct zn_request *r;
	__u32 type, last;
	__u64 key;

	if (!c || !s)
		return 0;
	d = &c->h2.side[1];
	type = d->head[3];
	key = zn_h2_key(c, zn_h2_stream(d));
	r = bpf_map_lookup_elem(&requests, &key);
	server = r ? server_of(c) : NULL;
	if (!r || !server)
		return 0;
	r->last_ns = s->walk.now;
	if (type == ZN_H2_DATA && s->walk.effects & ZN_H2_BEGINS && zn_h2_is_event(r, d))
		event_count(r, server, sk, s->walk.now);
	if (!(s->walk.effects & ZN_H2_ENDS))
		return 0;
	last = zn_h2_is_last(r, d);
	if (zn_h2_is_block(d) && d->head[4] & ZN_H2_END_HEADERS)
		zn_h2_answered(r, &c->h2.block, last);
	if (last && !r->is_unix && r->series)
		rtt_add(server, (struct sock *)sk);
	if (last && type == ZN_H2_DATA)
		r->flags &= ~ZN_H2_OF_GRPC; /* which ends an answer with headers */
	if (last)
		stream_end(r, zn_h2_code(r), key, s->walk.now);
	else if (type == ZN_H2_RST)
		stream_end(r, ZN_OUTCOME_ABORTED, key, s->walk.now);
	return 0;
}

/* ---- the walk ---- */

/* Takes what is next of the bytes. 0: there are no more, or they cannot be followed. Not static: verified once. */
__noinline int walk_step(struct zn_request *c, struct zn_request_scratch *s, __u32 sends)
{
	struct vector v;
	struct piece p;
	__u32 look, n;

	if (!c || !s)
		return 0;
	s->walk.effects = 0;
	if (!s->walk.left)
		return 0;
	if (!s->walk.piece_left) {
		v = (struct vector){s->walk.at, s->walk.count};
		if (!piece_read(&v, s->walk.piece, s->walk.moved, &p)) {
			s->walk.effects = ZN_H2_BROKEN;
			return 0;
		}
		s->walk.piece++;
		s->walk.base = p.base;
		s->walk.piece_left = p.len < s->walk.left ? p.len : s->walk.left;
		return 1;
	}
	look = zn_h2_look(&c->h2.side[sends & 1], sends);
	n = look ? look : c->h2.side[sends & 1].left;
	if (n > s->walk.piece_left)
		n = s->walk.piece_left;
	if (look) {
		__u32 bytes = n;

		ZN_OPAQUE(bytes);
		bytes &= 2 * ZN_H2_PART - 1;
		if (bpf_probe_read_user(s->bytes, bytes, (void *)s->walk.base)) {
			s->walk.effects = ZN_H2_BROKEN;
			return 0;
		}
		s->have = bytes;
	}
	s->walk.base += n;
	s->walk.piece_left -= n;
	s->walk.left -= n;
	s->walk.effects = zn_h2_feed(c, s, n, sends);
	return !(s->walk.effects & ZN_H2_BROKEN);
}

/* Its streams are ended by the daemon, which may come when the connection is gone. The loss is counted already. */
static __always_inline void connection_leave(struct zn_request *c)
{
	c->broken = 1;
	shared.h2_broken[c->scan[0] & (ZN_H2_BROKEN_KEPT - 1)] = c->scan[0];
	shared.h2_closed = 1;
}

static __always_inline void connection_break(struct zn_request *c)
{
	connection_leave(c);
	zn_lost(ZN_LOST_REQUEST);
}

/* So many steps. 0: the walk is at its end. Not static: verified once. */
__noinline int walk_part(struct zn_request *c, struct zn_request_scratch *s, __u32 sends, __u64 sk)
{
	if (!c || !s)
		return 0;
	for (int i = 0; i < PART; i++) {
		if (!walk_step(c, s, sends))
			return 0;
		if (!s->walk.effects)
			continue;
		if (sends)
			frame_sent(c, s, sk);
		else
			frame_received(c, s, sk);
		if (s->walk.effects & ZN_H2_ENDS)
			zn_h2_next(&c->h2.side[sends & 1]);
	}
	return 1;
}

static __always_inline void frames_walk(
	struct zn_request *c, struct zn_request_scratch *s, const struct vector *v, __u32 moved, __u32 sends, __u64 sk)
{
	__builtin_memset(&s->walk, 0, sizeof(s->walk));
	s->walk.now = bpf_ktime_get_ns();
	s->walk.at = v->at;
	s->walk.count = v->count;
	s->walk.left = s->walk.moved = moved;
	c->last_ns = s->walk.now;
	for (int i = 0; i < STEPS / PART; i++)
		if (!walk_part(c, s, sends, sk))
			break;
	if (s->walk.left || s->walk.effects & ZN_H2_BROKEN)
		connection_break(c);
}

/* Its frames are followed from here on. Its number is never 0, which is what h2_broken holds at first. */
static __always_inline void connection_begin(struct zn_request *c, const struct zn_request_scratch *s)
{
	zn_h2_init(c, s, __sync_fetch_and_add(&shared.next_h2, 1) + 1);
}

/* Something was received on a connection of which no frame can be followed: from the headers of a request on it can. */
static __always_inline bool is_mended(
	struct zn_request *c, struct zn_request_scratch *s, const struct vector *v, __u32 n)
{
	bytes_gather(s, v, n, ZN_LINE_MAX);
	if (!zn_h2_is_asked(s))
		return false;
	connection_begin(c, s);
	return true;
}

#endif
