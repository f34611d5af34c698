/* SPDX-License-Identifier: GPL-2.0 */
/*
 * export.c: pushes all metrics by OTLP, every --otlp-interval-ms. All requests of an export are made in one turn of the
 * loop, of one state of things, and handed over to the sender, which sends them in its own time.
 */
#include "zernel.h"

void zn_export_init(struct zn_export *e, const struct zn_state *state, struct zn_sender *sender)
{
	e->state = state;
	e->sender = sender;
	e->next_ns = e->render_ns = 0; /* the text is not touched before it is needed */
}

void zn_export_tick(struct zn_export *e, uint64_t now_ns)
{
	struct zn_out o = {.at = e->text, .cap = sizeof(e->text)};
	uint64_t start_ns = zn_now_ns(), now_ms = zn_wall_ms();
	uint32_t at = 0;

	if (!e->sender->destinations[ZN_TO_OTLP] || e->sender->worker.fd < 0 || now_ns < e->next_ns)
		return;
	e->next_ns = now_ns + e->state->options->otlp_interval_ms * ZN_NS_PER_MS;
	while (zn_otlp_next(&o, e->state, now_ms, &at)) {
		zn_sender_send(e->sender, ZN_TO_OTLP, (struct zn_str){o.at, o.len});
		o.len = 0;
	}
	e->render_ns = zn_now_ns() - start_ns;
}
