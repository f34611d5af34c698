/* SPDX-License-Identifier: GPL-2.0 */
/*
 * seats.c: which connections there may be. Where a limit is passed by one more, the request connection that has been
 * at the same thing for longest gives way: one that is idle, sends slowly or reads slowly, and has had its time. So
 * nobody keeps others from asking by holding connections. A WebSocket stays, and some places are no WebSocket's.
 */
#include "zernel.h"

#define FOR_REQUESTS(limit) ((limit) / 8) /* of so many places, those that no WebSocket may take */

void zn_seat_take(struct zn_conn *c, uint64_t peer)
{
	c->serve->stats.conn_count++;
	c->serve->seat[c - c->serve->conns].peer = peer;
}

void zn_seat_leave(struct zn_conn *c)
{
	c->serve->stats.conn_count--;
	c->serve->seat[c - c->serve->conns] = (struct zn_seat){0};
}

void zn_seat_since(struct zn_conn *c, uint64_t now_ns)
{
	if (!c->refused)
		c->serve->seat[c - c->serve->conns].since_ns = now_ns;
}

/* Those of a peer, of which all may be meant, or the WebSockets alone. */
static uint32_t count_of(const struct zn_serve *s, uint64_t peer, bool all)
{
	uint32_t count = 0;

	for (uint32_t i = 0; peer && i < s->conn_high; i++)
		count += s->seat[i].peer == peer && (all || !s->seat[i].since_ns);
	return count;
}

enum zn_loss zn_seat_limit(const struct zn_serve *s, uint64_t peer)
{
	if (count_of(s, peer, true) >= s->peer_limit)
		return ZN_LOST_PEER;
	return s->stats.conn_count >= s->conn_limit ? ZN_LOST_CONNECTION : ZN_LOSS_COUNT;
}

struct zn_conn *zn_seat_oldest(const struct zn_serve *s, uint64_t peer)
{
	struct zn_conn *oldest = NULL;
	uint64_t since_ns = UINT64_MAX;

	for (uint32_t i = 0; i < s->conn_high; i++) {
		const struct zn_seat *p = &s->seat[i];

		if (!p->since_ns || p->since_ns >= since_ns || (peer && p->peer != peer))
			continue;
		since_ns = p->since_ns;
		oldest = &s->conns[i];
	}
	return oldest;
}

enum zn_loss zn_seat_push(const struct zn_conn *c)
{
	const struct zn_serve *s = c->serve;
	uint64_t peer = s->seat[c - s->conns].peer;

	if (peer && count_of(s, peer, false) >= s->peer_limit - FOR_REQUESTS(s->peer_limit))
		return ZN_LOST_PEER;
	return s->stats.ws_count >= s->conn_limit - FOR_REQUESTS(s->conn_limit) ? ZN_LOST_CONNECTION : ZN_LOSS_COUNT;
}
