/* SPDX-License-Identifier: GPL-2.0 */
/* ports.c: ports of InfiniBand and RoCE devices as metrics and as JSON, and what they carried for a job. */
#include "zernel.h"

static const char *const sums[ZN_FABRIC_SUMS] = {"sent_bytes", "received_bytes", "errors"};

static void port_series(struct zn_walk *w, const struct zn_port *p)
{
	zn_walk_series(w);
	zn_walk_label(w, "device", p->now.device);
	zn_walk_number(w, "port", p->now.port);
}

void zn_ports_counters(struct zn_walk *w)
{
	const struct zn_ports *ports = w->state->hardware ? &w->state->hardware->ports : NULL;
	const struct zn_metric_ports *m = w->metric->arg;
	const struct zn_port *p;

	for (uint32_t i = 0; ports && i < ports->count; i++)
		for (enum zn_port_counter c = 0; (p = zn_ports_at(ports, i)) && c < ZN_PORT_COUNTER_COUNT; c++) {
			if (zn_port_group(c) != m->group || !(p->counted >> c & 1))
				continue;
			port_series(w, p);
			zn_walk_label(w, m->label, zn_port_label(c));
			zn_walk_integer(w, p->total[c]);
		}
}

void zn_ports_active(struct zn_walk *w)
{
	const struct zn_ports *ports = w->state->hardware ? &w->state->hardware->ports : NULL;
	const struct zn_port *p;

	for (uint32_t i = 0; ports && i < ports->count; i++)
		if ((p = zn_ports_at(ports, i))) {
			port_series(w, p);
			zn_walk_label(w, "link", p->now.link);
			zn_walk_integer(w, p->now.active);
		}
}

void zn_ports_rate(struct zn_walk *w)
{
	const struct zn_ports *ports = w->state->hardware ? &w->state->hardware->ports : NULL;
	const struct zn_port *p;

	for (uint32_t i = 0; ports && i < ports->count; i++)
		if ((p = zn_ports_at(ports, i)) && p->now.mbit) {
			port_series(w, p);
			zn_walk_integer(w, p->now.mbit * 125000);
		}
}

static void job_series(struct zn_walk *w, const struct zn_job *job)
{
	zn_walk_series(w);
	zn_walk_label(w, "job_id", job->id);
	w->sample.since_ms = zn_state_job_wall_ms(w->state, job);
}

static void each_job(struct zn_walk *w, uint32_t from, uint32_t to, const char *label, const char *const names[])
{
	uint32_t count;
	const struct zn_job *const *shown = zn_metrics_job_list(w, &count);

	for (uint32_t k = 0; k < count; k++) {
		const struct zn_job_fabric *of = zn_fabric_of(w->state->fabric, shown[k]);

		for (uint32_t i = from; of && i < to; i++) {
			if (!(of->known >> i & 1))
				continue;
			job_series(w, shown[k]);
			if (label)
				zn_walk_label(w, label, names[i]);
			zn_walk_integer(w, of->sum[i]);
		}
	}
}

void zn_ports_job_bytes(struct zn_walk *w)
{
	static const char *const directions[] = {"sent", "received"};

	each_job(w, 0, 2, "direction", directions);
}

void zn_ports_job_errors(struct zn_walk *w)
{
	each_job(w, 2, ZN_FABRIC_SUMS, NULL, NULL);
}

static void put_group(struct zn_json *j, const struct zn_port *p, const char *key, enum zn_port_group group)
{
	zn_json_key_open(j, key, '{');
	for (enum zn_port_counter c = 0; c < ZN_PORT_COUNTER_COUNT; c++)
		if (zn_port_group(c) == group && p->counted >> c & 1)
			zn_json_key_u64(j, zn_port_label(c), p->total[c]);
	zn_json_close(j, '}');
}

bool zn_ports_json_item(struct zn_json *j, const struct zn_hardware *h, uint32_t i)
{
	const struct zn_port *p;

	if (!h || i >= h->ports.count)
		return false;
	if (!(p = zn_ports_at(&h->ports, i)))
		return true;
	zn_json_open(j, '{');
	zn_json_key_text(j, "device", p->now.device);
	zn_json_key_u64(j, "port", p->now.port);
	zn_json_key_text(j, "link", p->now.link);
	zn_json_key(j, "active");
	zn_json_bool(j, p->now.active);
	zn_json_key_known(j, "rate_mbit", p->now.mbit);
	put_group(j, p, "bytes", ZN_PORT_BYTES);
	put_group(j, p, "packets", ZN_PORT_PACKETS);
	put_group(j, p, "errors", ZN_PORT_ERRORS);
	put_group(j, p, "congestion", ZN_PORT_CONGESTION);
	zn_json_close(j, '}');
	return true;
}

void zn_ports_json_job(struct zn_json *j, const struct zn_state *state, const struct zn_job *job)
{
	const struct zn_job_fabric *of = zn_fabric_of(state->fabric, job);

	if (!of)
		return;
	zn_json_key_open(j, "fabric", '{');
	for (uint32_t i = 0; i < ZN_FABRIC_SUMS; i++)
		if (of->known >> i & 1)
			zn_json_key_u64(j, sums[i], of->sum[i]);
	zn_json_close(j, '}');
}
