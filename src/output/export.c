/* SPDX-License-Identifier: GPL-2.0 */
/*
 * export.c: pushes all metrics by OTLP, every --otlp-interval-ms. The requests of an export are handed over to the
 * sender, which sends them in its own time, as far as it has room for them; those that are left are made at later
 * ticks, of things as they are then. So no request of an export pushes out another one of it.
 */
#include "zernel.h"

/* One less than there is room for: of an older export one may be under way, and stays. */
#define WAITING_MAX (ZN_DELIVERIES_OTLP - 1)

void zn_export_init(struct zn_export *e, const struct zn_state *state, struct zn_sender *sender)
{
	e->state = state;
	e->sender = sender;
	e->next_ns = e->render_ns = 0; /* the text is not touched before it is needed */
	e->unfinished = false;
}

/* The last request that was taken or refused, of this export or before it. */
static uint64_t last_settled(const struct zn_export *e)
{
	uint64_t settled = e->sender->sum[ZN_TO_OTLP].settled;

	return settled > e->before ? settled : e->before;
}

/* Requests of this export that the receiver has not taken. */
static uint64_t count_waiting(const struct zn_export *e)
{
	return e->sender->number[ZN_TO_OTLP] - last_settled(e);
}

/* Whether another export, of as many requests, would push out some of this one. */
static bool is_in_the_way(const struct zn_export *e)
{
	uint64_t waiting = count_waiting(e), made = e->sender->number[ZN_TO_OTLP] - e->before;

	return e->unfinished || (waiting && waiting + made > ZN_DELIVERIES_OTLP);
}

/* An export that is due waits for the one before, as long as its requests are taken. Else the rest of that is lost. */
static void begin_export(struct zn_export *e, uint64_t now_ns)
{
	uint64_t settled = last_settled(e);

	e->next_ns = now_ns + e->state->options->otlp_interval_ms * ZN_NS_PER_MS;
	if (is_in_the_way(e) && settled > e->seen) {
		e->seen = settled;
		return;
	}
	e->sender->lost[ZN_TO_OTLP] += e->unfinished;
	e->before = e->seen = e->sender->number[ZN_TO_OTLP];
	e->at = 0;
	e->made_ns = 0;
	e->unfinished = true;
}

/* The points of a request have the time of the tick that it was made at. */
static void make_requests(struct zn_export *e)
{
	uint64_t start_ns = zn_now_ns(), now_ms = zn_wall_ms();

	while (e->unfinished && count_waiting(e) < WAITING_MAX) {
		struct zn_out o = {.at = e->text, .cap = sizeof(e->text)};

		e->unfinished = zn_otlp_next(&o, e->state, now_ms, &e->at);
		if (e->unfinished)
			zn_sender_send(e->sender, ZN_TO_OTLP, (struct zn_str){o.at, o.len});
	}
	e->made_ns += zn_now_ns() - start_ns;
	if (!e->unfinished)
		e->render_ns = e->made_ns;
}

void zn_export_tick(struct zn_export *e, uint64_t now_ns)
{
	if (!e->sender->destinations[ZN_TO_OTLP] || e->sender->worker.fd < 0)
		return;
	if (now_ns >= e->next_ns)
		begin_export(e, now_ns);
	if (e->unfinished)
		make_requests(e);
}
